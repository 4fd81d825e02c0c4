"""Gates of the measuring benchmarks: what a sound cluster gives closes each of them, target by target."""

import pytest

from appliance.benchmarks import BENCHMARKS, measured
from appliance.benchmarks.benchmark import Requirement
from appliance.benchmarks.nccl import run as nccl
from appliance.benchmarks.perftest import run as perftest
from appliance.checks.check import View
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Status
from tests.unit.benchmarks.burnin.test_run import DONE, HOSTS
from tests.unit.benchmarks.burnin.test_run import Cluster as BurnIn
from tests.unit.benchmarks.burnin.test_run import view as burnin_view
from tests.unit.benchmarks.nccl.test_run import Cluster as Nccl
from tests.unit.benchmarks.nccl.test_run import view as nccl_view
from tests.unit.benchmarks.perftest.test_perftest import Cluster as Rails
from tests.unit.benchmarks.perftest.test_perftest import view as rails_view


def asking(view: View, **limits: float) -> View:
    """The site asks for these figures, by check with __ for its dot."""
    given = {
        name.replace("__", "."): Limit(value=value, source="contract")
        for name, value in limits.items()
    }
    site = view.site.model_copy(update={"limits": given})
    return View(view.profile, site, view.facts)


def closes(gate: Requirement, results: tuple[CheckResult, ...]) -> bool:
    """As the engine reads it: each target passes, and nothing that concerns the gate failed."""
    good = {r.target for r in results if r.id == gate.check and r.status is Status.PASS}
    bad = [r for r in results if gate.concerns(r) and r.status is Status.FAIL]
    return {target.name for target in gate.targets} <= good and not bad


def test_without_a_limit_nothing_is_asked_for() -> None:
    chosen = [
        b for b in BENCHMARKS if b.name in {"dcgm", "nccl", "perftest", "fio", "hpcc", "burnin"}
    ]
    assert len(chosen) == 6
    assert [b.gates(rails_view(["gpu-1", "gpu-2"])) for b in chosen] == [()] * 6


def test_a_sound_cluster_closes_the_gates_of_collectives_and_a_slow_host_none() -> None:
    view = asking(nccl_view(4), nccl__cluster=180)
    gates = measured.nccl(view)
    assert [gate.id for gate in gates] == ["nccl.host", "nccl.cluster"]
    sound = nccl.run(view, Nccl()).results
    assert [closes(gate, sound) for gate in gates] == [True, True]
    slow = nccl.run(view, Nccl(slow=["gpu-2"])).results
    assert [closes(gate, slow) for gate in gates] == [True, False]


def test_every_rail_is_a_target_and_a_slow_one_keeps_its_gate_open() -> None:
    view = asking(
        rails_view([f"gpu-{i}" for i in range(1, 5)]), perftest__write_bw=180, perftest__write_lat=5
    )
    gates = measured.perftest(view)
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
    (gate,) = measured.perftest(View(known.profile, known.site, {}))
    assert "not known" in gate.blocked


@pytest.mark.parametrize(("hours", "expected"), [(8, True), (24, False)])
def test_a_burn_in_that_is_shorter_than_asked_for_closes_nothing(
    hours: float, expected: bool
) -> None:
    view = asking(burnin_view(), burnin__done=hours)
    (gate,) = measured.burn_in(view)
    assert [target.name for target in gate.targets] == list(HOSTS)
    cluster = BurnIn("RUNNING", "", samples=DONE)
    assert closes(gate, cluster.outcome(480, view).results) is expected


def test_a_throttled_gpu_keeps_the_burn_in_open() -> None:
    view = asking(burnin_view(), burnin__done=8)
    (gate,) = measured.burn_in(view)
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
    assert [t.name for gate in measured.fio(view) for t in gate.targets] == [
        "gpu-1/scratch",
        "gpu-2/scratch",
    ]
    assert [t.name for gate in measured.hpcc(view) for t in gate.targets] == ["gpu-1", "gpu-2"]
    assert [t.name for gate in measured.dcgm(view) for t in gate.targets] == [
        f"gpu-{host}/GPU {gpu}" for host in (1, 2) for gpu in (0, 1)
    ]
