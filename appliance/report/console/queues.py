"""Prints queues: the tree with its guarantees, and what applying it would change."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from appliance.models.queue_plan import QueuePlan, QueueRow, QueueState, QueueTree, Step
from appliance.report.formatting import duration
from appliance.text import plural

SIGNS = {
    Step.CREATE: "+",
    Step.CHANGE: "~",
    Step.REPLACE: "±",
    Step.DELETE: "-",
    Step.REFUSE: "!",
    Step.LEAVE: "·",
}


def queue_tree(console: Console, tree: QueueTree) -> None:
    """Print each pool with its queues below it; GPUs are numbers, unlimited values a dash."""
    for pool in tree.pools:
        rows = [row for row in tree.queues if row.pool == pool.name]
        if not rows and not pool.hosts:
            continue
        said = (
            f"pool {pool.name}: {plural(len(pool.hosts), 'host')}, {pool.gpus:g} GPUs,"
            f" {pool.guaranteed:g} guaranteed"
        )
        console.print(said, style="bold", highlight=False)
        console.print(_table(rows))
    if tree.kind != "runai":
        said = (
            "cores and GB without a value in site.yml follow the guaranteed GPUs, by the hosts of the profile; queue plan and apply"
            " use the size of the cluster's nodes if these have more"
        )
        console.print(said, style="dim", highlight=False)
    if tree.admission != "deny":
        said = (
            f"scheduler.admission is {tree.admission}: pods that name another project's queue are accepted, so quotas are not guaranteed."
            " Set deny after all warnings are resolved"
        )
        console.print(said, style="yellow", highlight=False)


MOST_WAITING = 20


def queue_state(console: Console, state: QueueState) -> None:
    """Print each queue with its GPUs, then the pods that wait, each with its cause and remedy."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("  queue")
    table.add_column("pool")
    for name in ("guaranteed", "at most", "allocated", "requested", "pods that wait"):
        table.add_column(name, justify="right")
    for use in state.queues:
        table.add_row(
            f"  {use.name}",
            use.pool,
            f"{use.gpu_quota:g}",
            _bound(use.gpu_limit),
            _known(use.gpu_allocated),
            _known(use.gpu_requested),
            str(use.waiting),
        )
    console.print(table)
    console.print()
    if not state.waiting:
        console.print("  no pod waits for a host", highlight=False)
    for pod in state.waiting[:MOST_WAITING]:
        said = f"  {pod.namespace}/{pod.name}  {pod.queue}  {pod.requests}  waits {duration(pod.waits_s)}"
        console.print(said, style="bold", highlight=False)
        console.print(f"    {pod.cause}", highlight=False)
        if pod.fix:
            console.print(f"    fix: {pod.fix}", highlight=False)
    if (more := len(state.waiting) - MOST_WAITING) > 0:
        console.print(f"  and {plural(more, 'more pod')}; --json lists all", highlight=False)


def _known(gpus: float | None) -> str:
    return "?" if gpus is None else f"{gpus:g}"


def plan_lines(plan: QueuePlan) -> Iterator[str]:
    """Print the totals, then one line per resource with each field that differs; obstacles are printed with their remedy."""
    counts = [
        f"{n} to {step.value}"
        for step in (Step.CREATE, Step.CHANGE, Step.REPLACE, Step.DELETE)
        if (n := sum(c.step is step for c in plan.changes))
    ]
    if plan.refused:
        counts.append(f"{len(plan.refused)} refused: nothing is applied")
    yield f"  {', '.join(counts) or 'nothing to do'} ({plan.unchanged} as described)"
    for change in plan.changes:
        said = f": {', '.join(change.details)}" if change.details else ""
        yield f"  {SIGNS[change.step]} {change.kind} {change.title}{said}"
        if change.remedy:
            yield f"      fix: {change.remedy}"


def _table(rows: list[QueueRow]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("queue")
    table.add_column("work")
    for name in ("GPUs", "at most", "weight", "cores", "GB"):
        table.add_column(name, justify="right")
    table.add_column("")
    for row in rows:
        table.add_row(
            f"  {'  ' * row.depth}{row.name}",
            row.work,
            f"{row.gpu_quota:g}",
            _bound(row.gpu_limit),
            f"{row.weight:g}",
            _bound(row.cpu_quota),
            _bound(row.memory_quota),
            ", ".join(row.rules),
        )
    return table


def _bound(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
