"""A site of two classes: evidence of one class closes no gate of the other, and each run measures both."""

from dataclasses import replace

import pytest

from appliance.actions.benchmarks.gpt3_logs import _of_class
from appliance.actions.benchmarks.resume import BenchmarkRequest, resumed_request, store_request
from appliance.adapters.remote import Remote
from appliance.benchmarks.benchmark import Benchmark, Outcome, Requirement, per_host
from appliance.checks.check import View, passed
from appliance.config import data
from appliance.config.load import load_profile
from appliance.engine.accept.acceptance import gates_of
from appliance.engine.accept.deployment_state import declared_digests
from appliance.engine.accept.evidence import keep_evidence, recorded
from appliance.engine.look.shared_baseline import accepted_facts, record_accepted
from appliance.engine.look.shared_facts import shareable_facts
from appliance.engine.run.benchmark_runs import run_benchmarks
from appliance.engine.session import Session
from appliance.models.acceptance import GateState, Level
from appliance.models.profile import Limit
from appliance.models.result import CLUSTER, place
from appliance.models.run import host_record, of_its_class
from appliance.models.site import Role
from tests.support.facts import facts_of

LIMIT = Limit(value=1, unit="GB/s", source="x")
OTHER = load_profile("balanced")


@pytest.fixture
def mixed(session: Session) -> Session:
    """gpu-1 is of the site's class hpc, gpu-2 of class balanced."""
    of = {host.name: session.profile for host in session.site.hosts} | {"gpu-2": OTHER}
    return replace(session, site=session.site.with_profiles(of))


def view_of(session: Session) -> View:
    names = ("head", "gpu-1", "gpu-2")
    return View(session.profile, session.site, {name: facts_of(name) for name in names})


def gates(view: View) -> tuple[Requirement, ...]:
    hosts = [host.name for host in view.site.with_role(Role.GPU)]
    return (
        Requirement(
            id="copy.rate",
            title="Copies",
            level=Level.HOST,
            benchmark="copy",
            check="copy.rate",
            targets=per_host(hosts),
            close="appliance validate copy",
            limit=LIMIT,
            stages=(),
            of_gpus=False,
        ),
    )


def measuring(*seen: list[str], of_class: bool = True) -> Benchmark:
    """A benchmark that finds every host good, and notes which it was given."""

    def run(view: View, remote: Remote) -> Outcome:
        hosts = [host.name for host in view.site.with_role(Role.GPU)]
        for noted in seen:
            noted += [view.profile.name, *hosts]
        told = [passed(host, 2.0, unit="GB/s").of("copy.rate") for host in hosts]
        at = place(CLUSTER, f"{len(hosts)} hosts")
        return Outcome((*told, passed(at, 2.0, unit="GB/s").of("copy.all")))

    checks = ("copy.rate", "copy.all")
    return Benchmark("copy", "Copies", checks, run, 1.0, "x", gates=gates, of_class=of_class)


def test_a_benchmark_runs_for_each_class_on_its_own_hosts(mixed: Session) -> None:
    seen: list[str] = []
    done = run_benchmarks(mixed, view_of(mixed), ["gpu-1", "gpu-2"], (measuring(seen),))
    assert seen == ["hpc", "gpu-1", "balanced", "gpu-2"]
    # What both say of the cluster is told apart.
    assert [r.target for r in done.measured.results] == [
        *("gpu-1", "cluster/hpc,1 hosts"),
        *("gpu-2", "cluster/balanced,1 hosts"),
    ]
    assert [one.evidence.profile for one in recorded(mixed)] == ["hpc", "balanced"]
    assert all(one.since is not None for one in recorded(mixed))


def test_one_of_all_hosts_runs_once(mixed: Session) -> None:
    seen: list[str] = []
    benchmark = measuring(seen, of_class=False)
    done = run_benchmarks(mixed, view_of(mixed), ["gpu-1", "gpu-2"], (benchmark,))
    assert seen == ["hpc", "gpu-1", "gpu-2"]
    assert done.measured.results[-1].target == "cluster/2 hosts"


def test_a_site_of_one_class_is_measured_at_once(session: Session) -> None:
    seen: list[str] = []
    done = run_benchmarks(session, view_of(session), ["gpu-1", "gpu-2"], (measuring(seen),))
    assert seen == ["hpc", "gpu-1", "gpu-2"]
    assert done.measured.results[-1].target == "cluster/2 hosts"


def test_evidence_of_one_class_closes_no_gate_of_another(mixed: Session) -> None:
    view, benchmark = view_of(mixed), measuring()
    run_benchmarks(mixed, view, ["gpu-1", "gpu-2"], (benchmark,))
    wanted = benchmark.requirements(view)
    found = gates_of(mixed, view, wanted)
    assert {gate.profile: gate.state for gate in found} == {
        "hpc": GateState.PASSED,
        "balanced": GateState.PASSED,
    }
    (of_hpc,) = (one for one in recorded(mixed) if one.evidence.profile == "hpc")
    other = of_hpc.evidence.model_copy(update={"hosts": ("gpu-2",), "results": ()})
    keep_evidence(mixed, other)
    forged = of_hpc.evidence.model_copy(
        update={"results": (passed("gpu-2", 2.0, unit="GB/s").of("copy.rate"),)}
    )
    keep_evidence(mixed, forged)
    again = {gate.profile: gate for gate in gates_of(mixed, view, wanted)}
    assert again["balanced"].source == found[1].source
    assert again["balanced"].state is GateState.PASSED


