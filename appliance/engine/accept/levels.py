"""Gates that follow from checks: one per level that the site has checks of, in the order of acceptance."""

from collections.abc import Iterable, Sequence

from appliance.engine.accept.waivers import all_covered
from appliance.models.acceptance import Gate, GateState, Level
from appliance.models.result import CheckResult, Status, lacking
from appliance.models.waiver import Waiver
from appliance.stages.catalog import CHECKS
from appliance.text import plural

ORDER = tuple(Level)
OF_AREA = {
    "host": Level.HARDWARE,
    "base": Level.SYSTEM,
    "observe": Level.SYSTEM,
    "os": Level.SYSTEM,
    "gpu": Level.GPU,
    "mig": Level.GPU,
    "fabric": Level.FABRIC,
    "storage": Level.STORAGE,
}
"""Level by the first part of a check's id; all others belong to the schedulers and their work."""
FIRMWARE = ("vbios", "firmware", "bios", "bmc")
MACHINE = frozenset(check.id for check in CHECKS if check.of_machine)
"""Checks of stages that concern the hardware."""


def level_of(check: str) -> Level:
    """Return the level of acceptance that a check belongs to."""
    area, _, rest = check.partition(".")
    if any(word in rest for word in FIRMWARE):
        return Level.FIRMWARE
    if area == "stage":
        return OF_AREA.get(rest, Level.SCHEDULERS)
    if check in MACHINE:
        return Level.HARDWARE
    return OF_AREA.get(area, Level.SCHEDULERS)


def check_gates(results: Iterable[CheckResult], waivers: Sequence[Waiver]) -> tuple[Gate, ...]:
    """Return one gate per level with checks: failed if one failed, open if a required one has no verdict."""
    by_level: dict[Level, list[CheckResult]] = {}
    for result in results:
        by_level.setdefault(level_of(result.id), []).append(result)
    return tuple(_gate(level, by_level[level], waivers) for level in ORDER if level in by_level)


def in_order(gates: Iterable[Gate]) -> tuple[Gate, ...]:
    """Order gates by level; within a level, checks precede measurements."""
    return tuple(sorted(gates, key=lambda gate: ORDER.index(gate.level or Level.BURN_IN)))


def _gate(level: Level, results: Sequence[CheckResult], waivers: Sequence[Waiver]) -> Gate:
    bad = lacking(results)
    passed = sum(result.status is Status.PASS for result in results)
    unknown = sum(result.status in {Status.NOT_ASSESSED, Status.SKIP} for result in results)
    left = f", {unknown} not assessed" if unknown else ""
    failed = [r for r in bad if r.status in {Status.FAIL, Status.ERROR}]
    first = next(iter(failed or bad), None)
    state = (
        GateState.FAILED if failed else GateState.OPEN if bad or not passed else GateState.PASSED
    )
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    why = f"{first.id} {first.target}: {first.cause}{more}" if first else ""
    return Gate(
        id=f"checks.{level.name.lower()}",
        title=f"{passed} of {plural(len(results), 'check')} passed now{left}",
        level=level,
        state=state,
        why=why or ("" if passed else "nothing was judged"),
        close=""
        if state is GateState.PASSED
        else (first.fix if first and first.fix else "appliance health"),
        waivers=(all_covered(waivers, [r.key for r in bad]) or ()) if bad else (),
    )
