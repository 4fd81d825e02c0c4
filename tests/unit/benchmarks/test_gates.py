"""Gates of the measuring benchmarks: what a sound cluster gives closes each of them, target by target."""

import pytest

from appliance.actions.benchmarks.validate import deciding
from appliance.benchmarks import BENCHMARKS, floors
from appliance.benchmarks.benchmark import Requirement
from appliance.benchmarks.burnin.gates import gates as burnin_gates
from appliance.benchmarks.dcgm.gates import gates as dcgm_gates
from appliance.benchmarks.dcgm.run import judge as of_dcgm
from appliance.benchmarks.fio import run as fio
from appliance.benchmarks.fio.gates import gates as fio_gates
from appliance.benchmarks.hpcc.gates import gates as hpcc_gates
from appliance.benchmarks.jobs import HostOutput
from appliance.benchmarks.nccl import run as nccl
from appliance.benchmarks.nccl.gates import gates as nccl_gates
from appliance.benchmarks.nvbandwidth import run as nvbandwidth
from appliance.benchmarks.nvbandwidth.gates import CHECKS as COPIES
from appliance.benchmarks.nvbandwidth.gates import gates as copies_gates
from appliance.benchmarks.perftest import run as perftest
from appliance.benchmarks.perftest.gates import gates as perftest_gates
from appliance.checks.check import View
from appliance.config.load import load_profile
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Status
from appliance.models.site import Owner, Role
from tests.support.burnin_cluster import DONE, HOSTS
from tests.support.burnin_cluster import Cluster as BurnIn
from tests.support.burnin_cluster import view as burnin_view
from tests.support.dcgm_output import FOUR, THREE
from tests.support.fio_hosts import Hosts as Fio
from tests.support.fio_hosts import view as storage_view
from tests.support.nccl_cluster import Cluster as Nccl
from tests.support.nccl_cluster import view as nccl_view
from tests.support.nvbandwidth_cluster import EIGHT, cell
from tests.support.nvbandwidth_cluster import Cluster as Copies
from tests.support.nvbandwidth_cluster import view as copies_view
from tests.support.perftest_cluster import Cluster as Rails
from tests.support.perftest_cluster import view as rails_view

UNITS = {check: bound.unit for benchmark in BENCHMARKS for check, bound in benchmark.bounds.items()}


def asking(view: View, **limits: float) -> View:
    """The site asks for these figures, by check with __ for its dot."""
    given = {
        name.replace("__", "."): Limit(
            value=value, unit=UNITS[name.replace("__", ".")], source="contract"
        )
        for name, value in limits.items()
    }
    site = view.site.model_copy(update={"limits": given})
    return View(view.profile, site, view.facts)


def closes(gate: Requirement, results: tuple[CheckResult, ...]) -> bool:
    """As the engine reads it: each target passes in the gate's unit, and nothing that concerns the gate failed."""
    good = {
        r.target
        for r in results
        if r.id == gate.check
        and r.status is Status.PASS
        and r.value is not None
        and r.unit == gate.expected_unit
    }
    bad = [r for r in results if gate.concerns(r) and r.status is Status.FAIL]
    return {target.name for target in gate.targets} <= good and not bad


def test_without_a_limit_nothing_is_asked_for() -> None:
    chosen = [
        b
        for b in BENCHMARKS
        if b.name in {"dcgm", "nvbandwidth", "nccl", "perftest", "fio", "hpcc", "burnin"}
    ]
    assert len(chosen) == 7
    assert [b.gates(rails_view(["gpu-1", "gpu-2"])) for b in chosen] == [()] * 7


def test_a_sound_cluster_closes_the_gates_of_collectives_and_a_slow_host_none() -> None:
    view = asking(nccl_view(4), nccl__cluster=180)
    gates = nccl_gates(view)
    assert [gate.id for gate in gates] == ["nccl.host", "nccl.cluster"]
    sound = nccl.run(view, Nccl()).results
    assert [closes(gate, sound) for gate in gates] == [True, True]
    slow = nccl.run(view, Nccl(slow=["gpu-2"])).results
    assert [closes(gate, slow) for gate in gates] == [True, False]


