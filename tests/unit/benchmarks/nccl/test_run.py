"""NCCL's verdicts: floors by product and by the wire, wrong data, impossible figures, and who is slow among hosts."""

from collections.abc import Sequence

import pytest

from appliance.adapters.process import Completed
from appliance.benchmarks import floors
from appliance.benchmarks.ceilings import Most
from appliance.benchmarks.jobs import HostOutput
from appliance.benchmarks.nccl import run as nccl
from appliance.checks.check import View
from appliance.models.result import CheckResult, Status, place
from tests.support.batches import changed, labelled, lacking, value
from tests.support.facts import facts_of, gpus_of
from tests.support.nccl_cluster import A100, HOST, Cluster, at, table, view
from tests.support.profiles import profile_of

WIRE = Most(200.0, "the wire")


def lone() -> str:
    """What one GPU alone prints: bus bandwidth counts what goes to other GPUs."""
    lines = []
    for line in HOST.splitlines():
        words = line.split()
        if words[:1] and words[0].isdigit():
            words[7] = words[11] = "0.00"
            lines.append("  " + "  ".join(words))
        elif "Rank" not in line or "Rank  0" in line:
            lines.append(line)
    return "\n".join(lines)


def found(count: int, cluster: Cluster, gpu: str = A100) -> dict[tuple[str, str], CheckResult]:
    return {(r.id, r.target): r for r in nccl.run(view(count, gpu), cluster).results}


def test_a_sound_cluster_passes_host_by_host_in_groups_and_as_a_whole() -> None:
    results = found(4, Cluster())
    names = [f"gpu-{i}" for i in range(1, 5)]
    for key in [("nccl.host", n) for n in names] + [("nccl.groups", n) for n in names]:
        assert results[key].status is Status.PASS, results[key]
    whole = results["nccl.cluster", "cluster/4 hosts"]
    assert (whole.status, whole.value, whole.limit) == (Status.PASS, 191.0, 180.0)
    assert whole.limit_source == "0.9 of 8 ports x 200 Gb/s / 8 = 200 GB/s"
    assert results["nccl.cluster", "cluster/all_gather 4 hosts"].status is Status.PASS
    assert results["nccl.cluster", "cluster/alltoall 4 hosts"].status is Status.NOT_ASSESSED
    assert {r.status for k, r in results.items() if k[0] == "nccl.curve"} == {Status.PASS}


def test_the_slow_host_is_named_and_kept_out_of_the_whole() -> None:
    results = found(5, Cluster(slow=["gpu-3"]))
    bad = [k for k, r in results.items() if r.status is Status.FAIL]
    assert bad == [("nccl.groups", "gpu-3")]
    assert results["nccl.groups", "gpu-3"].value == 60.0
    assert results["nccl.cluster", "cluster/4 hosts"].status is Status.PASS
    whole = results["nccl.cluster", "cluster/5 hosts"]
    assert (whole.status, whole.required) == (Status.NOT_ASSESSED, True)
    assert whole.cause == "not over all hosts: gpu-3 not known to be good"


def test_of_two_hosts_neither_is_blamed_and_neither_is_good() -> None:
    results = found(2, Cluster(slow=["gpu-2"]))
    assert {results["nccl.groups", n].status for n in ("gpu-1", "gpu-2")} == {Status.NOT_ASSESSED}
    assert results["nccl.cluster", "cluster/2 hosts"].status is Status.NOT_ASSESSED


def test_a_slow_host_fails_the_floor_of_its_product() -> None:
    result = found(1, Cluster(alone=HOST.replace("235.58", "227.90")))["nccl.host", "gpu-1"]
    assert (result.status, result.limit) == (Status.FAIL, 228.0)
    assert "Azure NHC" in result.limit_source


def test_a_product_without_a_published_floor_is_not_judged() -> None:
    result = found(1, Cluster(), "NVIDIA B300")["nccl.host", "gpu-1"]
    assert (result.status, result.required) == (Status.NOT_ASSESSED, False)