def test_a_run_that_was_cut_off_goes_on_with_the_class_it_has_not_measured(
    mixed: Session,
) -> None:
    store_request(mixed, BenchmarkRequest(("dcgm",)), ())
    dcgm, seen = replace(measuring(), name="dcgm"), list[str]()
    of_hpc = view_of(mixed).by_class()[0]
    run_benchmarks(mixed, of_hpc, ["gpu-1"], (dcgm,))
    _, known = resumed_request(mixed)
    assert list(known) == ["dcgm/hpc"]
    again = replace(measuring(seen), name="dcgm")
    done = run_benchmarks(mixed, view_of(mixed), ["gpu-1", "gpu-2"], (again,), known)
    assert seen == ["balanced", "gpu-2"]
    assert {r.host for r in done.measured.results} == {None, "gpu-1", "gpu-2"}


def test_a_class_that_changed_is_another_site_than_was_deployed(mixed: Session) -> None:
    mixed = replace(mixed, data=data.root())
    before = declared_digests(mixed)
    assert {"class hpc", "class balanced"} <= before.keys()
    stages = OTHER.stages.model_copy(update={"hugepages_2m": 8})
    other = OTHER.model_copy(update={"stages": stages})
    of = {host.name: mixed.profile_of(host.name) for host in mixed.site.hosts} | {"gpu-2": other}
    after = declared_digests(replace(mixed, site=mixed.site.with_profiles(of)))
    assert [key for key in after if after[key] != before.get(key)] == ["class balanced"]


def test_a_site_of_one_class_declares_what_it_did(session: Session) -> None:
    assert not any(
        key.startswith("class ") for key in declared_digests(replace(session, data=data.root()))
    )


def test_what_was_accepted_of_a_host_is_of_its_class(mixed: Session, session: Session) -> None:
    said = {"gpu-2": facts_of("gpu-2", cpu={"sockets": 2, "cores": 64, "threads": 128})}
    record_accepted(replace(mixed, accepting=frozenset({"gpu-2"})), said, [])
    assert list(accepted_facts(mixed)) == ["gpu-2"]
    assert accepted_facts(session) == {}


def test_sizes_are_compared_within_a_class(mixed: Session) -> None:
    def of(name: str, cores: int, gib: int) -> dict[str, object]:
        cpu = {"sockets": 2, "cores": cores, "threads": 2 * cores}
        return {"cpu": cpu, "memory": {"total": gib << 30, "available": 1 << 30}}

    said = {
        "gpu-1": facts_of("gpu-1", **of("gpu-1", 96, 1000)),
        "gpu-2": facts_of("gpu-2", **of("gpu-2", 64, 500)),
    }
    # Eight times less than class hpc has is too little for it, and enough for class balanced.
    said["gpu-2"] = facts_of("gpu-2", **of("gpu-2", 64, 110))
    found = shareable_facts(mixed.profile, mixed.site, said)
    assert found.left_out == frozenset()
    single = mixed.site.with_profiles({})
    assert shareable_facts(mixed.profile, single, said).left_out == {"gpu-2"}


def test_a_record_names_the_class_of_each_host_and_what_it_promises(
    mixed: Session, session: Session
) -> None:
    site = mixed.site
    records = [of_its_class(host_record(h, None), mixed.profile, site) for h in site.hosts]
    assert [record.profile for record in records] == ["", "hpc", "balanced"]
    assert [record.expected and record.expected.gpus for record in records] == [None, 8, 4]
    own = [of_its_class(host_record(h, None), session.profile, session.site) for h in site.hosts]
    assert [record.expected for record in own] == [None] * 3


def test_classes_are_told_for_people(mixed: Session, session: Session) -> None:
    assert (mixed.classes, session.classes) == ("hpc, balanced", "hpc")


def test_logs_of_trainings_are_judged_by_the_class_that_has_published_figures(
    mixed: Session,
) -> None:
    site = mixed.site
    own = {"gpu-1": mixed.profile, "gpu-2": OTHER, "head": OTHER}
    four = [f"gpu-{n}" for n in (1, 3, 4, 5)]
    hosts = (
        *site.hosts,
        *(site.host("gpu-1").model_copy(update={"name": name}) for name in four[1:]),
    )
    site = site.model_copy(update={"hosts": hosts})
    site = site.with_profiles(own | dict.fromkeys(four, mixed.profile))
    chosen = _of_class(View(OTHER, site, {}))
    assert chosen.profile is mixed.profile
    assert [host.name for host in chosen.site.with_role(Role.GPU)] == four
