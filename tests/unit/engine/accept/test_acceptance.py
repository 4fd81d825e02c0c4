"""Deployed and accepted are two verdicts: a gate counts only with evidence of this site as it is now."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Self

import pytest

from appliance import journal
from appliance.benchmarks import BENCHMARKS
from appliance.benchmarks.benchmark import Outcome, Raw
from appliance.config import data
from appliance.config.secrets import Secret
from appliance.engine.accept.deployment_state import deployment_state
from appliance.engine.accept.evidence import begin, keep_evidence, keep_run
from appliance.engine.look.fact_history import store_facts
from appliance.engine.look.gather import Round
from appliance.engine.session import Session
from appliance.journal import New
from appliance.models.acceptance import Accepted, GateState
from appliance.models.evidence import Evidence
from appliance.models.profile import Limit
from appliance.models.result import Status, Verdict
from tests.support.engine_fakes import receipt_of
from tests.support.facts import facts_of, gpus_of
from tests.support.measured import (
    GPU,
    HALF,
    deployed,
    evidence_of,
    gate_of,
    measured,
    of_real_roles,
    seen,
    view_of,
    with_result,
)


@pytest.fixture
def session(session: Session) -> Session:
    """With the roles that the program ships; both GPU hosts have told which GPUs they have."""
    return of_real_roles(session)


def test_site_without_evidence_is_not_yet_accepted_and_names_what_closes_each_gate(
    session: Session,
) -> None:
    deployed(session)
    found = seen(session)
    assert found.verdict is Accepted.NOT_YET
    assert [(g.id, g.state, g.why) for g in found.gates] == [
        ("gpt3.126m", GateState.OPEN, "no measurement of this site"),
        ("gpt3.5b", GateState.OPEN, "no measurement of this site"),
    ]
    assert gate_of(found).close == "appliance validate gpt3-logs DIR --model 5b"


def test_evidence_that_meets_every_gate_on_a_proved_deployment_is_acceptance(
    session: Session,
) -> None:
    measured(session)
    assert seen(session).verdict is Accepted.NOT_YET
    deployed(session)
    found = seen(session)
    assert found.verdict is Accepted.YES
    gate = gate_of(found)
    assert (gate.value, gate.limit, gate.source) == (97_541, 92_664, "logs in /logs")
    assert gate.measured
    assert gate.dated_by == "time stamps"
    assert gate.close == ""


@pytest.mark.parametrize(
    ("later", "narrowed", "verdict"),
    [
        (Verdict.FAILED, "", Accepted.NOT_YET),
        (Verdict.INCOMPLETE, "--hosts gpu-1", Accepted.NOT_YET),
        (Verdict.PASSED, "--hosts gpu-1", Accepted.YES),
    ],
)
def test_site_is_accepted_while_its_deployment_is_proved(
    session: Session, later: Verdict, narrowed: str, verdict: Accepted
) -> None:
    measured(session)
    deployed(session)
    deployed(session, later, narrowed)
    assert seen(session).verdict is verdict


def test_part_of_a_site_that_was_deployed_proves_no_whole(session: Session) -> None:
    measured(session)
    deployed(session, narrowed="--hosts gpu-1")
    assert seen(session).verdict is Accepted.NOT_YET


def test_nothing_simulated_is_accepted(session: Session) -> None:
    deployed(session)
    measured(session)
    assert seen(session, simulated=("gpu",)).verdict is Accepted.SIMULATED


def test_simulated_host_that_is_silent_now_is_not_accepted(session: Session) -> None:
    marked = facts_of("gpu-2", gpus=gpus_of(GPU, 8), simulated=["gpu"])
    store_facts(session, Round({"gpu-2": marked}, {}))
    deployed(session)
    measured(session)
    assert seen(session).verdict is Accepted.SIMULATED


def test_failed_evidence_fails_its_gate_with_the_cause(session: Session) -> None:
    deployed(session)
    with_result(session, status=Status.FAIL, cause="21 % below the published figure", value=77_000)
    found = seen(session)
    assert found.verdict is Accepted.NO
    gate = gate_of(found)
    assert (gate.state, gate.value) == (GateState.FAILED, 77_000)
    assert gate.why == "bare-metal 2n: 21 % below the published figure"


@pytest.mark.parametrize("status", [Status.NOT_ASSESSED, Status.ERROR, Status.SKIP])
def test_evidence_without_a_verdict_leaves_its_gate_open(session: Session, status: Status) -> None:
    with_result(session, status=status, cause="the GPU of this run is unknown")
    gate = gate_of(seen(session))
    assert (gate.state, gate.why) == (
        GateState.OPEN,
        "bare-metal 2n: the GPU of this run is unknown",
    )


@pytest.mark.parametrize(
    ("nodes", "required", "state"),
    [
        ("2n", False, GateState.OPEN),
        ("1n", True, GateState.OPEN),
        ("1n", False, GateState.PASSED),
    ],
)
def test_what_has_no_verdict_holds_a_gate_open_where_it_is_required_or_its_own(
    session: Session, nodes: str, required: bool, state: GateState
) -> None:
    """The gate is of two hosts."""
    evidence = evidence_of(session, "5b")
    (good,) = evidence.results
    target = f"cluster/5b bare-metal {nodes}"
    bad = good.model_copy(
        update={"target": target, "status": Status.NOT_ASSESSED, "required": required}
    )
    results = tuple(r for r in (good, bad) if r is bad or r.target != target)
    keep_evidence(session, evidence.model_copy(update={"results": results}))
    assert gate_of(seen(session)).state is state


def test_run_on_fewer_hosts_than_the_site_has_leaves_its_gate_open(session: Session) -> None:
    with_result(session, target="cluster/5b bare-metal 1n")
    gate = gate_of(seen(session))
    assert (gate.state, gate.why) == (GateState.OPEN, "not measured: bare-metal 2n")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"profile": "balanced"}, "from site acme with profile balanced"),
        ({"site": "elsewhere"}, "from site elsewhere"),
        ({"gpus_per_host": 4}, "from hosts with 4 GPUs"),
        ({"size": 1, "hosts": ()}, "from a site with 1 GPU host, but this one has 2"),
        (
            {"hosts": ("gpu-1", "gpu-9")},
            "is from gpu-[1,9], but the site's GPU hosts are gpu-[1-2]",
        ),
        ({"limits": dict.fromkeys(("gpt3.5b",), HALF)}, "limit has changed since: 50 %"),
        ({"limits": {}}, "limit has changed since: none then, 5 % now"),
        ({"simulated": ("gpu",)}, "measured on simulated hardware (gpu)"),
    ],
)
def test_evidence_of_another_class_or_limit_does_not_count(
    session: Session, changes: dict[str, object], why: str
) -> None:
    measured(session, **changes)
    gate = gate_of(seen(session))
    assert gate.state is GateState.OPEN
    assert why in gate.why


def test_evidence_of_other_gpus_than_the_hosts_say_they_have_does_not_count(
    session: Session,
) -> None:
    measured(session, gpu="H100-SXM5-80GB")
    view = view_of(session, **{"gpu-1": facts_of("gpu-1", gpus=gpus_of(GPU, 8))})
    gate = gate_of(seen(session, view))
    assert (gate.state, gate.why) == (
        GateState.OPEN,
        "the evidence is from H100-SXM5-80GB, but the site has A100-SXM4-80GB",
    )


@pytest.mark.parametrize("stage", ["gpu", "fabric", "slurm"])
def test_change_of_what_throughput_rests_on_makes_evidence_stale(
    session: Session, stage: str
) -> None:
    measured(session)
    session.journal.append("r2", "host_started", stage=stage, host="gpu-1")
    assert f"older than the last change of stage {stage} on gpu-1" in gate_of(seen(session)).why
    session.journal.append("r2", "host_done", stage=stage, host="gpu-1", changes=3)
    gate = gate_of(seen(session))
    assert gate.state is GateState.OPEN
    assert f"older than the last change of stage {stage} on gpu-1" in gate.why


@pytest.mark.parametrize(
    ("stage", "host", "changes"),
    [("gpu", "gpu-1", 0), ("observe", "gpu-1", 5), ("slurm", "head", 5)],
)
def test_run_that_changed_nothing_or_elsewhere_leaves_evidence_fresh(
    session: Session, stage: str, host: str, changes: int
) -> None:
    measured(session)
    session.journal.append("r2", "host_started", stage=stage, host=host)
    session.journal.append("r2", "host_done", stage=stage, host=host, changes=changes)
    assert gate_of(seen(session)).state is GateState.PASSED


def test_training_after_the_change_counts_again(session: Session) -> None:
    session.journal.append("r0", "host_started", stage="gpu", host="gpu-1")
    session.journal.append("r0", "host_failed", stage="gpu", host="gpu-1")
    keep_evidence(session, evidence_of(session, "5b"))
    assert gate_of(seen(session)).state is GateState.PASSED


def test_stage_another_journal_knows_of_counts_by_the_hosts_receipt(session: Session) -> None:
    measured(session)
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    receipt = receipt_of("gpu", "x", written=later, run="elsewhere")
    view = view_of(session, **{"gpu-1": facts_of("gpu-1", receipts={"gpu": receipt})})
    assert "stage gpu on gpu-1" in gate_of(seen(session, view)).why


def test_gpus_that_were_exchanged_make_evidence_stale(session: Session) -> None:
    old, new = (facts_of("gpu-1", gpus=gpus_of(GPU, 8, first=n)) for n in (0, 1))
    store_facts(session, Round({"gpu-1": old}, {}))
    evidence = evidence_of(session, "5b")
    began = datetime.now(UTC) + timedelta(milliseconds=5)
    files = tuple(f.model_copy(update={"began": began}) for f in evidence.files)
    keep_evidence(session, evidence.model_copy(update={"files": files}))
    assert gate_of(seen(session, view_of(session, **{"gpu-1": old}))).state is GateState.PASSED
    found = gate_of(seen(session, view_of(session, **{"gpu-1": new})))
    assert "older than 1 GPU of gpu-1" in found.why


def test_the_evidence_recorded_last_counts(session: Session) -> None:
    measured(session)
    with_result(session, status=Status.FAIL, cause="slow")
    assert gate_of(seen(session)).state is GateState.FAILED
    assert gate_of(seen(session), "gpt3.126m").state is GateState.PASSED
    measured(session)
    assert gate_of(seen(session)).state is GateState.PASSED


def test_gpus_nothing_is_published_for_leave_an_open_gate_that_says_so(session: Session) -> None:
    gpus = gpus_of("NVIDIA H100 80GB HBM3", 8)
    view = view_of(session, **{host: facts_of(host, gpus=gpus) for host in ("gpu-1", "gpu-2")})
    gate = gate_of(seen(session, view))
    assert gate.state is GateState.OPEN
    assert gate.close == "appliance waive gpt3.5b --reason WHY --until DATE"
    assert "no result is published for 8 x H100-SXM5-80GB" in gate.why


def test_profile_that_asks_for_no_measurement_is_not_called_accepted(session: Session) -> None:
    deployed(session)
    plain = replace(session, profile=session.profile.model_copy(update={"limits": {}}))
    found = seen(plain, view_of(plain))
    assert (found.verdict, found.gates) == (Accepted.NO_GATES, ())


@pytest.mark.parametrize(
    ("known", "why"),
    [
        ({}, "the GPUs of gpu-2 are unknown"),
        ({"gpus": gpus_of(GPU, 0)}, "the GPUs of gpu-2 are unknown"),
    ],
)
def test_host_whose_gpus_nobody_knows_leaves_the_gate_open(
    session: Session, known: dict[str, object], why: str
) -> None:
    measured(session)
    view = view_of(session, **{"gpu-2": facts_of("gpu-2", **known)})
    gate = gate_of(seen(session, view))
    assert gate.state is GateState.OPEN
    assert why in gate.why


def test_gpus_nobody_recorded_when_the_training_began_leave_the_gate_open(session: Session) -> None:
    evidence = evidence_of(session, "5b")
    early = datetime.now(UTC) - timedelta(days=1)
    files = tuple(f.model_copy(update={"began": early}) for f in evidence.files)
    keep_evidence(session, evidence.model_copy(update={"files": files}))
    gate = gate_of(seen(session))
    assert gate.state is GateState.OPEN
    assert "the GPUs of gpu-1 on" in gate.why
    assert "were not recorded" in gate.why


def _clock(monkeypatch: pytest.MonkeyPatch, ahead: timedelta) -> None:
    """The control machine's clock from now on."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(datetime.now(tz).timestamp(), tz) + ahead

    monkeypatch.setattr(journal, "datetime", Clock)