def test_wrong_values_fail_whatever_the_speed() -> None:
    wrong = HOST.replace("values : 0 OK", "values : 2 FAILED")
    assert found(1, Cluster(alone=wrong))["nccl.host", "gpu-1"].cause.startswith(
        "2 values are wrong"
    )


def test_fewer_gpus_than_the_host_has_are_no_measurement_of_it() -> None:
    fewer = HOST.replace(next(ln for ln in HOST.splitlines() if "Rank  7" in ln) + "\n", "")
    result = found(1, Cluster(alone=fewer))["nccl.host", "gpu-1"]
    assert (result.status, result.cause) == (
        Status.ERROR,
        "the benchmark ran on the wrong GPUs: 7 of gpu-1",
    )


def test_more_than_the_wire_is_an_error_and_no_pass() -> None:
    said = HostOutput(table(["gpu-1", "gpu-2"], 487.9))
    measured = nccl.measured_of(said, 8, ("gpu-1", "gpu-2"))
    bound = floors.of_fabric(view(2), "nccl.cluster")
    results = nccl.judge("nccl.cluster", place("cluster"), said, measured, bound, "", WIRE)
    assert next(iter(results)).status is Status.ERROR


def test_small_messages_say_nothing_of_the_plateau() -> None:
    rows = [ln for ln in HOST.splitlines() if ln.strip()[:1].isdigit()]
    small = HOST
    for row in rows:
        if int(row.split()[0]) > 512 << 20:
            small = small.replace(f"{row}\n", "")
    result = found(1, Cluster(alone=small))["nccl.host", "gpu-1"]
    assert result.status is Status.NOT_ASSESSED
    assert result.cause.startswith("the largest message has 512 MiB")


@pytest.mark.parametrize(("hosts", "ranks"), [(1, "1"), (4, "8")])
def test_jobs_take_whole_hosts_through_pmix(hosts: int, ranks: str) -> None:
    cluster = Cluster()
    found(4, cluster)
    jobs = [j for j in cluster.jobs if f"--nodes={hosts}" in j]
    assert all(f"--ntasks-per-node={ranks}" in j and "--gres=gpu:8" in j for j in jobs)
    assert all(("--mpi=pmix" in j) is (hosts > 1) for j in jobs)


@pytest.mark.parametrize(
    ("busbw", "status"),
    [
        (179.99, Status.FAIL),
        (180.0, Status.PASS),
        (204.0, Status.PASS),
        (204.01, Status.ERROR),
    ],
)
def test_what_is_reached_between_floor_and_wire_is_good(busbw: float, status: Status) -> None:
    said = HostOutput(table(["gpu-1", "gpu-2"], busbw))
    measured = nccl.measured_of(said, 8, ("gpu-1", "gpu-2"))
    bound = floors.of_fabric(view(2), "nccl.cluster")
    peak, curve = nccl.judge("nccl.cluster", place("cluster"), said, measured, bound, "", WIRE)
    assert (peak.status, peak.value, peak.unit) == (status, busbw, "GB/s")
    assert (peak.limit, peak.evidence) == (180.0, "8 GiB messages; at most 200 GB/s (the wire)")
    assert (curve.id, curve.target) == ("nccl.curve", "cluster/cluster")


def test_a_message_of_1_gib_is_long_enough() -> None:
    rows = [ln for ln in HOST.splitlines() if ln.strip()[:1].isdigit()]
    shorter = HOST
    for row in rows:
        if int(row.split()[0]) > 1 << 30:
            shorter = shorter.replace(f"{row}\n", "")
    result = found(1, Cluster(alone=shorter))["nccl.host", "gpu-1"]
    assert (result.status, result.evidence) == (
        Status.PASS,
        "1 GiB messages; not bounded: the link speed of each GPU is unknown",
    )


