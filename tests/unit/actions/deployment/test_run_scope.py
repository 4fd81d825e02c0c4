"""A run that was kept to a part of the site is judged by that part, and says what it left out."""

import pytest

from appliance.actions.deployment.run_scope import Scope, scope_of
from appliance.engine.plan.selection import Filters, select
from appliance.engine.session import Session
from appliance.models.result import CheckResult, Status
from tests.support.engine_session import hosts, recorder, session

__all__ = ["hosts", "recorder", "session"]


def scope(session: Session, **flags: object) -> Scope:
    filters = Filters(**flags)  # type: ignore[arg-type]
    return scope_of(session.site, select(session.site, filters))


def result(check: str, target: str, status: Status = Status.PASS) -> CheckResult:
    return CheckResult(id=check, target=target, status=status)


@pytest.mark.parametrize("flags", [{}, {"until": "validate"}])
def test_whole_run_judges_everything_and_leaves_nothing_out(
    session: Session, flags: dict[str, object]
) -> None:
    whole = scope(session, **flags)
    assert whole.judges(result("gpu.ecc", "gpu-1/GPU 0"))
    assert whole.judges(result("slurm.job", "cluster"))
    assert whole.sentences([result("gpu.ecc", "gpu-1", Status.FAIL)]) == ()


@pytest.mark.parametrize(
    ("check", "target", "judged"),
    [
        ("base.os", "gpu-1", True),
        ("base.failed_units", "head", True),
        ("base.clock_spread", "cluster", True),
        ("stage.base", "gpu-1", True),
        ("host.reachable", "gpu-1", True),
        ("stage.slurm", "gpu-1", False),
        ("slurm.daemons", "gpu-1", False),
        ("gpu.ecc", "gpu-1/GPU 0", False),
        ("slurm.job", "cluster", False),
    ],
)
def test_run_of_a_stage_is_judged_by_what_that_stage_brings(
    session: Session, check: str, target: str, judged: bool
) -> None:
    assert scope(session, stages=("base",)).judges(result(check, target)) is judged


@pytest.mark.parametrize(
    ("check", "target", "judged"),
    [
        ("slurm.daemons", "gpu-1", True),
        ("gpu.ecc", "gpu-1/GPU 0", True),
        ("slurm.daemons", "gpu-2", False),
        ("host.reachable", "gpu-2", False),
        ("base.clock_spread", "cluster", False),
    ],
)
def test_run_of_a_host_is_judged_by_that_host(
    session: Session, check: str, target: str, judged: bool
) -> None:
    assert scope(session, limit=("gpu-1",)).judges(result(check, target)) is judged


def test_what_was_left_out_is_named(session: Session) -> None:
    narrow = scope(session, stages=("base", "slurm"), limit=("gpu-1",))
    (said,) = narrow.sentences([])
    assert "--hosts gpu-1 --stage base --stage slurm" in said
    assert "validate" in said
    assert "fabric" in said
    assert "hosts head, gpu-2" in said
    assert "slurm," not in said.split("stages ")[1]


def test_failure_beside_the_part_is_counted_not_hidden(session: Session) -> None:
    narrow = scope(session, limit=("gpu-1",))
    seen = [result("gpu.ecc", "gpu-2", Status.FAIL), result("gpu.ecc", "gpu-1", Status.FAIL)]
    assert narrow.sentences(seen)[1] == "1 check outside of this run failed: appliance health"