def test_every_rail_is_a_target_and_a_slow_one_keeps_its_gate_open() -> None:
    view = asking(
        rails_view([f"gpu-{i}" for i in range(1, 5)]), perftest__write_bw=180, perftest__write_lat=5
    )
    gates = perftest_gates(view)
    assert [(gate.id, len(gate.targets)) for gate in gates] == [
        ("perftest.write_bw", 8),
        ("perftest.write_lat", 8),
    ]
    sound = perftest.run(view, Rails()).results
    assert [closes(gate, sound) for gate in gates] == [True, True]
    slow = perftest.run(view, Rails("gpu-2/mlx5_1")).results
    assert [closes(gate, slow) for gate in gates] == [False, True]


def test_rails_that_nobody_knows_block_their_gate() -> None:
    known = asking(rails_view(["gpu-1", "gpu-2"]), perftest__write_bw=180)
    (gate,) = perftest_gates(View(known.profile, known.site, {}))
    assert "than the class has (2) on gpu-[1-2]" in gate.blocked


def test_a_rail_that_is_down_blocks_the_gate_that_would_not_miss_it() -> None:
    view = asking(rails_view(["gpu-1", "gpu-2"]), perftest__write_bw=180)
    assert [gate.blocked for gate in perftest_gates(view)] == [""]
    facts = view.facts["gpu-2"]
    down = facts.ports[0].model_copy(update={"state": "1: DOWN"})
    less = facts.model_copy(update={"ports": (down, *facts.ports[1:])})
    seen = View(view.profile, view.site, {**view.facts, "gpu-2": less})
    (gate,) = perftest_gates(seen)
    assert "(2) on gpu-2: " in gate.blocked
    # A port is repaired: the run that misses it waits for that, and nobody is told to waive it.
    assert not gate.forever
    measuring = next(benchmark for benchmark in BENCHMARKS if benchmark.name == "perftest")
    assert deciding([measuring], seen) == {"perftest.write_bw"}


def test_a_single_host_has_no_gate_that_takes_a_pair() -> None:
    assert perftest_gates(asking(rails_view(["gpu-1"]), perftest__write_bw=180)) == ()
    assert [g.id for g in nccl_gates(asking(nccl_view(1), nccl__cluster=180))] == ["nccl.host"]


def test_hosts_of_one_gpu_have_no_gate_of_what_goes_between_gpus_of_a_host() -> None:
    def ids(gpus: int) -> list[str]:
        return [g.id for g in nccl_gates(asking(nccl_view(2, gpus=gpus), nccl__cluster=180))]

    assert ids(2) == ["nccl.host", "nccl.cluster"]
    assert ids(1) == ["nccl.cluster"]


def test_a_host_of_one_gpu_takes_no_gate_from_the_others() -> None:
    seen = asking(nccl_view(3), nccl__cluster=180)
    hosts = tuple(
        host.model_copy(update={"gpus": 1}) if host.name == "gpu-2" else host
        for host in seen.site.hosts
    )
    mixed = View(seen.profile, seen.site.model_copy(update={"hosts": hosts}), seen.facts)
    host, whole = nccl_gates(mixed)
    assert [target.name for target in host.targets] == ["gpu-1", "gpu-3"]
    assert [target.name for target in whole.targets] == ["cluster/3 hosts"]


def given_to_kubernetes(view: View, *names: str) -> View:
    """The same site, where these GPU hosts are Kubernetes'; none named: all of them."""
    hosts = tuple(
        host.model_copy(update={"owner": Owner.KUBERNETES})
        if Role.GPU in host.roles and host.name in (names or (host.name,))
        else host
        for host in view.site.hosts
    )
    return View(view.profile, view.site.model_copy(update={"hosts": hosts}), view.facts)


