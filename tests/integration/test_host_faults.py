"""Four hosts fail in four ways in one deployment: each is told by itself, the others finish, the next run mends only that."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from appliance.lab.spec import RackSpec
from appliance.models.run import RunRecord, StageState
from tests.integration.rack import Bench, Deployment, Event, own_name, raised

pytestmark = [
    pytest.mark.rack,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
]

HEAD = "head"
FINGERPRINT = r"SHA256:[A-Za-z0-9+/]{43}"
# A wide terminal: what is said of a host must be one line, and only a narrow terminal may fold it.
WIDE = {"COLUMNS": "400"}
PATIENCE = 75.0
"""Seconds from the fault until a host that hangs is given up; the work before and after it not counted."""


@dataclass(frozen=True)
class Fault:
    """What is done to a host, and what a person must be told: cause and remedy, as patterns."""

    host: str
    kind: str
    cause: str
    fix: str


FAULTS = (
    Fault("gpu-1", "power-off", r"does not answer|no longer answers", r"power|console"),
    Fault("gpu-2", "freeze", r"SSH does not answer|no longer answers|did not end within", r"hangs"),
    Fault(
        "gpu-3",
        "host-key",
        rf"host key changed: pinned {FINGERPRINT}, the host shows {FINGERPRINT}",
        r"appliance trust --site \S+ --hosts gpu-3",
    ),
    Fault("gpu-4", "full-disk", r"disk is full", r"free space on gpu-4"),
)
SILENT = ("gpu-1", "gpu-2", "gpu-3")


@dataclass
class Ended:
    """A deployment at its end; ``seconds`` from the moment the hosts were hurt."""

    code: int
    text: str
    run: str
    record: RunRecord
    seconds: float
    entries: list[Event] = field(default_factory=list)

    def begun(self) -> set[tuple[str, str]]:
        """Stage and host of everything that was begun."""
        return {(e["stage"], e["host"]) for e in self.entries if e["kind"] == "host_started"}

    def done(self, host: str) -> set[str]:
        """Stages the host came through."""
        return {e["stage"] for e in self.entries if e["kind"] == "host_done" and e["host"] == host}


def _ended(bench: Bench, deployment: Deployment, hurt: float) -> Ended:
    code = deployment.end()
    seconds = time.monotonic() - hurt
    run = bench.journal("run_started")[-1]["run"]
    record = RunRecord.model_validate(bench.report(run))
    return Ended(code, deployment.text, run, record, seconds, bench.journal(run_id=run))


def _hurt_all(bench: Bench) -> float:
    for fault in FAULTS:
        bench.hurt(fault.host, fault.kind)
    return time.monotonic()


def _heal_all(bench: Bench) -> None:
    for fault in FAULTS:
        bench.heal(fault.host, fault.kind)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with raised(RackSpec(own_name("faults"), 5), tmp_path_factory.mktemp("faults"), Bench) as found:
        yield found


@pytest.fixture(scope="module")
def before(bench: Bench) -> Ended:
    """The first deployment of all; the four are hurt before it begins, so that nothing is known of three of them."""
    hurt = _hurt_all(bench)
    ended = _ended(bench, bench.deploy(env=WIDE), hurt)
    _heal_all(bench)
    return ended


@pytest.fixture(scope="module")
def during(bench: Bench, before: Ended) -> Ended:
    """The next one; the four are hurt when each of them is at work in stage base."""
    deployment = bench.deploy("--verbose", env=WIDE)
    deployment.until_it_says(r"  base gpu-\d: (?!Gathering)", len(FAULTS))
    hurt = _hurt_all(bench)
    ended = _ended(bench, deployment, hurt)
    _heal_all(bench)
    return ended


@pytest.fixture(scope="module")
def after(bench: Bench, during: Ended) -> Ended:
    """The last one, with every host sound again; to the last stage that needs all hosts at once."""
    _mend_subnet_manager(bench)
    _mend_clocks(bench)
    return _ended(bench, bench.deploy("--until", "slurm", env=WIDE), time.monotonic())


def _mend_subnet_manager(bench: Bench) -> None:
    """Does what fabric.sm advises, where it fails.

    ibsim has ten client slots; hosts that die with a tool at work can cost opensm its own, which no real fabric knows.
    """
    for _ in range(6):
        if bench.program("health", "--check", "fabric.sm").returncode != 1:
            return
        bench.shell(HEAD, "systemctl restart 'opensm@*' opensm")
        time.sleep(5)


def _mend_clocks(bench: Bench) -> None:
    """Asks for the time again where a clock is lost, and waits until it is found: chrony doubts a host that stood still."""
    deadline = time.monotonic() + 300
    while (
        bench.program("health", "--check", "base.clock").returncode and time.monotonic() < deadline
    ):
        for fault in FAULTS:
            bench.shell(fault.host, "chronyc burst 4/4")
        time.sleep(10)


def _told(ended: Ended, fault: Fault) -> list[tuple[str, str]]:
    """Cause and remedy of what the report says of a host."""
    results = [(r.cause, r.fix) for r in ended.record.results if r.host == fault.host]
    outcomes = [(o.cause, o.fix) for o in ended.record.outcomes if o.host == fault.host]
    return [(cause, fix) for cause, fix in results + outcomes if cause]


def _assert_told(ended: Ended, fault: Fault) -> None:
    told = _told(ended, fault)
    assert [1 for c, f in told if re.search(fault.cause, c) and re.search(fault.fix, f)], told
    assert all("\n" not in c + f for c, f in told)
    lines = ended.text.splitlines()
    causes = [i for i, line in enumerate(lines) if re.search(fault.cause, line)]
    named = [i for i in causes if fault.host in " ".join(lines[max(0, i - 1) : i + 1])]
    assert named, ended.text
    assert any(re.search(fault.fix, " ".join(lines[i : i + 2])) for i in named), ended.text
    assert "Traceback" not in ended.text


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.kind)
def test_host_hurt_before_is_told_with_cause_and_remedy(before: Ended, fault: Fault) -> None:
    assert before.code == 1
    _assert_told(before, fault)


def test_host_hurt_before_does_not_keep_the_others_from_their_work(before: Ended) -> None:
    assert before.done(HEAD) == {"base", "fabric", "storage", "slurm", "observe"}
    assert not {host for _, host in before.begun()} & set(SILENT)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.kind)
def test_host_hurt_at_work_is_told_with_stage_cause_and_remedy(during: Ended, fault: Fault) -> None:
    assert during.code == 1
    _assert_told(during, fault)
    failed = {
        o.stage: o.cause
        for o in during.record.outcomes
        if o.host == fault.host and o.state is StageState.FAILED
    }
    assert failed
    for stage, cause in failed.items():
        assert re.search(fault.cause, cause)
        line = rf"{fault.host}\b.*\b{stage}\b|\b{stage} {fault.host}"
        assert re.search(line, during.text)


def test_what_failed_is_not_tried_further_and_everything_else_is_done(during: Ended) -> None:
    states = {(o.stage, o.host): o.state for o in during.record.outcomes}
    good = {StageState.DONE, StageState.SKIPPED}
    assert {state for (_, host), state in states.items() if host == HEAD} - good <= {
        StageState.NOT_RUN  # validate: only of a whole cluster
    }
    assert StageState.BLOCKED in {s for (_, h), s in states.items() if h == "gpu-4"}


@pytest.mark.parametrize("host", SILENT)
def test_host_that_went_away_is_tried_in_no_stage_that_begins_later(
    during: Ended, host: str
) -> None:
    """Stages that are at work side by side may find out at the same time."""
    mine = [o for o in during.record.outcomes if o.host == host and o.stage != "validate"]
    lost = {o.stage for o in mine if o.state is StageState.FAILED}
    assert lost
    left = [o for o in mine if o.state is StageState.NOT_RUN]
    assert "slurm" in {o.stage for o in left}
    assert {o.why for o in left} <= {f"{host} went away in stage {stage}" for stage in lost}
    begun = {stage for stage, name in during.begun() if name == host}
    assert begun == lost | during.done(host)


def test_host_that_hangs_does_not_hold_the_run(during: Ended) -> None:
    (entry,) = [e for e in during.entries if e["kind"] == "host_failed" and e["host"] == "gpu-2"]
    assert entry["seconds"] < PATIENCE
    assert during.seconds < 3 * PATIENCE


def test_next_run_does_only_what_was_missing_and_ends_well(
    bench: Bench, during: Ended, after: Ended
) -> None:
    assert after.code == 0, after.text
    finished = {
        (e["stage"], e["host"])
        for e in bench.journal("host_done")
        if e["seq"] < after.entries[0]["seq"]
    }
    # Slurm's tree of switches is written anew everywhere once the hosts that were away are in it.
    assert {pair for pair in after.begun() & finished if pair[0] != "slurm"} == set()
    assert all(o.state in {StageState.DONE, StageState.SKIPPED} for o in after.record.outcomes)
    assert Path(bench.site / "runs" / after.run / "report.html").exists()
