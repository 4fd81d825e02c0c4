"""Evidence of any benchmark: per host, per pair or of the cluster, it counts while what it rests on stays as it was."""

import hashlib
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Self

import pytest

from appliance import journal
from appliance.benchmarks.benchmark import (
    Benchmark,
    Outcome,
    Raw,
    Requirement,
    Target,
    gpu_models,
    of_cluster,
    per_host,
    per_pair,
)
from appliance.checks.check import View, failed, not_assessed, passed
from appliance.config.secrets import Redactor
from appliance.engine.accept.acceptance import gates_of
from appliance.engine.accept.evidence import (
    Origin,
    begin,
    evidence_of,
    foreign_tables,
    keep_evidence,
    keep_run,
    recorded,
)
from appliance.engine.accept.waivers import give
from appliance.engine.look.fact_history import store_facts
from appliance.engine.look.gather import Round
from appliance.engine.session import Session
from appliance.models.acceptance import Gate, GateState, Level
from appliance.models.evidence import Evidence, Source
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Place, Status
from appliance.models.run import Table
from appliance.models.waiver import Waiver
from tests.support.engine_fakes import PASSWORD, receipt_of
from tests.support.facts import facts_of, gpus_of

GPU = "NVIDIA A100-SXM4-80GB"
HOSTS = ("gpu-1", "gpu-2")
LIMIT = Limit(value=21, unit="GB/s", source="a table")
EACH = per_host(HOSTS)


@pytest.fixture
def view(session: Session) -> View:
    """Both GPU hosts have told which GPUs they have."""
    facts = {name: facts_of(name, gpus=gpus_of(GPU, 8)) for name in HOSTS}
    store_facts(session, Round(facts, {}))
    return View(session.profile, session.site, facts)


def _wanted(view: View, targets: tuple[Target, ...] = EACH) -> Requirement:
    return Requirement(
        id="copy.h2d",
        title="Host to GPU",
        level=Level.HOST,
        benchmark="copy",
        check="copy.h2d",
        targets=targets,
        also=("copy.d2h",),
        close="appliance validate copy",
        limit=LIMIT,
        stages=("gpu",),
        gpus=gpu_models(view),
    )


def _benchmark(targets: tuple[Target, ...] = EACH) -> Benchmark:
    return Benchmark(
        name="copy",
        title="Copies",
        checks=("copy.h2d", "copy.d2h"),
        run=lambda view, remote: Outcome(),
        minutes=1,
        explain="",
        gates=lambda view: (_wanted(view, targets),),
    )


def _good(*targets: str) -> list[CheckResult]:
    places = (name.partition("/") for name in targets)
    return [passed(_place(*place), 25, unit="GB/s", limit=21).of("copy.h2d") for place in places]


def _place(host: str, _: str, part: str) -> Place:
    return Place(None if host == "cluster" else host, (part,) if part else ())


def _run(
    session: Session,
    view: View,
    results: Iterable[CheckResult],
    targets: tuple[Target, ...] = EACH,
    raw: tuple[Raw, ...] = (),
) -> None:
    begin(session, _benchmark())
    outcome = Outcome(tuple(results), raw=raw)
    keep_run(session, view, _benchmark(targets), outcome, datetime.now(UTC))


def _gate(session: Session, view: View, targets: tuple[Target, ...] = EACH) -> Gate:
    return gates_of(session, view, [_wanted(view, targets)])[0]


@pytest.mark.parametrize(
    "targets",
    [
        EACH,
        per_host(HOSTS, "GPU 0", "GPU 1"),
        per_pair([HOSTS]),
        of_cluster(HOSTS),
        of_cluster(HOSTS, "1 host", "2 hosts"),
    ],
)
def test_a_gate_passes_when_each_of_its_targets_has_a_good_result(
    session: Session, view: View, targets: tuple[Target, ...]
) -> None:
    names = [target.name for target in targets]
    assert _gate(session, view, targets).why == "no measurement of this site"
    _run(session, view, _good(*names[1:]) or [failed("cluster", "x", "y").of("other")], targets)
    assert _gate(session, view, targets).state is GateState.OPEN
    _run(session, view, _good(*names), targets)
    gate = _gate(session, view, targets)
    assert (gate.state, gate.value, gate.source) == (GateState.PASSED, 25, "run r1")
    assert (gate.dated_by, gate.close) == ("this program", "")


