"""perftest: its tables in every unit, and slow ports, hosts and cables told apart by pairs."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.adapters.process import Completed, run
from appliance.benchmarks.jobs import HostAccess, HostOutput, Task, Trouble
from appliance.benchmarks.perftest import gates
from appliance.benchmarks.perftest import run as perftest
from appliance.benchmarks.perftest.table import bandwidth, latency
from appliance.benchmarks.reading import Unread
from appliance.checks.check import View
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Status
from tests.support.batches import changed, labelled, lacking, value
from tests.support.perftest_cluster import BW, LAT, RAILS, Cluster, view
from tests.support.profiles import profile_of


def test_the_average_counts_for_a_timed_run_has_no_peak() -> None:
    assert bandwidth(BW) == 197.2


@pytest.mark.parametrize(("unit", "value"), [("MB/sec", 23508.0), ("MiB/sec", 23508.0)])
def test_mebibytes_are_turned_into_gigabits(unit: str, value: float) -> None:
    text = BW.replace("Gb/sec", unit).replace("197.20", f"{value}")
    assert round(bandwidth(text), 2) == 197.2


def test_latency_is_the_typical_one() -> None:
    assert latency(LAT) == 1.92


def test_a_warning_in_the_midst_of_the_table_is_passed_over() -> None:
    warned = BW.replace(
        " 1048576 ", "Conflicting CPU frequency values detected: 1 != 2.\n 1048576 "
    )
    assert bandwidth(warned) == 197.2


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("", "no output"),
        (" Unable to find the Infiniband/RoCE device\n", "Unable to find"),
        (BW[: BW.rindex("---------") - 100], "is incomplete"),
        (BW.replace(" 1048576    70522            0.00               197.20 \t\t   0.023508\n", ""), "empty"),
        (BW.replace("Gb/sec", "furlongs"), "not known"),
        (BW.replace("average[Gb/sec]", "average[MB/sec]"), "not known"),
        (BW.replace("197.20", "0.00"), "nothing was transferred"),
        (BW.replace("197.20", "-nan"), "bandwidth"),
        (LAT, "no table"),
    ],
)  # fmt: skip
def test_what_is_no_bandwidth_is_refused(output: str, why: str) -> None:
    with pytest.raises(Unread, match=why):
        bandwidth(output)


@pytest.mark.parametrize(
    ("says", "fails", "calls"),
    [
        ("Couldn't connect to 10.0.0.1:18601", 1, 2),
        (" Unable to find the Infiniband/RoCE device", 9, 1),
    ],
)
def test_a_server_that_is_late_is_tried_again_and_a_device_that_is_missing_is_not(
    tmp_path: Path, says: str, fails: int, calls: int
) -> None:
    tool = tmp_path / "ib_write_bw"
    tool.write_text(
        f'#!/bin/sh\n[ "$1" = --help ] && exit\necho "$1" >>{tmp_path}/calls\n'
        f'[ $(wc -l <{tmp_path}/calls) -gt {fails} ] && echo done || {{ echo "{says}"; exit 1; }}\n'
    )
    (tmp_path / "sleep").write_text("#!/bin/sh\n")
    (tmp_path / "ib_write_lat").write_text("#!/bin/sh\n")
    for file in tmp_path.iterdir():
        file.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURMD_NODENAME": "gpu-2"}
    words = ("sh", "-c", perftest.SCRIPT, "sh", "3", "gpu-1", "10.0.0.1", "mlx5_0:")
    done = run(words, env=environment, timeout=30)
    assert len((tmp_path / "calls").read_text().splitlines()) == calls
    assert says in done.stdout


@pytest.mark.parametrize(
    ("offers", "peer_memory", "asked"),
    [
        ("--use_cuda --use_cuda_dmabuf", False, "--use_cuda_dmabuf --use_cuda=5"),
        ("--use_cuda --use_cuda_dmabuf", True, "--use_cuda=5"),
        ("--use_cuda", True, "--use_cuda=5"),
        ("--use_cuda", False, ""),
        ("", True, ""),
    ],
)
def test_gpu_memory_is_reached_through_peer_memory_or_dma_buf(
    tmp_path: Path, offers: str, peer_memory: bool, asked: str
) -> None:
    """By what the kernel has loaded and the tool offers; without either nothing is measured."""
    module = "/sys/module/nvidia_peermem"
    loaded = tmp_path / "module"
    (loaded if peer_memory else tmp_path).mkdir(exist_ok=True)
    tool = tmp_path / "ib_write_bw"
    tool.write_text(
        f'#!/bin/sh\n[ "$1" = --help ] && echo "{offers}" && exit\necho "$@" >>{tmp_path}/calls\n'
    )
    (tmp_path / "sleep").write_text("#!/bin/sh\n")
    (tmp_path / "ib_write_lat").write_text("#!/bin/sh\n")
    for file in tmp_path.iterdir():
        file.chmod(0o755)
    assert module in perftest.SCRIPT
    script = perftest.SCRIPT.replace(module, str(loaded))
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURMD_NODENAME": "gpu-2"}
    run(("sh", "-c", script, "sh", "3", "gpu-1", "10.0.0.1", "mlx5_0:5"), env=environment)
    _, *of_gpu = (tmp_path / "calls").read_text().splitlines()
    told = [call[call.index("--use_cuda") :].partition(" -p ")[0] for call in of_gpu]
    assert told == ([asked] if asked else [])


@settings(max_examples=60)
@given(st.integers(0, len(BW)), st.text(max_size=4))
def test_no_doctored_table_breaks_the_reader(at: int, noise: str) -> None:
    for reader in (bandwidth, latency):
        with suppress(Unread):
            assert reader(BW[:at] + noise) > 0


def found(count: int, cluster: Cluster) -> dict[tuple[str, str], CheckResult]:
    names = [f"gpu-{i}" for i in range(1, count + 1)]
    return {(r.id, r.target): r for r in perftest.run(view(names), cluster).results}


def failures(results: dict[tuple[str, str], CheckResult]) -> list[tuple[str, str]]:
    return sorted(key for key, r in results.items() if r.status is Status.FAIL)


def test_sound_rails_pass_with_their_sources() -> None:
    results = found(4, Cluster())
    one = results["perftest.write_bw", "gpu-3/mlx5_1"]
    assert (one.status, one.value, one.limit, one.unit) == (Status.PASS, 197.2, 180.0, "Gb/s")
    assert "Azure NHC" in one.limit_source
    lat = results["perftest.write_lat", "gpu-3/mlx5_1"]
    assert (lat.status, lat.value, lat.limit) == (Status.PASS, 1.92, 5.0)
    gpu = results["perftest.gpu_write_bw", "cluster"]
    assert (gpu.status, gpu.required, "CUDA" in gpu.cause) == (Status.NOT_ASSESSED, False, True)


def test_a_slow_port_is_named_and_its_neighbours_are_cleared() -> None:
    results = found(4, Cluster("gpu-2/mlx5_1"))
    assert failures(results) == [("perftest.write_bw", "gpu-2/mlx5_1")]
    assert results["perftest.write_bw", "gpu-1/mlx5_1"].status is Status.PASS
    assert results["perftest.write_bw", "gpu-2/mlx5_0"].status is Status.PASS


def test_ports_that_are_all_slow_are_their_hosts_fault() -> None:
    results = found(4, Cluster("gpu-2/mlx5_0", "gpu-2/mlx5_1"))
    assert [t for _, t in failures(results)] == ["gpu-2/mlx5_0", "gpu-2/mlx5_1"]
    assert "check the host" in results["perftest.write_bw", "gpu-2/mlx5_0"].cause


def test_a_slow_path_between_good_ports_is_a_cable() -> None:
    results = found(4, Cluster(paths=[frozenset({"gpu-1", "gpu-2"})]))
    assert [t for _, t in failures(results)] == [f"gpu-1/{d},to gpu-2" for d in RAILS]


def test_of_two_hosts_neither_is_blamed() -> None:
    results = found(2, Cluster("gpu-2/mlx5_1"))
    assert failures(results) == []
    assert {results["perftest.write_bw", f"gpu-{i}/mlx5_1"].status for i in (1, 2)} == {
        Status.NOT_ASSESSED
    }
    assert results["perftest.write_bw", "gpu-2/mlx5_0"].status is Status.PASS


def test_an_odd_host_is_measured_too() -> None:
    results = found(5, Cluster("gpu-5/mlx5_0"))
    assert failures(results) == [("perftest.write_bw", "gpu-5/mlx5_0")]


def test_gpu_memory_is_judged_where_perftest_can_read_it() -> None:
    assert (
        found(4, Cluster(cuda=True))["perftest.gpu_write_bw", "gpu-1/mlx5_0"].status is Status.PASS
    )


def test_one_host_makes_no_pair() -> None:
    (only,) = found(1, Cluster()).values()
    assert (only.status, only.required) == (Status.NOT_ASSESSED, False)


@pytest.mark.parametrize(
    ("check", "value", "good"),
    [
        ("perftest.write_bw", 180.0, True),
        ("perftest.write_bw", 179.9, False),
        ("perftest.gpu_write_bw", 180.0, True),
        ("perftest.write_lat", 5.0, True),
        ("perftest.write_lat", 5.1, False),
    ],
)
def test_a_value_at_its_bound_is_good(check: str, value: float, good: bool) -> None:
    bound = Limit(value=5 if check == gates.LAT else 180, unit="", source="a table")
    assert perftest.within(check, value, bound) is good


def test_latency_that_is_too_long_is_that_ports_and_the_worst_of_its_pairs_is_shown() -> None:
    class Late(Cluster):
        def step(self, argv: Sequence[str]) -> Completed:
            done = super().step(argv)
            nodes = value(argv, "--nodelist").split(",")
            slow = LAT.replace("1.92", "7.5") if "gpu-3" in nodes else LAT
            return changed(done, lambda text: text.replace(LAT, slow))

    results = found(4, Late())
    assert failures(results) == [("perftest.write_lat", f"gpu-3/{device}") for device in RAILS]
    one = results["perftest.write_lat", "gpu-3/mlx5_0"]
    assert (one.value, one.unit, one.limit) == (7.5, "us", 5.0)


@pytest.mark.parametrize(("rate", "good"), [(204.0, True), (204.1, False)])
def test_more_than_the_wire_carries_is_no_measurement(rate: float, good: bool) -> None:
    class Twice(Cluster):
        def step(self, argv: Sequence[str]) -> Completed:
            return changed(super().step(argv), lambda text: text.replace("197.20", f"{rate:.2f}"))

    results = found(4, Twice())
    passes = ("perftest.write_bw", "gpu-1/mlx5_0") in results and results[
        "perftest.write_bw", "gpu-1/mlx5_0"
    ].status is Status.PASS
    assert passes is good
    assert results["perftest.write_lat", "gpu-1/mlx5_0"].status is Status.PASS
    told = {r.cause for (check, _), r in results.items() if check == "perftest.write_bw"}
    assert any("more than the wire carries (200)" in cause for cause in told) is not good


def test_measurements_are_those_of_each_pair_and_rail() -> None:
    outcome = perftest.run(view(["gpu-1", "gpu-2"]), Cluster())
    measured = {(m.name, m.target): (m.value, m.unit) for m in outcome.measurements}
    assert measured["perftest.write_bw", "gpu-1-gpu-2 mlx5_1"] == (197.2, "Gb/s")
    assert measured["perftest.write_lat", "gpu-1-gpu-2 mlx5_0"] == (1.92, "us")
    assert [raw.name for raw in outcome.raw] == ["gpu-1-gpu-2.txt"]


def test_a_pair_that_could_not_be_measured_is_told_with_its_reason() -> None:
    class Without(Cluster):
        def step(self, argv: Sequence[str]) -> Completed:
            nodes = value(argv, "--nodelist").split(",")
            told = labelled(*(lacking(node, "ib_write_bw") for node in nodes))
            return Completed(tuple(argv), 0, told, "")

    results = found(2, Without())
    (told,) = [r for (check, _), r in results.items() if check == "perftest.write_bw"]
    assert (told.status, told.required) == (Status.NOT_ASSESSED, True)
    assert told.cause.startswith("ib_write_bw is not there: apt-get install perftest")


def test_rails_are_ports_of_the_fabric_that_are_active() -> None:
    seen = view(["gpu-1", "gpu-2"])
    ports = list(seen.facts["gpu-1"].ports)
    down = ports[1].model_copy(update={"state": "1: DOWN"})
    other = ports[1].model_copy(update={"device": "mlx5_9", "link_layer": "Ethernet"})
    facts = seen.facts["gpu-1"].model_copy(update={"ports": (ports[0], down, other)})
    assert list(gates.rails_of(View(seen.profile, seen.site, {"gpu-1": facts}), "gpu-1")) == [
        "mlx5_0:"
    ]
    assert list(gates.rails_of(View(seen.profile, seen.site, {}), "gpu-1")) == []


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (LAT.replace("1.92", "0.00"), "no message was timed"),
        (LAT[: LAT.rindex("-----") - 200], "is incomplete"),
        (LAT.replace("1.92", "nan"), "latency"),
        (BW, "no table"),
    ],
)
def test_what_is_no_latency_is_refused(output: str, why: str) -> None:
    with pytest.raises(Unread, match=why):
        latency(output)


def test_a_line_of_two_words_is_no_row() -> None:
    row = next(line for line in BW.splitlines() if line.strip().startswith("1048576"))
    with pytest.raises(Unread, match="is incomplete"):
        bandwidth(BW.replace(row, " 1048576  70522"))


def test_parts_are_told_by_their_names_and_each_is_read_as_what_it_is() -> None:
    def said(*parts: tuple[str, str]) -> str:
        return "".join(f"appliance-part {name}\n{text}" for name, text in parts)

    late = LAT.replace("1.92", "300.00")
    values, why = perftest.parts(
        said(
            ("write_bw mlx5_0", BW),
            ("write_lat mlx5_0", late),
            ("read_bw mlx5_0", BW),
            ("write_bw", BW),
        ),
        200.0,
    )
    assert values == {("perftest.write_bw", "mlx5_0"): 197.2, ("perftest.write_lat", "mlx5_0"): 300}
    assert why == ""
    values, why = perftest.parts(said(("write_bw a", "bad"), ("write_bw b", "worse")), 200.0)
    assert values == {}
    assert why.startswith("write_bw of a: ")
    assert perftest.parts(said(("write_bw a", BW)))[0] == {("perftest.write_bw", "a"): 197.2}
    assert perftest.parts(said(("write_bw a", BW)), 100.0)[0] == {}


def test_without_a_fabric_no_port_is_measured() -> None:
    seen = view(["gpu-1", "gpu-2"])
    (only,) = perftest.run(View(profile_of(), seen.site, seen.facts), Cluster()).results
    assert (only.status, only.required) == (Status.NOT_ASSESSED, False)


def test_only_rails_that_both_hosts_have_are_measured() -> None:
    seen = view(["gpu-1", "gpu-2"])
    one = seen.facts["gpu-2"].model_copy(update={"ports": seen.facts["gpu-2"].ports[:1]})
    asked: list[str] = []

    class Asked(Cluster):
        def step(self, argv: Sequence[str]) -> Completed:
            asked.extend(word for word in argv if word.startswith("mlx5_"))
            return super().step(argv)

    perftest.run(View(seen.profile, seen.site, {**seen.facts, "gpu-2": one}), Asked())
    assert asked == ["mlx5_0:"]


def test_why_a_port_has_no_verdict_is_said() -> None:
    slow = found(2, Cluster("gpu-2/mlx5_1"))
    assert slow["perftest.write_bw", "gpu-1/mlx5_1"].cause.startswith(
        "it is slow, but without a known good host"
    )
    unlimited = list(
        perftest.judge(
            ["gpu-1", "gpu-2"],
            {"gpu-1": ["a:"], "gpu-2": ["a:", "b:"]},
            perftest.Measured(
                {frozenset({"gpu-1", "gpu-2"}): {("perftest.write_bw", "a"): 9.0}},
                {frozenset({"gpu-1", "gpu-3"}): "no tool"},
            ),
            dict.fromkeys(gates.CHECKS),
        )
    )
    told = {r.target: r.cause for r in unlimited if r.id == "perftest.write_bw"}
    assert set(told) == {"gpu-1/a", "gpu-2/a", "gpu-2/b"}
    assert all("no limit is known" in cause for cause in told.values())
    bound = Limit(value=5, unit="Gb/s", source="x")
    limited = perftest.judge(
        ["gpu-1", "gpu-2"],
        {"gpu-1": ["a:", "c:"], "gpu-2": ["a:", "b:"]},
        perftest.Measured(
            {frozenset({"gpu-1", "gpu-2"}): {("perftest.write_bw", "a"): 9.0}},
            {frozenset({"gpu-1", "gpu-3"}): "no tool"},
        ),
        dict.fromkeys(gates.CHECKS, bound),
    )
    causes = {r.target: (r.status, r.cause) for r in limited if r.id == "perftest.write_bw"}
    assert causes == {
        "gpu-1/a": (Status.PASS, ""),
        "gpu-1/c": (Status.NOT_ASSESSED, "no tool"),
        "gpu-2/a": (Status.PASS, ""),
        "gpu-2/b": (Status.NOT_ASSESSED, "it was not measured"),
    }


def test_a_slow_port_is_not_said_of_one_that_another_pair_left_out() -> None:
    """The pair of gpu-1 and gpu-2 is slow; of gpu-3 nothing was measured."""
    told = perftest.judge(
        ["gpu-1", "gpu-2", "gpu-3"],
        {"gpu-1": ["a:"], "gpu-2": ["a:"], "gpu-3": ["a:"]},
        perftest.Measured({frozenset({"gpu-1", "gpu-2"}): {("perftest.write_bw", "a"): 4.0}}),
        dict.fromkeys(gates.CHECKS, Limit(value=5, unit="Gb/s", source="x")),
    )
    causes = {r.target: r.cause for r in told if r.id == "perftest.write_bw"}
    assert causes["gpu-1/a"].startswith("it is slow, but without a known good host")
    assert causes["gpu-3/a"] == "it was not measured"


@pytest.mark.parametrize(("ports", "seconds"), [(2, 3 * 19 * 2 + 120), (1, 3 * 19 + 120)])
def test_a_pair_has_three_times_its_parts_of_each_rail(
    ports: int, seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = view(["gpu-1", "gpu-2"])
    facts = {
        name: one.model_copy(update={"ports": one.ports[:ports]})
        for name, one in seen.facts.items()
    }
    asked: list[float] = []

    def together(
        view: View, reach: HostAccess, task: Task, hosts: Sequence[str]
    ) -> dict[str, HostOutput]:
        asked.append(task.seconds)
        return {
            host: HostOutput(trouble=Trouble.OVERDUE, cause="hung", fix="look") for host in hosts
        }

    monkeypatch.setattr(perftest, "together", together)
    outcome = perftest.run(View(seen.profile, seen.site, facts), Cluster())
    assert asked == [seconds]
    assert [raw.text for raw in outcome.raw] == ["hung"]


def test_a_good_ports_best_is_shown_and_not_what_it_reached_with_a_slow_one() -> None:
    results = found(4, Cluster("gpu-2/mlx5_1"))
    assert results["perftest.write_bw", "gpu-1/mlx5_1"].value == 197.2