@pytest.mark.parametrize(
    ("of_kubernetes", "beyond"),
    [(("gpu-2",), frozenset({"gpu-2"})), (("gpu-1", "gpu-2"), frozenset[str]())],
)
def test_no_gate_and_no_host_of_it_vanishes_where_kubernetes_has_hosts(
    of_kubernetes: tuple[str, ...], beyond: frozenset[str]
) -> None:
    view = asking(
        rails_view(["gpu-1", "gpu-2"]), perftest__write_bw=180, burnin__done=8, nccl__cluster=180
    )
    other = given_to_kubernetes(view, *of_kubernetes)
    for of_benchmark in (perftest_gates, burnin_gates, nccl_gates):
        before, after = of_benchmark(view), of_benchmark(other)
        assert [(g.id, g.targets) for g in after] == [(g.id, g.targets) for g in before]
        assert {g.beyond for g in before} == {frozenset()}
        assert {g.beyond for g in after} == {beyond}
        assert [g.close for g in after] == [g.close for g in before]


@pytest.mark.parametrize(("hours", "expected"), [(8, True), (24, False)])
def test_a_burn_in_that_is_shorter_than_asked_for_closes_nothing(
    hours: float, expected: bool
) -> None:
    view = asking(burnin_view(), burnin__done=hours)
    (gate,) = burnin_gates(view)
    assert [target.name for target in gate.targets] == list(HOSTS)
    cluster = BurnIn("RUNNING", "", samples=DONE)
    assert closes(gate, cluster.outcome(480, view).results) is expected


def test_a_throttled_gpu_keeps_the_burn_in_open() -> None:
    view = asking(burnin_view(), burnin__done=8)
    (gate,) = burnin_gates(view)
    hot = DONE.replace("0x0000000000000004", "0x0000000000000040", 1)
    assert hot != DONE
    later = hot.partition("\n")[2]
    begun = (
        DONE.partition("\n")[0]
        + "\n"
        + later.replace("0x0000000000000004", "0x0000000000000040", 1)
    )
    assert not closes(gate, BurnIn("RUNNING", "", samples=begun).outcome(480, view).results)


def test_targets_of_scratch_and_shared_storage_are_named_as_results_are() -> None:
    view = asking(
        burnin_view(), fio__scratch_read=3, fio__total_read=10, hpcc__stream=400, dcgm__diag=3
    )
    assert [t.name for gate in fio_gates(view) for t in gate.targets] == [
        "gpu-1/scratch",
        "gpu-2/scratch",
    ]
    assert [t.name for gate in hpcc_gates(view) for t in gate.targets] == ["gpu-1", "gpu-2"]
    assert [t.name for gate in dcgm_gates(view) for t in gate.targets] == [
        f"gpu-{host}/GPU {gpu}" for host in (1, 2) for gpu in (0, 1)
    ]


@pytest.mark.parametrize("said", [THREE, FOUR])
def test_what_dcgm_says_of_sound_gpus_closes_its_gate(said: str) -> None:
    (gate,) = dcgm_gates(asking(burnin_view(), dcgm__diag=3))
    results = [r for host in HOSTS for r in of_dcgm(host, HostOutput(said, 0), 2, 3)]
    assert closes(gate, tuple(results))
    silent = f"{HOSTS[-1]}/GPU 1"
    assert not closes(gate, tuple(r for r in results if r.target != silent))


def test_sound_copies_close_their_gates_and_one_slow_way_leaves_one_open() -> None:
    seen = asking(copies_view(2), nvbandwidth__h2d=20, nvbandwidth__d2h=20, nvbandwidth__peer=200)
    asked = copies_gates(seen)
    assert [gate.id for gate in asked] == list(COPIES)
    sound = nvbandwidth.run(seen, Copies(EIGHT)).results
    assert [closes(gate, sound) for gate in asked] == [True] * 3
    slow = cell(EIGHT, nvbandwidth.CASES[COPIES[-1]][1], 3, 0, "199")
    bad = nvbandwidth.run(seen, Copies({"gpu-2": slow})).results
    assert [closes(gate, bad) for gate in asked] == [True, True, False]
    none = nvbandwidth.run(seen, Copies({"gpu-2": ""})).results
    assert [closes(gate, none) for gate in asked] == [False] * 3