@pytest.mark.parametrize(
    "value",
    [None, True, "fast", -0.1, float("inf"), float("-inf"), float("nan")],
)
def test_a_pass_with_a_value_that_is_none_closes_nothing(
    session: Session, view: View, value: object
) -> None:
    good = _good(*HOSTS)
    _run(session, view, [good[0], good[1].model_copy(update={"value": value})])
    gate = _gate(session, view)
    assert (gate.state, gate.why.partition(":")[0]) == (GateState.OPEN, "gpu-2")


def test_a_pass_with_nothing_lost_closes_its_gate(session: Session, view: View) -> None:
    _run(session, view, [r.model_copy(update={"value": 0}) for r in _good(*HOSTS)])
    assert _gate(session, view).state is GateState.PASSED


def test_evidence_of_one_host_replaces_that_hosts_alone(session: Session, view: View) -> None:
    _run(
        session, view, [*_good("gpu-1"), failed("gpu-2", "12 GB/s", "reseat GPU 3").of("copy.h2d")]
    )
    gate = _gate(session, view)
    assert (gate.state, gate.why) == (GateState.FAILED, "gpu-2: 12 GB/s")
    _run(session, view, _good("gpu-2"))
    gate = _gate(session, view)
    assert (gate.state, gate.source) == (GateState.PASSED, "run r1 and 1 earlier run")


def test_a_change_of_one_host_asks_for_that_host_alone(session: Session, view: View) -> None:
    _run(session, view, _good(*HOSTS))
    session.journal.append("r2", "host_done", stage="gpu", host="gpu-2", changes=1)
    assert "last change of stage gpu on gpu-2" in _gate(session, view).why
    _run(session, view, _good("gpu-2"))
    assert _gate(session, view).state is GateState.PASSED


def test_a_failure_stays_one_while_another_host_is_stale(session: Session, view: View) -> None:
    _run(session, view, [failed("gpu-1", "slow", "x").of("copy.h2d"), *_good("gpu-2")])
    session.journal.append("r2", "host_done", stage="gpu", host="gpu-2", changes=1)
    assert _gate(session, view).state is GateState.FAILED


def test_failure_of_a_check_beside_fails_the_gate(session: Session, view: View) -> None:
    _run(session, view, [*_good(*HOSTS), failed("gpu-2", "slow back", "x").of("copy.d2h")])
    assert _gate(session, view).why == "gpu-2: slow back"


def test_failure_of_the_cluster_is_none_of_a_gate_of_hosts(session: Session, view: View) -> None:
    _run(session, view, [*_good(*HOSTS), failed("cluster", "slow", "x").of("copy.h2d")])
    assert _gate(session, view).state is GateState.PASSED


def test_a_pair_is_stale_when_the_second_of_it_has_changed(session: Session, view: View) -> None:
    pair = per_pair([HOSTS])
    _run(session, view, _good("gpu-1/to gpu-2"), pair)
    assert _gate(session, view, pair).state is GateState.PASSED
    session.journal.append("r2", "host_done", stage="gpu", host="gpu-2", changes=1)
    assert "last change of stage gpu on gpu-2" in _gate(session, view, pair).why


def test_gpus_exchanged_make_evidence_stale_unless_it_rests_on_none(
    session: Session, view: View
) -> None:
    _run(session, view, _good(*HOSTS))
    new = facts_of("gpu-1", gpus=gpus_of(GPU, 8, first=1))
    store_facts(session, Round({"gpu-1": new}, {}))
    later = replace(view, facts={**view.facts, "gpu-1": new})
    assert "is older than 1 GPU of gpu-1" in _gate(session, later).why
    on_processors = replace(_wanted(later), of_gpus=False)
    assert gates_of(session, later, [on_processors])[0].state is GateState.PASSED