def test_a_dent_fails_the_curve_with_its_size_and_the_peak_stays_good() -> None:
    dented = HOST.replace(" 235.21 ", " 120.00 ")
    results = found(1, Cluster(alone=dented))
    curve = results["nccl.curve", "gpu-1/host"]
    assert curve.status is Status.FAIL
    assert curve.cause == "bandwidth falls by 48.9 % at 2 GiB, where it should rise"
    assert results["nccl.host", "gpu-1"].status is Status.PASS


def test_a_host_is_measured_over_its_own_fabric_where_its_class_has_one() -> None:
    results = found(1, Cluster())
    assert results["nccl.loopback", "gpu-1"].limit == 18.0
    seen = view(1)
    without = View(profile_of(), seen.site, seen.facts)
    assert "nccl.loopback" not in {r.id for r in nccl.run(without, Cluster()).results}


def test_without_a_host_of_slurm_nothing_is_measured_and_nothing_is_asked_for() -> None:
    (result,) = nccl.run(view(0), Cluster()).results
    assert (result.status, result.required) == (Status.NOT_ASSESSED, False)


def test_a_program_that_fails_is_an_error_with_its_last_word() -> None:
    said = HostOutput("half a table", 3, "NCCL WARN Cuda failure")
    measured = nccl.measured_of(said, 8, ("gpu-1",))
    assert measured == "nccl-tests ended with 3: NCCL WARN Cuda failure"
    (result,) = nccl.judge("nccl.host", place("gpu-1"), said, measured, None, "", "x")
    assert (result.status, result.cause) == (Status.ERROR, measured)


def test_sizes_of_the_cluster_end_with_the_first_that_is_not_good() -> None:
    class Crowded(Cluster):
        def step(self, argv: Sequence[str]) -> Completed:
            done = super().step(argv)
            nodes = value(argv, "--nodelist").split(",")
            return (
                changed(done, lambda text: text.replace("191.00", "150.00"))
                if len(nodes) > 2
                else done
            )

    results = found(9, Crowded())
    sizes = {t: r.status for (check, t), r in results.items() if check == "nccl.cluster"}
    assert sizes == {"cluster/2 hosts": Status.PASS, "cluster/4 hosts": Status.FAIL}


def test_what_was_measured_is_kept_with_its_table_and_its_raw_words() -> None:
    outcome = nccl.run(view(2), Cluster())
    assert {raw.name for raw in outcome.raw} == {
        *(f"{kind}-gpu-{n}.txt" for kind in ("host", "loopback") for n in (1, 2)),
        *(f"{name}-2-gpu-1-gpu-2.txt" for name in ("all_reduce", *nccl.OTHERS)),
    }
    assert all("# Avg bus bandwidth" in raw.text for raw in outcome.raw)
    assert [t.title for t in outcome.tables] == [
        f"NCCL {name} over 2 hosts" for name in ("all_reduce", *nccl.OTHERS)
    ]
    assert outcome.tables[0].rows[-1] == (8 << 30, 191.0, 0)
    values = {(m.name, m.target): m.value for m in outcome.measurements}
    assert values["nccl.cluster", "cluster/2 hosts"] == 191.0


def test_where_to_look_is_what_was_measured() -> None:
    slow = HOST.replace("235.58", "17.90")
    results = found(1, Cluster(alone=slow))
    assert "nvlink" in results["nccl.host", "gpu-1"].fix
    assert "ibstat" in results["nccl.loopback", "gpu-1"].fix


@pytest.mark.parametrize(("hosts", "limit"), [(1, "--time=12"), (4, "--time=13")])
def test_more_hosts_have_more_time(hosts: int, limit: str) -> None:
    cluster = Cluster()
    found(4, cluster)
    jobs = [j for j in cluster.jobs if f"--nodes={hosts}" in j]
    assert jobs
    assert [word for word in jobs[0] if word.startswith("--time")] == [limit]


