"""Every fault of a part in the rack's table: planted, told by exactly the right check in health, plan and report, and gone again.

What follows from the fault may be wrong too, but only as explained by that one result.
"""

import json
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from markupsafe import escape

from appliance.lab.board_faults import REPEATED
from appliance.lab.fabric_faults import LINK_LOSSES, SYMBOL_ERRORS
from appliance.lab.fault import Fault
from appliance.lab.faults import FAULTS, REACHABLE
from appliance.models.plan import Plan
from appliance.models.result import CheckResult, Status
from appliance.models.run import RunRecord
from appliance.report.findings import Roots
from appliance.stages.base import ids as base_ids
from appliance.stages.catalog import STAGES
from tests.integration.deployed import ADMIN, Deployed, appliance

pytestmark = [pytest.mark.rack, pytest.mark.slow]

HOST = "gpu-1"
BAD = frozenset({Status.FAIL, Status.ERROR, Status.WARN})
LATE = "observe.alerts"
"""Alerts come and go minutes after what they tell of: those that fire may be of a fault before."""
SECONDS = 150.0
"""For the fabric's follower and subnet manager; and counters are compared with facts more than a minute old."""
MORE = {
    "port-errors": 2 * int(SYMBOL_ERRORS),
    "port-flapping": 2 * int(LINK_LOSSES),
    "aer-corrected": 2 * int(REPEATED),
}
"""Faults that are told by a counter's growth, and what it shows that has grown twice."""

# Growth needs an earlier reading: by then the faults before have left some.
TOLD = sorted(
    (f for f in FAULTS if f.check not in {"", REACHABLE}), key=lambda fault: fault.kind in MORE
)


@dataclass(frozen=True)
class Look:
    """What one ``health --json --report`` said and kept."""

    results: tuple[CheckResult, ...]
    page: Path

    @property
    def record(self) -> RunRecord:
        """The report beside the page."""
        return RunRecord.model_validate_json(self.page.with_name("report.json").read_text())


@pytest.fixture(scope="module")
def sound(deployed: Deployed) -> Iterator[Deployed]:
    """The rack with nothing wrong, before the first fault and after the last is cleared."""
    until(deployed, lambda seen: not wrong(seen.results))
    yield deployed
    until(deployed, lambda seen: not wrong(seen.results))


def test_what_only_root_may_see_is_unknown_to_an_ordinary_user_and_never_good(
    sound: Deployed, tmp_path: Path
) -> None:
    site = shutil.copytree(sound.site, tmp_path / "site", ignore=shutil.ignore_patterns("runs"))
    text = (site / "site.yml").read_text()
    assert "  user: root\n" in text
    (site / "site.yml").write_text(text.replace("  user: root\n", f"  user: {ADMIN}\n", 1))
    done = appliance("health", "--site", str(site), "--json")
    assert done.returncode == 3, done.stderr
    said = [CheckResult.model_validate(item) for item in json.loads(done.stdout)["results"]]
    unknown = [r for r in said if r.status is Status.NOT_ASSESSED and r.required]
    assert {r.target for r in unknown} >= {"head", "gpu-1", "gpu-2"}
    assert all("access.become" in r.fix for r in unknown)
    assert appliance("plan", "--site", str(site)).returncode == 2