def test_a_host_more_asks_for_the_cluster_again_and_for_that_host_alone(
    session: Session, view: View
) -> None:
    both = (*EACH, *of_cluster(HOSTS))
    _run(session, view, _good(*HOSTS, "cluster"), both)
    assert _gate(session, view, both).state is GateState.PASSED
    more = session.site.hosts[1].model_copy(update={"name": "gpu-3"})
    site = session.site.model_copy(update={"hosts": (*session.site.hosts, more)})
    grown = replace(view, site=site)
    assert _gate(session, grown).state is GateState.PASSED
    assert _gate(session, grown, per_host([*HOSTS, "gpu-3"])).why == "not measured: gpu-3"
    assert "site with 2 GPU hosts, but this one has 3" in _gate(session, grown, both).why
    why = _gate(session, grown, of_cluster([*HOSTS, "gpu-3"])).why
    assert why == "the evidence is from a site with 2 GPU hosts, but this one has 3"


def test_a_change_while_it_was_measured_makes_it_stale(session: Session, view: View) -> None:
    begin(session, _benchmark())
    session.journal.append("r2", "host_done", stage="gpu", host="gpu-1", changes=1)
    keep_run(session, view, _benchmark(), Outcome(tuple(_good(*HOSTS))), datetime.now(UTC))
    assert "stage gpu on gpu-1" in _gate(session, view).why


@pytest.mark.parametrize("status", [Status.NOT_ASSESSED, Status.SKIP])
def test_a_run_that_measured_nothing_leaves_what_was_measured_before(
    session: Session, view: View, status: Status
) -> None:
    _run(session, view, _good(*HOSTS))
    busy = not_assessed("cluster", "all GPUs are busy").of("copy.h2d")
    _run(session, view, [busy.model_copy(update={"status": status})])
    assert len(list(recorded(session))) == 1
    assert _gate(session, view).state is GateState.PASSED


def test_skipped_result_leaves_the_gate_open(session: Session, view: View) -> None:
    skipped = not_assessed("gpu-2", "the tool skipped it").of("copy.h2d")
    _run(session, view, [*_good("gpu-1"), skipped.model_copy(update={"status": Status.SKIP})])
    gate = _gate(session, view)
    assert (gate.state, gate.why) == (GateState.OPEN, "gpu-2: the tool skipped it")


def test_measured_on_simulated_hardware_it_stays_simulated_when_the_mark_is_gone(
    session: Session, view: View
) -> None:
    site = session.site.model_copy(update={"simulated": ("gpu",)})
    marked = replace(session, site=site)
    _run(marked, replace(view, site=site), _good(*HOSTS))
    assert _gate(session, view).why == "it was measured on simulated hardware (gpu)"


def test_raw_output_is_kept_beside_the_report_with_its_digest_and_without_secrets(
    session: Session, view: View
) -> None:
    raw = (Raw("gpu-1.txt", f"h2d 25.1 {PASSWORD}\n"),)
    _run(session, view, _good(*HOSTS), raw=raw)
    (one,) = recorded(session)
    (file,) = one.evidence.files
    content = (session.folder_of_run / "evidence/copy/gpu-1.txt").read_bytes()
    assert file.path.endswith("evidence/copy/gpu-1.txt")
    assert (file.sha256, file.size) == (hashlib.sha256(content).hexdigest(), len(content))
    assert b"h2d 25.1" in content
    assert PASSWORD.encode() not in content
    assert (one.evidence.source, one.evidence.hosts) == (Source.NOW, HOSTS)


@pytest.mark.parametrize("name", ["", "..", "../site.yml", "a/b"])
def test_raw_output_lies_in_its_folder(name: str) -> None:
    with pytest.raises(ValueError, match="is not a valid file name"):
        Raw(name, "")