def _dated(session: Session, began: datetime) -> Evidence:
    evidence = evidence_of(session, "5b")
    files = tuple(f.model_copy(update={"began": began}) for f in evidence.files)
    return evidence.model_copy(update={"files": files})


def test_change_recorded_after_the_evidence_counts_whatever_its_clock_says(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_evidence(session, evidence_of(session, "5b"))
    assert gate_of(seen(session)).state is GateState.PASSED
    _clock(monkeypatch, -timedelta(days=400))
    session.journal.append("r2", "host_done", stage="gpu", host="gpu-2", changes=1)
    assert "last change of stage gpu on gpu-2" in gate_of(seen(session)).why


def test_clock_that_was_set_back_before_a_change_does_not_make_older_training_count(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = datetime.now(UTC)
    _clock(monkeypatch, timedelta(minutes=1))
    session.journal.append("r1", "run_finished", verdict="passed")
    # Set back by three hours; then a stage changes a host, and the training of before is entered.
    _clock(monkeypatch, -timedelta(hours=3))
    session.journal.append("r2", "host_done", stage="gpu", host="gpu-1", changes=1)
    _clock(monkeypatch, timedelta(minutes=2))
    keep_evidence(session, _dated(session, trained))
    gate = gate_of(seen(session))
    assert gate.state is GateState.OPEN
    assert "older than the last change of stage gpu on gpu-1" in gate.why


def test_gpus_exchanged_under_a_clock_that_was_set_back_make_evidence_stale(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = datetime.now(UTC)
    _clock(monkeypatch, timedelta(minutes=1))
    session.journal.append("r1", "run_finished", verdict="passed")
    _clock(monkeypatch, -timedelta(hours=3))
    new = facts_of("gpu-1", gpus=gpus_of(GPU, 8, first=1))
    store_facts(session, Round({"gpu-1": new}, {}))
    _clock(monkeypatch, timedelta(minutes=2))
    keep_evidence(session, _dated(session, trained))
    assert "older than 1 GPU of gpu-1" in gate_of(seen(session)).why


def test_training_that_began_after_it_was_entered_closes_no_gate(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it looks where the clock was set back and no entry of the journal tells."""
    trained = datetime.now(UTC)
    _clock(monkeypatch, -timedelta(hours=3))
    session.journal.append("r2", "host_done", stage="gpu", host="gpu-1", changes=1)
    keep_evidence(session, _dated(session, trained))
    gate = gate_of(seen(session))
    assert gate.state is GateState.OPEN
    assert "clocks or time zones differ" in gate.why


@pytest.mark.parametrize(
    ("section", "change"),
    [
        ("site limits", {"limits": {"base.clock": Limit(value=5, unit="s", source="x")}}),
        ("site simulated", {"simulated": ("gpu",)}),
        ("profile limits", {"limits": {}}),
        ("secrets", {}),
    ],
)
def test_what_was_declared_and_has_changed_since_is_not_deployed(
    session: Session, section: str, change: dict[str, object]
) -> None:
    measured(session)
    deployed(session)
    now = session
    match section.partition(" ")[0]:
        case "site":
            now = replace(session, site=session.site.model_copy(update=change))
        case "profile":
            now = replace(session, profile=session.profile.model_copy(update=change))
        case _:
            now = replace(session, secrets={"slurmdbd_password": Secret("another one")})
    assert deployment_state(session).why == ""
    assert (
        deployment_state(now).why
        == f"changed since run r1 deployed it: {section}: appliance deploy"
    )


def test_role_that_changed_is_not_deployed_and_how_to_log_in_proves_nothing(
    session: Session, tmp_path: Path
) -> None:
    shipped = tmp_path / "shipped"
    for name in ("roles", "playbooks"):
        shutil.copytree(data.root() / name, shipped / name)
    deployed(replace(session, data=shipped))
    access = session.site.access.model_copy(update={"user": "somebody"})
    other = replace(session, site=session.site.model_copy(update={"access": access}))
    assert deployment_state(other).why == ""
    another = tmp_path / "another"
    shutil.copytree(shipped, another)
    (another / "roles/slurm/README.md").write_text("Only people read this.")
    assert deployment_state(replace(session, data=another)).why == ""
    changed = tmp_path / "changed"
    shutil.copytree(shipped, changed)
    (changed / "roles/slurm/defaults/main.yml").write_text("---\nslurm_new: 1\n")
    assert "deployed it: role slurm" in deployment_state(replace(session, data=changed)).why


def test_evidence_of_the_old_form_is_read(session: Session) -> None:
    began = datetime.now(UTC).isoformat()
    old = {
        "version": 1,
        "benchmark": "gpt3",
        "folder": "/logs",
        "files": [
            {
                **{"path": "/logs/5b/2n.log", "sha256": "0" * 64, "size": 1, "model": "5b"},
                **{"began": began, "dated_by": "time stamps in the log"},
            }
        ],
        **{"site": "acme", "profile": "hpc", "gpu": "A100-SXM4-80GB", "gpus_per_node": 8},
        "hosts": 2,
        "limit": session.profile.limits["gpt3.throughput"].model_dump(mode="json"),
        "results": [r.model_dump(mode="json") for r in evidence_of(session, "5b").results],
    }
    session.journal.append("r0", "log_evidence", evidence=old)
    gate = gate_of(seen(session))
    assert (gate.state, gate.source, gate.run) == (GateState.PASSED, "logs in /logs", "r0")
    session.journal.append("r0", "log_evidence", evidence=old | {"hosts": 1})
    assert "from a site with 1 GPU host" in gate_of(seen(session)).why


@pytest.mark.parametrize("change", ["site", "profile", "hosts", "older"])
def test_deployment_of_something_else_proves_nothing_of_this_site(
    session: Session, change: str
) -> None:
    measured(session)
    site = session.site
    match change:
        case "site":
            other = replace(session, site=site.model_copy(update={"name": "elsewhere"}))
        case "hosts":
            other = replace(session, site=site.model_copy(update={"hosts": site.hosts[:2]}))
        case _:
            profile = session.profile.model_copy(update={"name": "balanced"})
            other = replace(session, profile=profile)
    if change == "older":
        session.journal.append(session.run, "deployment", verdict="passed", whole=True)
    else:
        deployed(other)
    found = seen(session)
    assert found.verdict is Accepted.NOT_YET
    why = "of an earlier version" if change == "older" else "deployed another site, class or hosts"
    assert why in found.why
    assert found.why.endswith(": appliance deploy")
    deployed(session)
    assert seen(session).verdict is Accepted.YES


def test_simulated_results_close_no_gate(session: Session) -> None:
    with_result(session, simulated=True)
    gate = gate_of(seen(session))
    assert (gate.state, gate.why) == (
        GateState.OPEN,
        "it was measured on simulated hardware, or in a container that shares its machine",
    )


def test_deployment_whose_record_cannot_be_read_proves_nothing(session: Session) -> None:
    deployed(session)
    (entry,) = session.journal.entries("deployment")
    session.journal.append_all("r2", [New("deployment", entry.data | {"declared": "x"})])
    assert "the record of run r2 cannot be read" in deployment_state(session).why


@pytest.mark.parametrize(("part", "state"), [("5b", GateState.PASSED), ("", GateState.OPEN)])
def test_a_training_that_was_submitted_closes_the_gate_its_log_is_of(
    session: Session, part: str, state: GateState
) -> None:
    view = view_of(session, **{h: facts_of(h, gpus=gpus_of(GPU, 8)) for h in ("gpu-1", "gpu-2")})
    (gpt3,) = [benchmark for benchmark in BENCHMARKS if benchmark.name == "gpt3"]
    began = datetime.now(UTC)
    begin(session, gpt3)
    outcome = Outcome(evidence_of(session, "5b").results, raw=(Raw("5b-2n.log", "x", part=part),))
    keep_run(session, view, gpt3, outcome, began)
    assert gate_of(seen(session, view)).state is state