def test_a_host_without_the_tests_is_not_assessed() -> None:
    class Without(Cluster):
        def step(self, argv: Sequence[str]) -> Completed:
            node = value(argv, "--nodelist")
            return Completed(tuple(argv), 0, labelled(lacking(node, "all_reduce_perf")), "")

    outcome = nccl.run(view(1), Without())
    result = next(r for r in outcome.results if r.id == "nccl.host")
    assert (result.status, result.required) == (Status.NOT_ASSESSED, True)
    assert result.cause == "all_reduce_perf is not there"
    assert {raw.text for raw in outcome.raw} == {result.cause}


def test_hosts_that_pass_more_than_the_wire_are_no_good_ones() -> None:
    class Hidden(Cluster):
        def step(self, argv: Sequence[str]) -> Completed:
            return changed(super().step(argv), lambda text: at(text, "191.00", 250.0))

    results = found(2, Hidden())
    assert {results["nccl.groups", n].status for n in ("gpu-1", "gpu-2")} == {Status.NOT_ASSESSED}
    assert (
        "250 GB/s is more than what the wire carries (200)" in results["nccl.groups", "gpu-1"].cause
    )
    assert results["nccl.cluster", "cluster/2 hosts"].status is Status.NOT_ASSESSED


def test_each_kind_of_blame_has_its_verdict() -> None:
    told = nccl.grouped(
        ["a"], [("b", "c")], ["d", "e"], ["b", "c"], {"d": 9.0}, {"d": "no tool"}, None
    )
    found = {r.target: (r.status, r.value) for r in told}
    assert found == {
        "a": (Status.FAIL, None),
        "b/to c": (Status.FAIL, None),
        "d": (Status.NOT_ASSESSED, 9.0),
        "e": (Status.NOT_ASSESSED, None),
        "b": (Status.PASS, None),
        "c": (Status.PASS, None),
    }


def test_one_host_alone_is_measured_by_itself_and_against_nobody() -> None:
    assert {check for check, _ in found(1, Cluster())} == {
        "nccl.host",
        "nccl.loopback",
        "nccl.curve",
    }


@pytest.mark.parametrize(("busbw", "status"), [("590.50", Status.PASS), ("600.90", Status.ERROR)])
def test_a_host_passes_no_figure_that_its_links_cannot_carry(busbw: str, status: Status) -> None:
    """12 links of 25 GB/s and a slot of 31.5: a GPU takes in 331.5 GB/s, of which bus bandwidth is 7/4."""
    seen = view(1)
    gpus = gpus_of(A100, 8)
    told = {"pcie_max_generation": 4, "pcie_max_width": 16, "nvlinks_active": 12}
    devices = tuple(gpu.model_copy(update=told) for gpu in gpus.devices)
    facts = {"gpu-1": facts_of("gpu-1", gpus=gpus.model_copy(update={"devices": devices}))}
    cluster = Cluster(alone=at(HOST, "235.58", float(busbw)))
    results = nccl.run(View(seen.profile, seen.site, facts), cluster).results
    (host,) = [r for r in results if r.id == "nccl.host"]
    assert host.status is status, host
    assert "at most 580.1 GB/s (the maximum of links of 331.5 GB/s to a GPU)" in host.evidence


def test_one_gpu_alone_is_not_judged_by_what_goes_between_gpus() -> None:
    """The published floor is of eight GPUs; 0 GB/s of one is neither slow nor measured."""
    outcome = nccl.run(view(1, gpus=1), Cluster(alone=lone()))
    assert {r.id for r in outcome.results} == {"nccl.host", "nccl.loopback", "nccl.curve"}
    for result in outcome.results:
        assert (result.status, result.required) == (Status.NOT_ASSESSED, False), result
        assert result.cause == nccl.LONE
    assert outcome.measurements == ()


def test_wrong_values_of_one_gpu_alone_fail_all_the_same() -> None:
    wrong = lone().replace("values : 0 OK", "values : 2 FAILED")
    results = nccl.run(view(1, gpus=1), Cluster(alone=wrong)).results
    (host,) = [r for r in results if r.id == "nccl.host"]
    assert host.status is Status.FAIL
    assert host.cause.startswith("2 values are wrong")