def test_stale_host_that_is_waived_holds_nothing_back_and_the_gate_stays_open(
    session: Session, view: View
) -> None:
    _run(session, view, _good(*HOSTS))
    session.journal.append("r2", "host_done", stage="gpu", host="gpu-2", changes=1)
    assert _gate(session, view).holds_back
    until = (date.today() + timedelta(days=9)).isoformat()
    give(session, Waiver(check="copy.h2d", target="gpu-1", reason="x", until=until))
    assert _gate(session, view).holds_back
    give(session, Waiver(check="copy.h2d", target="gpu-2", reason="x", until=until))
    gate = _gate(session, view)
    assert (gate.state, gate.holds_back) == (GateState.OPEN, False)
    assert [waiver.target for waiver in gate.waivers] == ["gpu-2"]


def test_host_that_was_not_measured_is_waived_alone(session: Session, view: View) -> None:
    _run(session, view, _good("gpu-1"))
    until = (date.today() + timedelta(days=9)).isoformat()
    give(session, Waiver(check="copy.h2d", target="gpu-2", reason="x", until=until))
    gate = _gate(session, view)
    assert (gate.state, gate.why, gate.holds_back) == (
        GateState.OPEN,
        "not measured: gpu-2",
        False,
    )


def test_host_that_never_answered_leaves_the_gate_open(session: Session, view: View) -> None:
    _run(session, view, _good(*HOSTS))
    silent = replace(view, facts={"gpu-1": view.facts["gpu-1"]})
    assert _gate(session, silent).why == "the GPUs of gpu-2 are unknown; run appliance health"


def test_the_last_change_before_a_log_began_leaves_it_fresh(session: Session, view: View) -> None:
    session.journal.append("r0", "host_done", stage="gpu", host="gpu-1", changes=1)
    time.sleep(0.002)
    began = datetime.now(UTC)
    time.sleep(0.002)
    session.journal.append("r0", "run_finished", verdict="passed")
    origin = Origin(Source.LOGS, "logs", began, "time stamps")
    outcome = Outcome(tuple(_good(*HOSTS)))
    evidence = evidence_of(session, view, _benchmark(), outcome, origin)
    keep_evidence(session, evidence)
    assert _gate(session, view).state is GateState.PASSED
    earlier = evidence.model_copy(update={"began": began - timedelta(seconds=1)})
    keep_evidence(session, earlier)
    assert "last change of stage gpu on gpu-1" in _gate(session, view).why


def test_a_faulty_host_that_is_waived_needs_the_others_to_be_good(
    session: Session, view: View
) -> None:
    until = (date.today() + timedelta(days=9)).isoformat()
    give(session, Waiver(check="copy.h2d", target="gpu-2", reason="x", until=until))
    slow = failed("gpu-2", "slow", "x").of("copy.h2d")
    _run(session, view, [*_good("gpu-1"), slow])
    gate = _gate(session, view)
    assert (gate.state, gate.holds_back) == (GateState.FAILED, False)
    _run(session, view, [failed("gpu-1", "slow", "x").of("copy.h2d"), slow])
    assert _gate(session, view).holds_back


def test_a_change_stays_one_when_the_stage_ran_again_and_changed_nothing(
    session: Session, view: View
) -> None:
    _run(session, view, _good(*HOSTS))
    session.journal.append("r2", "host_done", stage="gpu", host="gpu-2", changes=1)
    session.journal.append("r3", "host_started", stage="gpu", host="gpu-2")
    session.journal.append("r3", "host_done", stage="gpu", host="gpu-2", changes=0)
    assert "last change of stage gpu on gpu-2" in _gate(session, view).why


def test_host_that_no_run_reaches_keeps_its_gate_open_and_says_how_it_comes_in_reach(
    session: Session, view: View
) -> None:
    wanted = replace(_wanted(view), beyond=frozenset({"gpu-2"}))
    (gate,) = gates_of(session, view, [wanted])
    assert (gate.state, gate.why, gate.close) == (
        GateState.OPEN,
        "no measurement of this site",
        "appliance validate copy",
    )
    _run(session, view, _good("gpu-1"))
    (gate,) = gates_of(session, view, [wanted])
    assert gate.state is GateState.OPEN
    assert "gpu-2 is not owned by Slurm" in gate.why
    assert gate.close == "appliance node assign gpu-2 slurm"


