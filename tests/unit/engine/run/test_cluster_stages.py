"""A stage of the cluster is declared; the engine plans it, runs it, and keeps its receipt."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from appliance.engine.look.gather import Round, Unanswered
from appliance.engine.look.run_record import Findings
from appliance.engine.plan.selection import Selection
from appliance.engine.run import cluster_stages
from appliance.engine.run.cluster_stage_run import ClusterOutcome, run_reported
from appliance.engine.run.cluster_stages import StageWork, noticed, run_cluster_stage, with_cluster
from appliance.engine.run.lease import hosts_changed
from appliance.engine.session import Session
from appliance.journal import Entry
from appliance.models.events import StageDone, StageStarted
from appliance.models.plan import Action, HostStage, Plan
from appliance.models.run import StageOutcome, StageState
from appliance.models.site import Role
from appliance.stages.stage import ClusterStage
from appliance.stages.validate.stage import STAGE as VALIDATE
from tests.support.engine_fakes import Recorder
from tests.support.engine_session import hosts, recorder, session

__all__ = ["hosts", "recorder", "session"]

FOUND = Round({}, {})
LICENSES = ClusterStage(
    name="licenses",
    title="Licenses",
    hosts=lambda site: site.with_role(Role.CONTROL),
    receipt="licensed",
    after=("slurm",),
    noticed_by=("observe",),
)


@dataclass
class Licenses:
    """The work of a stage that only this test has."""

    wanted: int = 8
    ran_on: list[Sequence[str]] = field(default_factory=list)

    def why(self, _: Session, __: Round, ___: Plan, last: Entry | None, asked: bool) -> str:
        """They are others than those of the receipt."""
        new = last is None or last.data["count"] != self.wanted
        return "new licenses" if new or asked else ""

    def run(self, session: Session, hosts: Sequence[str], _: Callable[[], Round]) -> ClusterOutcome:
        """Succeeds."""
        self.ran_on.append(hosts)
        done = ClusterOutcome(changes=self.wanted, receipt={"count": self.wanted})
        return run_reported(session, LICENSES.name, hosts, 2.0, lambda: done)


@pytest.fixture
def licenses(monkeypatch: pytest.MonkeyPatch) -> Licenses:
    given = Licenses()
    work = StageWork(lambda site: 2.0, given.why, given.run)
    monkeypatch.setattr(cluster_stages, "WORK", {LICENSES.name: work, VALIDATE.name: work})
    monkeypatch.setattr(cluster_stages, "CLUSTER_STAGES", (LICENSES,))
    return given


def planned(
    session: Session,
    stage: ClusterStage = LICENSES,
    limit: tuple[str, ...] = ("head", "gpu-1", "gpu-2"),
    found: Round = FOUND,
) -> Plan:
    """The plan of this stage alone, with these hosts of the site."""
    plain = Plan(site="acme", profile="hpc", hosts=limit, stages=())
    return with_cluster(session, found, Selection(cluster=(stage,)), plain)


def ran(session: Session, plan: Plan, *before: StageOutcome) -> list[StageOutcome]:
    """The outcomes of the stage, after these."""
    findings = Findings(outcomes=list(before))
    run_cluster_stage(session, LICENSES, plan, findings, lambda: FOUND)
    return findings.outcomes[len(before) :]


def test_it_has_a_cell_on_each_host_and_runs_once_for_a_state(
    session: Session, licenses: Licenses, recorder: Recorder
) -> None:
    plan = planned(session)
    assert plan.stages == ("licenses",)
    cells = [(c.host, c.action, c.why, c.minutes, c.known) for c in plan.by_stage("licenses")]
    assert cells == [
        ("head", Action.RUN, "new licenses", 2.0, False),
        ("gpu-1", Action.NOT_CONCERNED, "", 0.0, False),
        ("gpu-2", Action.NOT_CONCERNED, "", 0.0, False),
    ]
    (outcome,) = ran(session, plan)
    assert (outcome.stage, outcome.host) == ("licenses", "head")
    assert (outcome.state, outcome.changes) == (StageState.DONE, 8)
    begins, ends = recorder.events
    assert isinstance(begins, StageStarted)
    assert isinstance(ends, StageDone)
    assert (begins.hosts, begins.expected_seconds) == (("head",), 120.0)
    assert (ends.state, ends.done, ends.hosts, ends.note) == (StageState.DONE, 1, 1, "8 changes")
    entry = session.journal.last("licensed")
    assert entry is not None
    assert (entry.run, entry.data) == ("r1", {"count": 8})

    again = planned(session).by_stage("licenses")[0]
    assert (again.action, again.known) == (Action.SKIP, True)
    assert [o.state for o in ran(session, planned(session))] == [StageState.SKIPPED]
    assert licenses.ran_on == [["head"]]
    licenses.wanted = 16
    assert planned(session).by_stage("licenses")[0].action is Action.RUN


def test_it_runs_after_what_it_needs_on_control_hosts(session: Session, licenses: Licenses) -> None:
    def outcome(stage: str, host: str, state: StageState) -> StageOutcome:
        return StageOutcome(stage=stage, host=host, state=state)

    (waits,) = ran(session, planned(session), outcome("slurm", "head", StageState.BLOCKED))
    assert (waits.state, waits.why) == (
        StageState.NOT_RUN,
        "stage slurm must succeed on all hosts first",
    )
    assert licenses.ran_on == []
    assert session.journal.last("licensed") is None
    others = (
        outcome("slurm", "gpu-1", StageState.FAILED),
        outcome("fabric", "head", StageState.FAILED),
        outcome("slurm", "head", StageState.SKIPPED),
    )
    assert [o.state for o in ran(session, planned(session), *others)] == [StageState.DONE]


def test_a_silent_host_it_concerns_is_unknown(session: Session, licenses: Licenses) -> None:
    silent = Round(
        {}, {"head": Unanswered("head", "down", ""), "gpu-1": Unanswered("gpu-1", "", "")}
    )
    cells = {c.host: c.action for c in planned(session, found=silent).by_stage("licenses")}
    assert cells["head"] is Action.UNKNOWN
    assert cells["gpu-1"] is Action.NOT_CONCERNED
    assert ran(session, planned(session, found=silent)) == []
    assert licenses.ran_on == []


def test_hosts_of_a_stage_that_is_named_join_a_plan_of_a_few(
    session: Session, licenses: Licenses
) -> None:
    """``--hosts gpu-1 --stage validate`` ended with KeyError: its cells were on hosts that the plan did not list."""
    plan = planned(session, limit=("gpu-1",))
    assert plan.hosts == ("head", "gpu-1")
    assert [(c.host, c.action) for c in plan.pending()] == [("head", Action.RUN)]
    assert planned(session, VALIDATE, limit=("gpu-1",)).hosts == ("head", "gpu-1", "gpu-2")
    del licenses


def test_a_run_without_stages_of_the_cluster_keeps_its_plan(session: Session) -> None:
    plain = Plan(site="acme", profile="hpc", hosts=("gpu-1",), stages=("base",))
    assert with_cluster(session, FOUND, Selection(), plain) == plain


def test_its_changes_are_noticed_by_the_checks_of_other_stages(licenses: Licenses) -> None:
    done = StageOutcome(stage="licenses", host="head", state=StageState.DONE, changes=1)
    assert noticed([done]) == {"observe"}
    assert noticed([done.model_copy(update={"changes": 0})]) == frozenset()
    del licenses


def test_control_hosts_are_held_while_it_works_on_the_cluster(session: Session) -> None:
    cell = HostStage(stage="validate", host="gpu-1", action=Action.RUN)
    plan = Plan(
        site="acme", profile="hpc", hosts=("head", "gpu-1"), stages=("validate",), cells=(cell,)
    )
    assert hosts_changed(session, plan, ()) == ("head", "gpu-1")