@pytest.mark.parametrize("fault", TOLD, ids=lambda fault: fault.kind)
def test_fault_is_told_by_its_check_alone(sound: Deployed, fault: Fault) -> None:
    if fault.kind in MORE:
        # A growth shows for a minute after its first look: nothing else may keep that look waiting.
        until(sound, lambda seen: not wrong(seen.results))
    sound.fault(HOST, fault.kind, *fault.example)
    try:
        # Nothing but this one: so the fault of the test before has gone.
        wanted = {(fault.check, fault.target.replace("HOST", HOST))}
        seen = until(sound, lambda seen: wrong(seen.results) == wanted)
        assert_is_judged_alike(sound, fault)
        planned = plan(sound)
        if fault.kind in MORE and not wrong(planned.results):
            # On a busy machine that minute is over before the plan looks: it counts on.
            sound.fault(HOST, fault.kind, *fault.example, str(MORE[fault.kind]))
            planned = plan(sound)
    finally:
        sound.fault(HOST, fault.kind, *fault.example, clear=True)
        give_back(sound)
    told = next(r for r in seen.results if (r.id, r.target) in wanted)
    assert_says(told, fault)
    assert wrong(planned.results) == wanted or is_mended(planned, told)
    assert seen.record.results == seen.results
    page = seen.page.read_text()
    assert all(str(escape(text)) in page for text in (told.id, told.cause, told.fix))


def assert_is_judged_alike(deployed: Deployed, fault: Fault) -> None:
    """The host's own watch, by which Slurm drains, says the same as health: unfit by that check, or fit."""
    done = deployed.shell(HOST, "appliance-watch look")
    assert (done.returncode == 1) is fault.drains, done.stdout
    assert [line.split()[0] for line in done.stdout.splitlines()] == [fault.check] * fault.drains


def give_back(deployed: Deployed) -> None:
    """Slurm itself has it looked every minute meanwhile; after faults of a GPU a person gives it back."""
    deployed.shell(HOST, "appliance-watch act")
    deployed.shell("head", f"scontrol update nodename={HOST} state=resume")


def wrong(results: Iterable[CheckResult]) -> set[tuple[str, str]]:
    """What is bad and not explained by something else that is."""
    known = [r for r in results if r.status in BAD]
    begin = Roots(known)
    roots = [r for r in known if begin.of(r) is r and r.id != LATE]
    return {(r.id, r.target) for r in roots}


def until(deployed: Deployed, holds: Callable[[Look], bool]) -> Look:
    """Looks until it holds, or the time is over; the last look either way.

    ibsim has ten client slots, and a tool that ends badly can cost opensm its own, which no real fabric knows: then what
    the check advises is done, once.
    """
    deadline = time.monotonic() + SECONDS
    seen = look(deployed)
    has_restarted = False
    while not holds(seen) and time.monotonic() < deadline:
        if not has_restarted and ("fabric.sm", "cluster") in wrong(seen.results):
            deployed.said("head", "systemctl restart opensm")
            has_restarted = True
        time.sleep(2)
        seen = look(deployed)
    assert holds(seen), wrong(seen.results)
    return seen


def look(deployed: Deployed) -> Look:
    done = deployed.program("health", "--json", "--report")
    assert done.returncode in {0, 1, 3}, done.stderr
    said = json.loads(done.stdout)
    results = tuple(CheckResult.model_validate(item) for item in said["results"])
    return Look(results, Path(said["report"]))


def plan(deployed: Deployed) -> Plan:
    done = deployed.program("plan", "--json")
    assert done.returncode in {0, 1}, done.stderr
    return Plan.model_validate_json(done.stdout)


def is_mended(planned: Plan, told: CheckResult) -> bool:
    """Whether the plan lets a stage that proves it, or puts it back, run on that host, says why, and finds nothing else wrong."""
    proofs = {stage.name: stage.checks for stage in STAGES}
    cells = [c for c in planned.by_host(told.host or "") if c.action.changes and c.why]
    is_put_back = told.id == base_ids.DRIFT and bool(cells)
    is_proved = any(told.id in proofs.get(c.stage, ()) for c in cells)
    return (is_put_back or is_proved) and not wrong(planned.results)


def assert_says(told: CheckResult, fault: Fault) -> None:
    """The cause of the table, a remedy, each on one line."""
    pattern = ".*".join(map(re.escape, fault.says.split("*")))
    assert re.fullmatch(pattern, told.cause), told.cause
    assert told.fix
    assert "\n" not in told.cause + told.fix