def test_site_no_run_reaches_at_all_has_its_gates_open_with_the_way_out(
    session: Session, view: View
) -> None:
    wanted = replace(_wanted(view), beyond=frozenset(HOSTS))
    (gate,) = gates_of(session, view, [wanted])
    assert gate.state is GateState.OPEN
    assert "gpu-[1-2] are not owned by Slurm" in gate.why
    assert gate.close == "appliance node assign gpu-1 slurm"


def test_evidence_of_a_host_from_before_it_was_kubernetes_counts(
    session: Session, view: View
) -> None:
    _run(session, view, _good(*HOSTS))
    wanted = replace(_wanted(view), beyond=frozenset({"gpu-2"}))
    assert gates_of(session, view, [wanted])[0].state is GateState.PASSED


def test_what_another_program_says_stands_in_reports_and_closes_no_gate(
    session: Session, view: View
) -> None:
    table = Table(title="an audit", columns=("a",), rows=(("b",),))
    origin = Origin(Source.TOOL, "a file", datetime.now(UTC), "its own clock")
    outcome = Outcome(tuple(_good(*HOSTS)), tables=(table,))
    keep_evidence(session, evidence_of(session, view, _benchmark(), outcome, origin))
    assert _gate(session, view).state is GateState.OPEN
    assert foreign_tables(session) == (table,)
    _run(session, view, _good(*HOSTS))
    assert _gate(session, view).state is GateState.PASSED
    assert foreign_tables(session) == (table,)


def _kept(session: Session, view: View, **changes: object) -> None:
    """Honest evidence of the cluster, with changes."""
    origin = Origin(Source.NOW, "a run", datetime.now(UTC), "this program")
    outcome = Outcome(tuple(_good("cluster")))
    made = evidence_of(session, view, _benchmark(WHOLE), outcome, origin)
    keep_evidence(session, made.model_copy(update=changes))


WHOLE = of_cluster(HOSTS)
OTHER = Limit(value=20, unit="GB/s", source="a table")


@pytest.mark.parametrize(
    "changes",
    [
        {"hosts": ("gpu-1", "gpu-1")},
        {"hosts": ("gpu-1", "GPU-2")},
        {"hosts": ("gpu-1",), "size": 1},
        {"hosts": (), "size": 0},
        {"hosts": (*HOSTS, "gpu-2"), "size": 3},
        {"site": "ACME"},
        {"profile": ""},
        {"benchmark": "another"},
        {"gpu": ""},
        {"gpu": "NVIDIA A100"},
        {"gpus_per_host": 0},
        {"gpus_per_host": 80},
        {"limits": {"copy.h2d": OTHER}},
        {"limits": {"copy.d2h": LIMIT}},
        {"simulated": ("fabric",)},
        {"source": Source.TOOL},
        {"source": Source.LOGS, "began": datetime.now(UTC) + timedelta(days=1)},
        {"source": Source.LOGS, "began": datetime.now(UTC) + timedelta(days=400)},
        {"results": ()},
        {"results": tuple(_good("gpu-1", "gpu-2"))},
        {"results": tuple(_good("cluster/2 hosts"))},
        {"results": (*_good("cluster"), failed("cluster", "x", "y").of("copy.h2d"))},
        {"results": (not_assessed("cluster", "x").of("copy.h2d"), *_good("cluster"))},
    ],
)
def test_hostile_evidence_closes_no_gate(
    session: Session, view: View, changes: dict[str, object]
) -> None:
    _kept(session, view, **changes)
    assert _gate(session, view, WHOLE).state is not GateState.PASSED
    _kept(session, view)
    assert _gate(session, view, WHOLE).state is GateState.PASSED


def test_what_cannot_be_read_is_no_evidence_and_hides_none(session: Session, view: View) -> None:
    _run(session, view, _good(*HOSTS))
    for odd in ({"version": 99}, None, "text", {"version": 2}):
        session.journal.append("r2", "evidence", evidence=odd)
    session.journal.append("r2", "evidence")
    assert len(list(recorded(session))) == 1
    assert _gate(session, view).state is GateState.PASSED


