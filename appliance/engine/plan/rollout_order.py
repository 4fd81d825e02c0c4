"""Orders the hosts of a stage into waves where hosts must be drained for it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from appliance.models.facts import HostFacts
from appliance.models.plan import HostStage
from appliance.models.site import Owner, Site
from appliance.stages.context import Variables
from appliance.stages.stage import Stage


def in_rollout_order(site: Site, stage: Stage, cells: Sequence[HostStage]) -> list[HostStage]:
    """Return the cells with their waves: leading hosts one after the other, then hosts without a drain, then a limited number at a time."""
    changing = [c for c in cells if c.action.changes]
    if not any(c.drain for c in changing):
        return list(cells)
    leading = [c for c in changing if leads(site, stage, c.host)]
    others = [c for c in changing if c not in leading]
    turns = [
        *([c] for c in leading),
        [c for c in others if not c.drain],
        *_waves(site, [c for c in others if c.drain]),
    ]
    # With leading hosts, wave 0 is left to cells that wait for no host.
    numbers = {c.host: n for n, turn in zip(count(1 if leading else 0), turns) for c in turn}
    return [c.model_copy(update={"wave": numbers.get(c.host, 0)}) for c in cells]


def leads(site: Site, stage: Stage, host: str) -> bool:
    """Return whether a host precedes those that do not lead."""
    return not stage.rolls_first.isdisjoint(site.host(host).roles)


def waiting_leader(
    site: Site,
    stage: Stage,
    cells: Sequence[HostStage],
    facts: Mapping[str, HostFacts],
    variables: Mapping[str, Variables],
) -> str:
    """Return a leading host that still has to be changed and is not among these cells; "" if there is none.

    A host of unknown state counts while others are to be drained.
    """
    changing = {c.host for c in cells}
    drained = any(c.drain for c in cells)
    for host in site.hosts:
        if host.name in changing or host.name not in variables or not leads(site, stage, host.name):
            continue
        known = facts.get(host.name)
        if stage.drains(host, known, variables[host.name]) or (known is None and drained):
            return host.name
    return ""


def _waves(site: Site, cells: Sequence[HostStage]) -> Iterator[list[HostStage]]:
    """Yield a limited number of hosts of each owner at a time, in the site's order."""
    width = site.gpu.at_once
    by_owner: dict[Owner, list[HostStage]] = {}
    for cell in cells:
        by_owner.setdefault(site.owner(site.host(cell.host)), []).append(cell)
    for begin in range(0, max(map(len, by_owner.values()), default=0), width):
        yield [cell for queue in by_owner.values() for cell in queue[begin : begin + width]]
