"""Predicts what a change restarts on a host: by the receipt's inputs, by drift, and by what runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from appliance.engine.plan.fingerprint import Digests, changed_inputs
from appliance.engine.plan.prepare import Prepared
from appliance.engine.session import Session
from appliance.models.facts import HostFacts, Receipt
from appliance.models.site import Host
from appliance.stages.context import Shared
from appliance.stages.restart import Restart
from appliance.stages.stage import Stage
from appliance.stages.units import RUNS

RUNNING = RUNS | {"reloading", "activating"}
EMPTY: tuple[object, ...] = ([], {}, "", False, None)
REWRITTEN = frozenset({"as written", "a file"})
"""States of a changed file, in the probe's words. A file with only another mode is not written again."""
SYSTEMD = ("/etc/systemd/system/", "/run/systemd/system/")


@dataclass(frozen=True)
class Restarting:
    """Names of units in the plan: certainly restarted, and possibly restarted."""

    sure: tuple[str, ...] = ()
    maybe: tuple[str, ...] = ()


@dataclass(frozen=True)
class StageChange:
    """Why a stage runs on a host.

    ``filled``: variables that became empty or non-empty. ``unknown``: files of the role may differ for reasons
    that no input shows. ``unfit``: the host differs from the state in which the stage left it.
    """

    variables: frozenset[str]
    filled: frozenset[str]
    files: frozenset[str]
    unknown: bool
    unfit: bool


def change_of(session: Session, receipt: Receipt, known: Prepared, *, unfit: bool) -> StageChange:
    """Return what differs from the receipt. With another secret of the site all digests differ, and nothing is known."""
    changed = frozenset(changed_inputs(receipt.inputs, known.inputs))
    named = (receipt.inputs.keys() & known.variables.keys()) | (changed & known.variables.keys())
    variables = changed & named
    other_key = len(named) > 1 and variables == named
    files = changed - known.variables.keys()
    return StageChange(
        variables=frozenset() if other_key else variables,
        filled=_filled(session, variables, receipt, known),
        files=frozenset(
            d.name for d in receipt.drift if d.kind == "file" and d.expected in REWRITTEN
        ),
        unknown=other_key
        or bool(files)
        or bool(receipt.unread)
        or any(d.kind == "package" for d in receipt.drift),
        unfit=unfit,
    )


def _filled(
    session: Session, changed: Iterable[str], receipt: Receipt, known: Prepared
) -> frozenset[str]:
    digests = Digests(session.salt, Shared())
    empty = {digests.of(value) for value in EMPTY}
    return frozenset(
        name
        for name in changed
        if (receipt.inputs.get(name) in empty) != (known.inputs.get(name) in empty)
    )


def certain_restarts(
    stage: Stage, host: Host, facts: HostFacts, known: Prepared, change: StageChange | None
) -> Restarting:
    """Return units that applying the stage restarts; ``change`` is None on a host that never had the stage."""
    sure: list[str] = []
    maybe: list[str] = []
    for one in _there(stage, host, facts, known, had=change is not None):
        if change and (_is_sure(one, change) or one.when(host, facts, known.variables)):
            sure.append(one.unit)
        elif change is None or _is_possible(one, change):
            maybe.append(one.unit)
    return Restarting(tuple(sure), tuple(maybe))


def possible_restarts(
    stage: Stage, host: Host, facts: HostFacts, known: Prepared
) -> tuple[str, ...]:
    """Return units that a finished stage restarts if it learns new facts, which reach files through variables."""
    found = _there(stage, host, facts, known, had=True)
    return tuple(one.unit for one in found if one.variables or one.maybe)


def restarts_of_purge(paths: Iterable[str], facts: HostFacts) -> Restarting:
    """Return units that are restarted because role base moves foreign files away."""
    units = {unit for path in paths if (unit := _unit_of(path))}
    if any(path.startswith("/etc/ssh/") for path in paths):
        units |= {name for name in ("ssh.service", "sshd.service") if _runs(name, facts)}
    running = {unit for unit in units if _runs(unit, facts)}
    return Restarting(
        tuple(sorted(unit.removesuffix(".service") for unit in running)),
        tuple(sorted(u.removesuffix(".service") for u in units if u not in facts.units)),
    )


def merged_restarts(found: Sequence[Restarting]) -> Restarting:
    """Return each unit once; a certain restart is not listed as possible."""
    sure = tuple(dict.fromkeys(unit for one in found for unit in one.sure))
    maybe = dict.fromkeys(unit for one in found for unit in one.maybe if unit not in sure)
    return Restarting(sure, tuple(maybe))


def _there(
    stage: Stage, host: Host, facts: HostFacts, known: Prepared, *, had: bool
) -> list[Restart]:
    """Return units that run on the host now; for units the probe does not read, those the stage installed."""
    return [
        one
        for one in stage.restarts
        if (_runs(one.name, facts) if one.name in facts.units else had or one.before)
        and one.on(host, facts, known.variables)
    ]


def _is_sure(one: Restart, change: StageChange) -> bool:
    return (
        not change.variables.isdisjoint(one.variables)
        or not change.filled.isdisjoint(one.presence)
        or not change.files.isdisjoint(one.files)
    )


def _is_possible(one: Restart, change: StageChange) -> bool:
    return (
        change.unknown
        or not change.variables.isdisjoint(one.maybe)
        or (change.unfit and bool(one.by))
    )


def _runs(name: str, facts: HostFacts) -> bool:
    unit = facts.units.get(name)
    # Systemd does not run in an image, and "offline" is not a state of a unit.
    return unit is not None and unit.active in RUNNING


def _unit_of(path: str) -> str:
    if not path.startswith(SYSTEMD):
        return ""
    name = path.split("/")[4].removesuffix(".d")
    return name if "." in name and "@." not in name else ""