def test_logs_are_not_ordered_by_what_the_program_began(session: Session, view: View) -> None:
    """They were measured before: a change since then counts, though it came before this run."""
    began = datetime.now(UTC)
    time.sleep(0.002)
    session.journal.append("r0", "host_done", stage="gpu", host="gpu-1", changes=1)
    begin(session, _benchmark())
    origin = Origin(Source.LOGS, "logs", began, "time stamps")
    outcome = Outcome(tuple(_good(*HOSTS)))
    keep_evidence(session, evidence_of(session, view, _benchmark(), outcome, origin))
    assert "last change of stage gpu on gpu-1" in _gate(session, view).why


def test_a_model_that_logs_name_is_the_evidences_own(session: Session, view: View) -> None:
    origin = Origin(Source.LOGS, "logs", datetime.now(UTC), "time stamps")
    outcome = Outcome(tuple(_good(*HOSTS)))
    made = evidence_of(session, view, _benchmark(), outcome, origin, "NVIDIA H100")
    assert made.gpu == "NVIDIA H100"
    keep_evidence(session, made)
    assert _gate(session, view).why.startswith("the evidence is from NVIDIA H100, but the site has")


def test_a_gate_that_nothing_can_be_judged_for_is_closed_by_no_evidence(
    session: Session, view: View
) -> None:
    _run(session, view, _good(*HOSTS))
    blocked = replace(_wanted(view), blocked="no result is published", beyond=frozenset(HOSTS))
    (gate,) = gates_of(session, view, [blocked])
    assert (gate.state, gate.why, gate.close) == (GateState.OPEN, "no result is published", "")
    (gate,) = gates_of(session, view, [replace(blocked, forever=True)])
    assert (gate.state, gate.why) == (GateState.OPEN, "no result is published")
    assert gate.close == f"appliance waive {blocked.id} --reason WHY --until DATE"


def test_an_open_gate_says_what_would_be_asked(session: Session, view: View) -> None:
    gate = _gate(session, view)
    assert (gate.limit, gate.unit, gate.limit_source) == (21, "GB/s", "a table")
    (free,) = gates_of(session, view, [replace(_wanted(view), limit=None)])
    assert (free.limit, free.unit, free.limit_source) == (None, "", "")


def test_a_failure_from_before_a_change_is_none_any_more(session: Session, view: View) -> None:
    _run(session, view, [failed("gpu-1", "slow", "x").of("copy.h2d"), *_good("gpu-2")])
    session.journal.append("r2", "host_done", stage="gpu", host="gpu-1", changes=1)
    gate = _gate(session, view)
    assert gate.state is GateState.OPEN
    assert "last change of stage gpu on gpu-1" in gate.why


def _waive(session: Session, check: str, target: str = "") -> None:
    until = (date.today() + timedelta(days=9)).isoformat()
    give(session, Waiver(check=check, target=target, reason="x", until=until))


def test_a_waiver_of_a_check_beside_is_of_its_target_alone(session: Session, view: View) -> None:
    back = failed("gpu-2", "slow back", "x").of("copy.d2h")
    _run(session, view, [*_good(*HOSTS), back])
    _waive(session, "copy.d2h")
    assert _gate(session, view).holds_back
    _waive(session, "copy.d2h", "gpu-2")
    gate = _gate(session, view)
    assert (gate.state, gate.holds_back) == (GateState.FAILED, False)


def test_only_waivers_that_were_needed_are_told(session: Session, view: View) -> None:
    slow = failed("gpu-2", "slow", "x").of("copy.h2d")
    beside = not_assessed("gpu-1/GPU 9", "nobody asked", required=False).of("copy.d2h")
    _run(session, view, [*_good("gpu-1"), slow, beside])
    _waive(session, "copy.h2d", "gpu-2")
    assert [waiver.target for waiver in _gate(session, view).waivers] == ["gpu-2"]


