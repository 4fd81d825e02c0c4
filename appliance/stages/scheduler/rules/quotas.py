"""Rules for the sums of the queue tree: guarantees can be kept."""

from collections.abc import Iterator, Mapping

from appliance.config.finding import Finding
from appliance.config.rules.base import Case
from appliance.stages.scheduler.queues.tree import (
    RESOURCES,
    Node,
    amounts,
    capacity,
    nodes,
    of_a_gpu,
)
from appliance.stages.scheduler.rules.queues import is_tree
from appliance.stages.scheduler.site import Amount

UNITS = {"gpu": "GPUs", "cpu": "cores", "memory": "GB"}
NOISE = 1e-6
Given = Mapping[str, Mapping[str, Amount | None]]


def bounds(case: Case) -> Iterator[Finding]:
    """Limits are not below guarantees, and every queue can get resources."""
    for node in _tree(case):
        for name in RESOURCES:
            amount: Amount | None = getattr(node.share, name, None)
            if amount is None:
                continue
            if amount.limit is not None and amount.limit < amount.quota:
                yield case.problem(
                    (*node.path, name, "limit"),
                    f"{_number(amount.limit)} is below the quota of {_number(amount.quota)} {UNITS[name]}",
                    "raise the limit to the quota, or lower the quota",
                )
            if not amount.quota and not amount.weight and amount.limit != 0:
                yield case.problem(
                    (*node.path, name, "weight"),
                    f"is 0 with a quota of 0: {node.title} never gets {UNITS[name]}",
                    "set a quota or a weight, or limit: 0 if it should have none",
                )
        if node.leaf and node.leaf.work != "train":
            yield from _within_quota(case, node)


def within(case: Case) -> Iterator[Finding]:
    """Work that runs within its quota only has one of cores and memory, given or by its GPUs."""
    options = case.site.scheduler
    if options is None or options.kind == "runai" or not case.profile:
        return
    if not case.checked.whole("hosts"):
        return
    tree = _tree(case)
    given = amounts(tree, of_a_gpu(case.site, case.profile, options))
    for node in tree:
        if node.leaf is None or node.leaf.work == "train":
            continue
        for name in RESOURCES[1:]:
            amount = given[node.name][name]
            if getattr(node.leaf, name) is None and amount is not None and not amount.quota:
                without = "the other queues leave it none" if node.leaf.gpu.quota else "it has none"
                yield case.problem(
                    node.path,
                    f"{node.leaf.work} work runs within its quota only, and {UNITS[name]} without a value follow the guaranteed"
                    f" GPUs: {without}",
                    f"give it {name}: {{quota: ...}}",
                )


def _within_quota(case: Case, node: Node) -> Iterator[Finding]:
    assert node.leaf is not None
    for name in RESOURCES:
        amount: Amount | None = getattr(node.leaf, name)
        if amount and amount.limit is not None and amount.limit > amount.quota:
            yield case.problem(
                (*node.path, name, "limit"),
                f"{_number(amount.limit)} is above the quota of {_number(amount.quota)} {UNITS[name]}, but"
                f" {node.leaf.work} work is never evicted and runs within its quota only",
                "remove the limit, raise the quota, or set work: train",
            )


def limits(case: Case) -> Iterator[Finding]:
    """No limit exceeds that of a parent."""
    tree = _tree(case)
    by_name = {node.name: node for node in tree}
    for node in tree:
        for name in RESOURCES:
            own = _limit(node, name)
            above = by_name.get(node.parent or "")
            while above is not None and _limit(above, name) is None:
                above = by_name.get(above.parent or "")
            if own is None or above is None or own <= (top := _limit(above, name) or 0.0):
                continue
            stated = getattr(node.leaf or node.share, name).limit is not None
            yield case.problem(
                (*node.path, name, "limit" if stated else "quota"),
                f"{_number(own)} {UNITS[name]} is above the limit of {above.title},"
                f" {_number(top)}{_pool(above)}",
                f"use at most {_number(top)}, or raise the other",
            )


def _limit(node: Node, name: str) -> float | None:
    amount: Amount | None = getattr(node.share, name, None)
    return amount.limit if amount else None


def sums(case: Case) -> Iterator[Finding]:
    """Guarantees of children do not exceed their parent's, those of roots not the capacity."""
    tree = _tree(case)
    given = amounts(tree)
    by_name = {node.name: node for node in tree}
    room = capacity(case.site, case.profile) if case.profile and case.checked.whole("hosts") else {}
    below_of: dict[str | None, list[Node]] = {}
    for node in tree:
        below_of.setdefault(node.parent if node.parent in by_name else None, []).append(node)
    for parent in (*tree, None):
        children = below_of.get(parent.name if parent else None, [])
        pools = dict.fromkeys(n.pool for n in children)
        for pool in pools:
            below = [n for n in children if n.pool == pool]
            if parent is not None and parent.share is not None:
                yield from _under(case, parent, below, given)
            elif parent is None and pool in room:
                yield from _capacity(case, pool, below, given, room[pool])


def _under(case: Case, parent: Node, children: list[Node], given: Given) -> Iterator[Finding]:
    for name in RESOURCES:
        own = given[parent.name][name]
        if own is None:
            continue
        total = 0.0
        for child in children:
            amount = given[child.name][name]
            if amount is None:
                yield case.problem(
                    child.path,
                    f"{child.title} has no quota of {UNITS[name]}, but {parent.title} has"
                    f" {_number(own.quota)}{_pool(parent)}",
                    f"give it {name}: {{quota: ...}}",
                )
                continue
            total += amount.quota
        if total > own.quota + NOISE:
            yield case.problem(
                (*parent.path, name, "quota"),
                f"{_number(own.quota)} {UNITS[name]}, but its"
                f" {'queues' if parent.title.startswith('project') else 'children'} are guaranteed"
                f" {_number(total)}: {_parts(children, given, name)}",
                f"raise it to {_number(total)}, or lower theirs",
            )


def _capacity(
    case: Case, pool: str, roots: list[Node], given: Given, room: Mapping[str, float]
) -> Iterator[Finding]:
    for name in RESOURCES:
        total = sum(a.quota for n in roots if (a := given[n.name][name]) is not None)
        if total > room[name] + NOISE:
            where = "scheduler" if len(roots) > 1 else ""
            yield case.problem(
                ("scheduler",) if where else roots[0].path,
                f"{_number(total)} {UNITS[name]} are guaranteed, but node pool {pool} has"
                f" {_number(room[name])}: {_parts(roots, given, name)}",
                f"lower them by {_number(total - room[name])}, or give the pool more hosts",
            )


def _tree(case: Case) -> tuple[Node, ...]:
    """The tree, if its names and references are valid; other rules report invalid ones."""
    options = case.site.scheduler
    return nodes(options) if options and is_tree(case) else ()


def _parts(children: list[Node], given: Given, name: str) -> str:
    parts = [(n.title, a.quota) for n in children if (a := given[n.name][name]) and a.quota]
    shown = [f"{title} {_number(quota)}" for title, quota in parts[:4]]
    return ", ".join(shown) + (f" and {len(parts) - 4} more" if len(parts) > 4 else "")


def _pool(node: Node) -> str:
    return "" if node.pool == "default" else f" of pool {node.pool}"


def _number(value: float) -> str:
    return f"{round(value, 3):g}" if value < 1e5 else f"{value:.0f}"
