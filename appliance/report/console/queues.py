"""Queues on a terminal: the tree with its guarantees, and what applying it would change."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from appliance.models.queue_plan import QueuePlan, QueueRow, QueueTree, Step
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
    """Each pool with its queues below it; GPUs as numbers, what is without bound as a dash."""
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
    if tree.admission != "deny":
        said = (
            f"scheduler.admission is {tree.admission}: work that names another project's queue is not refused, and no quota is sure."
            " Set deny once no warning is left"
        )
        console.print(said, style="yellow", highlight=False)


def plan_lines(plan: QueuePlan) -> Iterator[str]:
    """One line per resource, with each field that differs; what stands in the way with its remedy."""
    for change in plan.changes:
        said = f": {', '.join(change.details)}" if change.details else ""
        yield f"  {SIGNS[change.step]} {change.kind} {change.title}{said}"
        if change.remedy:
            yield f"      fix: {change.remedy}"
    counts = [
        f"{n} to {step.value}"
        for step in (Step.CREATE, Step.CHANGE, Step.REPLACE, Step.DELETE)
        if (n := sum(c.step is step for c in plan.changes))
    ]
    if plan.refused:
        counts.append(f"{len(plan.refused)} refused: nothing is applied")
    yield f"  {', '.join(counts) or 'nothing to do'} ({plan.unchanged} as described)"


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