def test_what_is_stale_of_the_cluster_is_no_targets_to_waive(session: Session, view: View) -> None:
    _run(session, view, _good("cluster"), WHOLE)
    session.journal.append("r2", "host_done", stage="gpu", host="gpu-1", changes=1)
    for target in ("cluster", "gpu-1"):
        _waive(session, "copy.h2d", target)
    assert _gate(session, view, WHOLE).holds_back


def test_a_check_beside_is_no_measurement_of_the_gates_own(session: Session, view: View) -> None:
    beside = passed("gpu-2", 25, unit="GB/s").of("copy.d2h")
    _run(session, view, [*_good("gpu-1"), beside])
    gate = _gate(session, view)
    assert (gate.state, gate.why) == (GateState.OPEN, "not measured: gpu-2")


def test_of_several_runs_the_oldest_dates_the_gate(session: Session, view: View) -> None:
    _run(session, view, _good(*HOSTS))
    first = _gate(session, view).measured
    time.sleep(0.002)
    _run(session, view, _good("gpu-2"))
    assert _gate(session, view).measured == first


def test_a_run_that_never_ended_may_have_changed_the_host(session: Session, view: View) -> None:
    """Though the same stage ran to its end there later, and changed nothing."""
    _run(session, view, _good(*HOSTS))
    session.journal.append("r2", "host_started", stage="gpu", host="gpu-2")
    session.journal.append("r3", "host_started", stage="gpu", host="gpu-2")
    session.journal.append("r3", "host_done", stage="gpu", host="gpu-2", changes=0)
    assert "last change of stage gpu on gpu-2" in _gate(session, view).why


@pytest.mark.parametrize("end", ["host_failed", "host_interrupted"])
def test_a_run_that_failed_may_have_changed_the_host(
    session: Session, view: View, end: str
) -> None:
    _run(session, view, _good(*HOSTS))
    session.journal.append("r2", "host_started", stage="gpu", host="gpu-2")
    session.journal.append("r2", end, stage="gpu", host="gpu-2")
    assert "last change of stage gpu on gpu-2" in _gate(session, view).why


@pytest.mark.parametrize(("days", "fresh"), [(-1, True), (1, False)])
def test_the_later_of_journal_and_receipt_counts(
    session: Session, view: View, days: int, fresh: bool
) -> None:
    """The receipt is of another journal; this one knows an earlier change."""
    session.journal.append("r0", "host_done", stage="gpu", host="gpu-1", changes=1)
    _run(session, view, _good(*HOSTS))
    written = (datetime.now(UTC) + timedelta(days=days)).isoformat()
    receipt = receipt_of("gpu", "x", written=written, run="elsewhere")
    told = view.facts["gpu-1"].model_copy(update={"receipts": {"gpu": receipt}})
    now = replace(view, facts={**view.facts, "gpu-1": told})
    assert (_gate(session, now).state is GateState.PASSED) is fresh


def test_what_rests_on_no_gpu_counts_whichever_there_were(session: Session, view: View) -> None:
    _kept(session, view, gpu="another", gpus_per_host=1)
    on_processors = replace(_wanted(view, WHOLE), of_gpus=False)
    assert gates_of(session, view, [on_processors])[0].state is GateState.PASSED


def test_a_gate_without_a_limit_needs_no_value_and_keeps_its_unit(
    session: Session, view: View
) -> None:
    free = replace(_wanted(view, WHOLE), limit=None, unit="GB/s")
    (good,) = _good("cluster")
    for changes, state in (
        ({"value": None}, GateState.PASSED),
        ({"value": "yes"}, GateState.PASSED),
        ({"unit": "MB/s"}, GateState.OPEN),
    ):
        _kept(session, view, limits={}, results=(good.model_copy(update=changes),))
        (gate,) = gates_of(session, view, [free])
        assert gate.state is state, changes
        assert not gate.holds_back or state is GateState.OPEN
    assert gate.why == "cluster: it was measured in MB/s, but the gate uses GB/s"