@pytest.mark.parametrize("name", ["hpc", "dgx-a100"])
def test_bandwidths_that_a_class_asks_for_follow_from_its_ports(name: str) -> None:
    profile = load_profile(name)
    bare = profile.model_copy(update={"limits": {}})
    view = View(bare, burnin_view().site, {})
    for check, derived in (
        ("nccl.cluster", floors.of_fabric),
        ("perftest.write_bw", floors.of_port),
    ):
        bound = derived(view, check)
        assert bound
        asked = profile.limits[check]
        assert (asked.value, asked.unit) == (bound.value, bound.unit)


def test_what_rests_on_no_gpu_says_so_and_each_target_is_of_what_was_measured() -> None:
    seen = asking(
        storage_view(2),
        fio__scratch_read=3,
        fio__shared_create=100,
        fio__total_write=10,
        fio__decay=20,
        fio__visible=1,
        hpcc__hpl=400,
    )
    gates = {gate.id: gate for gate in (*fio_gates(seen), *hpcc_gates(seen))}
    assert {name: [t.name for t in gate.targets] for name, gate in gates.items()} == {
        "fio.scratch_read": ["gpu-1/scratch", "gpu-2/scratch"],
        "fio.shared_create": ["gpu-1/data", "gpu-2/data"],
        "fio.total_write": ["cluster/data 2 hosts"],
        "fio.decay": ["cluster/data 2 hosts"],
        "fio.visible": ["cluster/data 2 hosts"],
        "fio.locks": ["cluster/data 2 hosts"],
        "hpcc.hpl": ["gpu-1", "gpu-2"],
    }
    rails = perftest_gates(asking(rails_view(["gpu-1", "gpu-2"]), perftest__write_bw=180))
    assert not any(gate.of_gpus for gate in (*gates.values(), *rails))
    results = fio.run(seen, Fio()).results
    asked_of_fio = [gate for name, gate in gates.items() if name.startswith("fio")]
    assert [gate.id for gate in asked_of_fio if not closes(gate, results)] == ["fio.total_write"]


def test_who_asks_what_hosts_see_of_each_other_asks_for_locks_too() -> None:
    seen = asking(storage_view(2), fio__visible=1)
    visible, locks = fio_gates(seen)
    assert (visible.id, locks.id, locks.limit) == ("fio.visible", "fio.locks", None)
    sound = fio.run(seen, Fio()).results
    assert [closes(gate, sound) for gate in (visible, locks)] == [True, True]
    bad = tuple(
        r.model_copy(update={"status": Status.FAIL}) if r.id == "fio.locks" else r for r in sound
    )
    assert [closes(gate, bad) for gate in (visible, locks)] == [True, False]
    assert fio_gates(asking(storage_view(1), fio__visible=1)) == ()
    assert [g.id for g in fio_gates(asking(storage_view(2), fio__total_read=1))] == [
        "fio.total_read"
    ]


def test_a_site_without_scratch_has_no_gate_of_it() -> None:
    seen = asking(storage_view(2), fio__scratch_read=3, fio__shared_read=1)
    storage = seen.site.storage.model_copy(update={"scratch": None})
    bare = View(seen.profile, seen.site.model_copy(update={"storage": storage}), seen.facts)
    assert [gate.id for gate in fio_gates(bare)] == ["fio.shared_read"]


def test_collectives_ask_for_a_limit_and_tell_of_hosts_out_of_reach() -> None:
    assert nccl_gates(nccl_view(4)) == ()
    view = asking(nccl_view(2), nccl__cluster=180)
    other = given_to_kubernetes(view, "gpu-2")
    assert {gate.id: gate.beyond for gate in nccl_gates(other)} == {
        "nccl.host": frozenset({"gpu-2"}),
        "nccl.cluster": frozenset({"gpu-2"}),
    }