@pytest.mark.parametrize("ahead", [0, 1])
def test_what_the_journal_orders_needs_no_clock(
    session: Session, view: View, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    """A stage changed the host by a clock that was an hour ahead; then it was set back, and the host was measured."""

    class Ahead(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(datetime.now(tz).timestamp(), tz) + timedelta(hours=1)

    with monkeypatch.context() as patched:
        patched.setattr(journal, "datetime", Ahead)
        session.journal.append("r0", "host_done", stage="gpu", host="gpu-1", changes=1)
    begin(session, _benchmark())
    began = datetime.now(UTC) + timedelta(hours=ahead)
    keep_run(session, view, _benchmark(), Outcome(tuple(_good(*HOSTS))), began)
    assert _gate(session, view).state is GateState.PASSED


@pytest.mark.parametrize(
    ("run", "days", "fresh"), [("elsewhere", -1, True), ("elsewhere", 1, False), ("r1", 1, True)]
)
def test_a_receipt_counts_by_its_date_where_this_journal_does_not_know_its_run(
    session: Session, view: View, run: str, days: int, fresh: bool
) -> None:
    _run(session, view, _good(*HOSTS))
    written = (datetime.now(UTC) + timedelta(days=days)).isoformat()
    receipt = receipt_of("gpu", "x", written=written, run=run)
    told = view.facts["gpu-1"].model_copy(update={"receipts": {"gpu": receipt}})
    now = replace(view, facts={**view.facts, "gpu-1": told})
    assert (_gate(session, now).state is GateState.PASSED) is fresh


def test_an_old_receipt_of_another_journal_hides_no_later_change(
    session: Session, view: View
) -> None:
    _run(session, view, _good(*HOSTS))
    session.journal.append("r2", "host_done", stage="gpu", host="gpu-1", changes=1)
    written = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    receipt = receipt_of("gpu", "x", written=written, run="elsewhere")
    told = view.facts["gpu-1"].model_copy(update={"receipts": {"gpu": receipt}})
    now = replace(view, facts={**view.facts, "gpu-1": told})
    assert "last change of stage gpu on gpu-1" in _gate(session, now).why


def test_a_host_that_has_no_gpus_is_asked_for_none(session: Session, view: View) -> None:
    targets = per_host(["head", "gpu-1"])
    _run(session, view, _good("head", "gpu-1"), targets)
    assert _gate(session, view, targets).state is GateState.PASSED


def test_gpus_of_several_models_are_told_as_such(session: Session, view: View) -> None:
    _kept(session, view, gpu="")
    assert _gate(session, view, WHOLE).why == (
        f"the evidence is from GPUs of several models, but the site has {GPU}"
    )
    unknown = replace(_wanted(view, WHOLE), gpus=frozenset())
    (gate,) = gates_of(session, view, [unknown])
    assert gate.state is GateState.PASSED


def test_a_stage_that_told_no_end_of_its_kind_changed_the_host(
    session: Session, view: View
) -> None:
    _run(session, view, _good(*HOSTS))
    session.journal.append("r2", "host_failed", stage="gpu", host="gpu-2", changes=0)
    assert "last change of stage gpu on gpu-2" in _gate(session, view).why


WORDS = ("user", "site", "passed", "status", "version", "benchmark", "pass", "2026", "null", "true")


@pytest.mark.parametrize("word", WORDS)
def test_a_secret_that_is_a_word_of_the_form_harms_no_record(
    session: Session, view: View, word: str
) -> None:
    session = replace(session, redact=Redactor((word,)))
    origin = Origin(Source.TOOL, f"a file of {word}", datetime.now(UTC), "its own clock")
    outcome = Outcome(tuple(_good(*HOSTS)))
    made = evidence_of(session, view, _benchmark(), outcome, origin)
    keep_evidence(session, made)
    (entry,) = [e for e in session.journal.entries() if e.kind == "evidence"]
    kept = Evidence.model_validate(entry.data["evidence"])
    assert kept.origin == "a file of ***"
    assert [r.status for r in kept.results] == [r.status for r in made.results]
