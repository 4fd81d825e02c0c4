"""nvbandwidth's documents of several releases: read per GPU and pair, judged by limit, equals and link, and nothing odd is good."""

import json
import shutil
import subprocess  # noqa: TID251 - the script is run by a real shell
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.adapters.process import Completed
from appliance.benchmarks.jobs import HostOutput, Trouble
from appliance.benchmarks.nvbandwidth.gates import CHECKS, FROM_GPU, PEER, TO_GPU, gates
from appliance.benchmarks.nvbandwidth.report import Word, corrupted, read
from appliance.benchmarks.nvbandwidth.run import BUSY, CASES, SCRIPT, Figures, run, take, task
from appliance.benchmarks.reading import Unread
from appliance.checks.check import View
from appliance.models.profile import Interconnect
from appliance.models.result import Status
from appliance.models.site import Owner
from tests.support.batches import answer, labelled, lacking, value
from tests.support.nvbandwidth_cluster import (
    A100,
    COUNT,
    EIGHT,
    FIVE,
    UNKNOWN,
    Change,
    Cluster,
    case,
    cell,
    changed,
    found,
    outcome,
    view,
)
from tests.support.profiles import profile_of
from tests.support.sites import site_of

WRITE, READ = CASES[PEER]
PAIRS = ["0,1", "0,2", "0,3", "1,2", "1,3", "2,3"]


@pytest.mark.parametrize(("output", "release"), [(FIVE, "v0.5"), (EIGHT, "v0.8")])
def test_releases_are_read_per_gpu_and_pair(output: str, release: str) -> None:
    results = found(output)
    gpus = [(check, f"gpu-1/GPU {n}") for check in (TO_GPU, FROM_GPU) for n in range(COUNT)]
    assert list(results) == [*gpus, *((PEER, f"gpu-1/GPU {pair}") for pair in PAIRS)]
    assert {r.status for r in results.values()} == {Status.PASS}
    assert f"nvbandwidth {release}" in results[gpus[0]].evidence
    assert results[TO_GPU, "gpu-1/GPU 0"].limit == 21
    pair = results[PEER, "gpu-1/GPU 0,1"]
    assert (pair.host, pair.parts, pair.unit) == ("gpu-1", ("GPU 0", "GPU 1"), "GB/s")


def test_a_pair_counts_with_its_slowest_way() -> None:
    slow = cell(EIGHT, READ, 2, 1, "234.5")
    results = found(slow)
    bad = [key for key, r in results.items() if r.status is Status.FAIL]
    assert bad == [(PEER, "gpu-1/GPU 1,2")]
    assert results[bad[0]].value == 234.5
    assert "234.5" in results[bad[0]].evidence
    assert "below the limit of 235" in results[bad[0]].cause


@pytest.mark.parametrize(("check", "name"), [(c, CASES[c][0]) for c in (TO_GPU, FROM_GPU)])
def test_a_gpu_below_what_the_site_asks_is_named(check: str, name: str) -> None:
    seen = view(limits={check: 24.0})
    results = found(cell(EIGHT, name, 0, 3, "12.9"), seen)
    bad = {key: r for key, r in results.items() if r.status is not Status.PASS}
    assert list(bad) == [(check, "gpu-1/GPU 3")]
    (one,) = bad.values()
    assert (one.status, one.value, one.limit, one.limit_source) == (
        Status.FAIL,
        12.9,
        24,
        "contract",
    )


@pytest.mark.parametrize(
    ("gpu", "interconnect", "slot", "peer"),
    [
        (A100, Interconnect.NVSWITCH, 21, 235),
        ("NVIDIA H100 80GB HBM3", Interconnect.NVSWITCH, 48, 335),
        ("NVIDIA A100 80GB PCIe", Interconnect.NVLINK_BRIDGE, 21, None),
    ],
)
def test_without_a_limit_of_the_site_that_of_the_product_counts(
    gpu: str, interconnect: Interconnect, slot: int, peer: int | None
) -> None:
    results = found(EIGHT, view(gpu=gpu, interconnect=interconnect, limits={}))
    for check in (TO_GPU, FROM_GPU):
        one = results[check, "gpu-1/GPU 0"]
        assert one.limit == slot
        assert "Azure NHC" in one.limit_source
    assert results[PEER, "gpu-1/GPU 0,1"].limit == peer


def test_without_a_limit_a_gpu_is_compared_with_its_equals() -> None:
    seen = view(hosts=2, gpu=UNKNOWN, nvlinks_active=12, nvlink_speed=25000)
    results = found({"gpu-2": cell(EIGHT, CASES[TO_GPU][0], 0, 1, "13.0")}, seen)
    bad = [key for key, r in results.items() if r.status is not Status.PASS]
    assert bad == [(TO_GPU, "gpu-2/GPU 1")]
    assert results[bad[0]].cause.endswith("50 % worse than the median of 8 equal GPUs")
    assert results[PEER, "gpu-1/GPU 0,1"].limit_source == (
        "within 10 % of 12 equal pairs; no limit is set"
    )


def test_a_gpu_in_a_narrow_slot_is_no_other_kind() -> None:
    seen = view(gpu=UNKNOWN)
    facts = seen.facts["gpu-1"]
    assert facts.gpus
    first, *rest = facts.gpus.devices
    narrow = facts.gpus.model_copy(
        update={"devices": (first.model_copy(update={"pcie_max_width": 8}), *rest)}
    )
    seen = View(seen.profile, seen.site, {"gpu-1": facts.model_copy(update={"gpus": narrow})})
    results = found(cell(EIGHT, CASES[TO_GPU][0], 0, 0, "12.9"), seen)
    assert results[TO_GPU, "gpu-1/GPU 0"].status is Status.FAIL


@pytest.mark.parametrize("interconnect", [Interconnect.PCIE, Interconnect.NVLINK_BRIDGE])
def test_pairs_that_no_switch_joins_are_compared_with_the_same_of_other_hosts(
    interconnect: Interconnect,
) -> None:
    def flat(output: str, slow: tuple[int, int] | None = None) -> str:
        def put(body: dict[str, Any]) -> None:
            for name in (WRITE, READ):
                for y, row in enumerate(case(body, name)["bandwidth_matrix"]):
                    for x in range(COUNT):
                        near = {x, y} in ({0, 1}, {2, 3})
                        bad = slow is not None and {x, y} == set(slow)
                        row[x] = "N/A" if x == y else "9.1" if bad else "24.1" if near else "17.2"

        return changed(output, put)

    far = {f"gpu-{n}": flat(EIGHT, (0, 1) if n == 3 else None) for n in range(1, 5)}
    seen = view(hosts=4, gpu=UNKNOWN, interconnect=interconnect, nvlinks_active=0)
    results = found(far, seen)
    assert [k for k, r in results.items() if r.status is not Status.PASS] == [
        (PEER, "gpu-3/GPU 0,1")
    ]
    two = found(flat(EIGHT), view(2, UNKNOWN, interconnect, nvlinks_active=0))
    peers = {r.status for (check, _), r in two.items() if check == PEER}
    assert peers == {Status.NOT_ASSESSED}
    assert not any(r.required for (check, _), r in two.items() if check == PEER)


@pytest.mark.parametrize(
    ("name", "y", "x", "value", "target", "told"),
    [
        (CASES[TO_GPU][0], 0, 2, "33.5", (TO_GPU, "gpu-1/GPU 2"), "cannot be 33.5 GB/s"),
        (CASES[FROM_GPU][0], 0, 0, "259", (FROM_GPU, "gpu-1/GPU 0"), "31.5 GB/s (PCIe 4 x16)"),
        (WRITE, 3, 0, "310", (PEER, "gpu-1/GPU 0,3"), "at most 300 GB/s (the NVLinks of a GPU)"),
        (READ, 1, 2, "2763", (PEER, "gpu-1/GPU 1,2"), "cannot be 2763 GB/s"),
    ],
)
def test_more_than_the_link_carries_is_an_error(
    name: str, y: int, x: int, value: str, target: tuple[str, str], told: str
) -> None:
    results = found(cell(EIGHT, name, y, x, value), view(limits=dict.fromkeys(CHECKS, 1.0)))
    bad = {key: r for key, r in results.items() if r.status is not Status.PASS}
    assert list(bad) == [target]
    assert bad[target].status is Status.ERROR
    assert told in bad[target].cause


def test_links_that_nobody_tells_are_said_to_bound_nothing() -> None:
    results = found(EIGHT, view(pcie_max_generation=None))
    assert "not bounded: the speed of its slot is unknown" in (
        results[TO_GPU, "gpu-1/GPU 0"].evidence
    )
    assert "not bounded: the link speed" in results[PEER, "gpu-1/GPU 0,1"].evidence


@pytest.mark.parametrize("asked", [True, False])
def test_a_waived_testcase_is_never_good(asked: bool) -> None:
    def waive(body: dict[str, Any]) -> None:
        body["testcases"] = body["testcases"][:2]
        body["testcases"] += [{"name": name, "status": "Waived"} for name in (WRITE, READ)]

    results = found(changed(EIGHT, waive), view(limits={PEER: 20.0} if asked else {}))
    one = results.pop((PEER, "gpu-1"))
    assert (one.status, one.required) == (Status.NOT_ASSESSED, asked)
    assert one.cause == f"{WRITE} was waived: GPUs cannot access each other's memory"
    assert {r.status for r in results.values()} == {Status.PASS}
    assert len(results) == 2 * COUNT


@pytest.mark.parametrize(("y", "x"), [(0, 1), (1, 0)])
def test_a_pair_without_access_one_way_is_not_assessed_alone(y: int, x: int) -> None:
    results = found(cell(EIGHT, READ, y, x, "N/A"), view(limits={PEER: 20.0}))
    left = [key for key, r in results.items() if r.status is not Status.PASS]
    assert left == [(PEER, "gpu-1/GPU 0,1")]
    lacking = results[left[0]]
    assert (lacking.status, lacking.required) == (Status.NOT_ASSESSED, True)
    assert "one GPU cannot access the other's memory" in lacking.cause
    unasked = found(cell(EIGHT, READ, y, x, "N/A"), view(limits={}))[left[0]]
    assert (unasked.status, unasked.required) == (Status.NOT_ASSESSED, False)


def test_a_gpu_that_was_not_measured_is_not_assessed() -> None:
    one = found(cell(EIGHT, CASES[TO_GPU][0], 0, 1, "N/A"))[TO_GPU, "gpu-1/GPU 1"]
    assert (one.status, one.required) == (Status.NOT_ASSESSED, True)


def test_one_dead_way_is_an_error_of_that_pair() -> None:
    results = found(cell(EIGHT, WRITE, 1, 0, "0"))
    bad = {key: r.status for key, r in results.items() if r.status is not Status.PASS}
    assert bad == {(PEER, "gpu-1/GPU 0,1"): Status.ERROR}


def test_rates_of_more_than_one_processor_are_not_taken_for_those_of_the_host() -> None:
    def twice(body: dict[str, Any]) -> None:
        rows = case(body, CASES[TO_GPU][0])["bandwidth_matrix"]
        rows.append(rows[0])

    results = found(changed(EIGHT, twice))
    assert results[TO_GPU, "gpu-1"].cause == "its matrices are of different GPUs"
    assert results[FROM_GPU, "gpu-1/GPU 0"].status is Status.PASS


def test_nothing_at_all_is_an_error_of_that_gpu() -> None:
    results = found(cell(EIGHT, CASES[FROM_GPU][0], 0, 2, "0"))
    bad = {key: r for key, r in results.items() if r.status is not Status.PASS}
    assert {(key, r.status) for key, r in bad.items()} == {
        ((FROM_GPU, "gpu-1/GPU 2"), Status.ERROR)
    }


def test_a_testcase_that_did_not_end_is_an_error_and_the_others_stand() -> None:
    def die(body: dict[str, Any]) -> None:
        body["testcases"] = body["testcases"][:3]
        case(body, WRITE).clear()
        body["testcases"][2] |= {"name": WRITE, "status": "Running"}
        body["error"] = "[CUDA_ERROR_ECC_UNCORRECTABLE] uncorrectable ECC error in expression x\n"

    results = found(changed(EIGHT, die), code=1)
    one = results.pop((PEER, "gpu-1"))
    assert one.status is Status.ERROR
    assert one.cause.startswith(
        f"{WRITE} did not end; nvbandwidth ended with 1; [CUDA_ERROR_ECC_UNCORRECTABLE]"
    )
    assert {r.status for r in results.values()} == {Status.PASS}


def test_a_testcase_that_passed_and_tells_of_an_error_is_refused() -> None:
    results = found(changed(EIGHT, lambda body: body["testcases"][0].update(error="it broke")))
    assert {r.status for r in results.values()} == {Status.ERROR}
    assert all("passed, but reports an error" in r.cause for r in results.values())


def test_a_testcase_that_stands_there_twice_counts_with_its_worse_end() -> None:
    def again(body: dict[str, Any]) -> None:
        body["testcases"].append({"name": CASES[TO_GPU][0], "status": "Error"})

    results = found(changed(EIGHT, again))
    assert results[TO_GPU, "gpu-1"].status is Status.ERROR
    assert results[FROM_GPU, "gpu-1/GPU 0"].status is Status.PASS


@pytest.mark.parametrize(("code", "error"), [(1, ""), (0, "something"), (139, "")])
def test_a_bad_end_after_good_testcases_is_an_error_of_all(code: int, error: str) -> None:
    results = found(changed(EIGHT, lambda body: body.update(error=error or None)), code=code)
    assert {key: r.status for key, r in results.items()} == dict.fromkeys(
        ((check, "gpu-1") for check in CHECKS), Status.ERROR
    )


def test_a_word_nobody_knows_is_no_pass() -> None:
    results = found(changed(EIGHT, lambda body: case(body, READ).update(status="Probably")))
    assert results[PEER, "gpu-1"].status is Status.NOT_ASSESSED
    assert "no verdict (Probably)" in results[PEER, "gpu-1"].cause


def test_a_testcase_that_is_missing_is_an_error() -> None:
    results = found(changed(EIGHT, lambda body: body["testcases"].pop()))
    assert results[PEER, "gpu-1"].status is Status.ERROR
    assert results[PEER, "gpu-1"].cause == f"it does not report {READ}"


def test_data_that_arrived_wrong_fails_in_releases_that_say_so_before_the_document() -> None:
    def die(body: dict[str, Any]) -> None:
        body["testcases"] = body["testcases"][:2]
        body["testcases"][1] = {"name": CASES[FROM_GPU][0], "status": "Running"}
        body["error"] = "ASSERT in expression h_errorFlag == 0 in void memcmpPatternHelper\n"

    text = " Invalid value when checking the pattern at 0x7f0\n" + changed(EIGHT, die)
    results = found(text, code=1)
    assert {results[key, "gpu-1"].status for key in (FROM_GPU, PEER)} == {Status.FAIL}
    assert "data was corrupted in transit" in results[FROM_GPU, "gpu-1"].cause
    assert results[TO_GPU, "gpu-1/GPU 0"].status is Status.PASS


def test_data_that_arrived_wrong_fails_in_releases_that_say_so_within_the_document() -> None:
    def die(body: dict[str, Any]) -> None:
        body["testcases"] = [{"name": CASES[TO_GPU][0], "status": "Running"}]
        body["error"] = " Invalid value when checking the pattern at <0x7f0>:  Current offset"

    results = found(changed(FIVE, die), code=134)
    assert {r.status for r in results.values()} == {Status.FAIL}
    assert len(results) == len(CHECKS)


@pytest.mark.parametrize("code", [0, 134])
def test_data_that_arrived_wrong_fails_whatever_else_was_said(code: int) -> None:
    told = " Invalid value when checking the pattern at 0x7f0\n"
    for text in (told + "{", told + EIGHT, EIGHT + "h_errorFlag"):
        assert {r.status for r in found(text, code=code).values()} == {Status.FAIL}


@pytest.mark.parametrize(
    ("output", "code", "told", "fix"),
    [
        ("", 0, "like release 0.6 with --json", "0.7 or newer"),
        ("nvbandwidth Version: v0.4\nERROR: Invalid Arguments", 1, "before 0.5", "0.7 or newer"),
        ("", 139, "no output; it ended with 139", "by hand"),
        ("{}", 0, "nvbandwidth: Field required", "by hand"),
        (EIGHT[:900], 0, "it is not JSON", "by hand"),
    ],
)
def test_what_is_no_document_is_an_error_and_says_what_to_do(
    output: str, code: int, told: str, fix: str
) -> None:
    results = found(output, code=code)
    assert list(results) == [(check, "gpu-1") for check in CHECKS]
    for one in results.values():
        assert one.status is Status.ERROR
        assert told in one.cause
        assert fix in one.fix


def without(body: dict[str, Any], gpu: int) -> None:
    """A release that lists its GPUs saw one fewer."""
    body["GPU Device list"] = [
        f"{at}: {line.partition(': ')[2]}"
        for at, line in enumerate(n for i, n in enumerate(body["GPU Device list"]) if i != gpu)
    ]
    for one in body["testcases"]:
        rows = one["bandwidth_matrix"]
        rows = [r for i, r in enumerate(rows) if i != gpu] if len(rows) > 1 else rows
        one["bandwidth_matrix"] = [[c for i, c in enumerate(r) if i != gpu] for r in rows]


def test_a_gpu_that_was_not_seen_is_named_where_the_release_lists_them() -> None:
    results = found(changed(EIGHT, lambda body: without(body, 1)))
    bad = {key: r for key, r in results.items() if r.status is not Status.PASS}
    assert list(bad) == [
        (TO_GPU, "gpu-1/GPU 1"),
        (FROM_GPU, "gpu-1/GPU 1"),
        *((PEER, f"gpu-1/GPU {pair}") for pair in ("0,1", "1,2", "1,3")),
    ]
    assert {r.cause for r in bad.values()} == {"nvbandwidth did not see GPU 1"}
    assert {r.status for r in bad.values()} == {Status.ERROR}


def test_fewer_gpus_of_a_release_that_does_not_list_them_are_no_measurement() -> None:
    def fewer(body: dict[str, Any]) -> None:
        body["GPU Device list"] = json.loads(EIGHT)["nvbandwidth"]["GPU Device list"]
        without(body, 3)
        del body["GPU Device list"]

    results = found(changed(FIVE, fewer))
    assert list(results) == [(check, "gpu-1") for check in CHECKS]
    assert {r.cause for r in results.values()} == {"it measured 3 GPUs, but the host has 4"}


def test_gpus_are_told_apart_by_their_address_and_not_by_their_order() -> None:
    def turned(body: dict[str, Any]) -> None:
        lines = [line.partition(": ")[2] for line in body["GPU Device list"]]
        body["GPU Device list"] = [f"{at}: {line}" for at, line in enumerate(reversed(lines))]
        case(body, CASES[TO_GPU][0])["bandwidth_matrix"][0][0] = "9.5"
        case(body, WRITE)["bandwidth_matrix"][0][1] = "99"

    bad = [k for k, r in found(changed(EIGHT, turned)).items() if r.status is Status.FAIL]
    assert bad == [(TO_GPU, "gpu-1/GPU 3"), (PEER, "gpu-1/GPU 2,3")]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda b: b["GPU Device list"].__setitem__(0, "0: X (00000000:ff:00): (gpu-1)"),
            "it measured a GPU at 00000000:ff:00 that the host does not have",
        ),
        (lambda b: b["GPU Device list"].pop(), "it lists 3 GPUs, but measured 4"),
        (lambda b: b["GPU Device list"].__setitem__(1, "GPU one"), "list of GPUs cannot be read"),
        (lambda b: b["GPU Device list"].reverse(), "list of GPUs cannot be read"),
        (
            lambda b: b["GPU Device list"].__setitem__(1, b["GPU Device list"][0].replace("0:", "1:", 1)),
            "it lists a GPU twice",
        ),
        (lambda b: case(b, WRITE)["bandwidth_matrix"].pop(), "its matrices are of different GPUs"),
        (lambda b: case(b, WRITE)["bandwidth_matrix"][0].pop(), f"matrix of {WRITE} is incomplete"),
        (lambda b: case(b, WRITE).update(bandwidth_matrix=[]), f"matrix of {WRITE} is incomplete"),
        (lambda b: case(b, WRITE).pop("bandwidth_matrix"), f"matrix of {WRITE} is incomplete"),
        (lambda b: case(b, READ).update(bandwidth_description="memcpy CE GPU(row) -> GPU(column) bandwidth (MB/s)"), "is not in GB/s"),
        (lambda b: case(b, READ)["bandwidth_matrix"][1].__setitem__(2, "nan"), "row 1, column 2 cannot be 'nan'"),
        (lambda b: case(b, READ)["bandwidth_matrix"][1].__setitem__(2, "-3"), "row 1, column 2 cannot be '-3'"),
        (lambda b: case(b, READ)["bandwidth_matrix"][1].__setitem__(2, "much"), "row 1, column 2 is no number"),
        (lambda b: case(b, READ)["bandwidth_matrix"][1].__setitem__(2, "x" * 65), "at most 64 characters"),
        (lambda b: case(b, READ)["bandwidth_matrix"][1].extend(["1"] * 64), "at most 64 items"),
        (lambda b: b["GPU Device list"].__setitem__(1, "1: " + "(00000000:01:00): (" * 99), "at most 512 characters"),
        (lambda b: b.update(testcases="none"), "testcases"),
        (lambda b: b["testcases"].extend([{"name": "x", "status": "Passed"}] * 300), "testcases"),
    ],
)  # fmt: skip
def test_doctored_documents_are_no_measurement(change: Change, told: str) -> None:
    results = found(changed(EIGHT, change))
    peer = results[PEER, "gpu-1"]
    assert peer.status is Status.ERROR
    assert told.replace("'", '"') in peer.cause.replace("'", '"')


@given(st.text() | st.binary().map(lambda raw: raw.decode("latin-1")))
def test_hostile_output_is_refused_and_never_read_as_a_figure(text: str) -> None:
    for output in (text, f"{{{text}}}", EIGHT[: len(text) * 7] + text):
        corrupted(output)
        with suppress(Unread):
            read(output)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=12,
)


@given(
    st.sampled_from(["version", "error", "GPU Device list", "testcases", "name", "status"]),
    json_values,
)
def test_any_document_gives_each_check_a_result_and_no_exception(key: str, odd: object) -> None:
    def put(body: dict[str, Any]) -> None:
        (body if key in body or key == "error" else body["testcases"][2])[key] = odd

    got = Figures()
    take(view(), "gpu-1", COUNT, HostOutput(changed(EIGHT, put), 0), got)
    spoken = {r.id for r in got.results} | {check for check, rates in got.rates.items() if rates}
    assert spoken == set(CHECKS)


def test_a_cell_that_is_a_number_is_read_as_one() -> None:
    report = read(cell(EIGHT, WRITE, 0, 1, 250.5))
    assert report.cases[WRITE].rows[0][1] == 250.5
    assert report.cases[WRITE].word is Word.PASSED


def test_a_host_without_the_tool_says_where_it_comes_from() -> None:
    class Bare(Cluster):
        def step(self, argv: Sequence[str]) -> Completed:
            host = value(argv, "--nodelist")
            return Completed(tuple(argv), 0, labelled(lacking(host, "nvbandwidth")), "")

    results = run(view(), Bare("")).results
    assert {(r.id, r.status, r.cause) for r in results} == {
        (check, Status.NOT_ASSESSED, "nvbandwidth is not there") for check in CHECKS
    }
    assert all("github NVIDIA/nvbandwidth" in r.fix for r in results)


def test_a_host_with_nothing_to_read_says_so_of_every_check() -> None:
    got = Figures()
    take(view(), "gpu-1", COUNT, HostOutput(trouble=Trouble.OVERDUE, cause="it hangs"), got)
    assert [(r.id, r.status) for r in got.results] == [(c, Status.ERROR) for c in CHECKS]


def test_a_host_that_kubernetes_has_is_measured_over_ssh_unless_it_is_at_work() -> None:
    class Mixed(Cluster):
        def elsewhere(self, host: str, argv: Sequence[str]) -> Completed:
            return Completed(tuple(argv), 0, answer(host, f"{BUSY}3\n"), "")

    seen = view(2)
    hosts = tuple(
        h.model_copy(update={"owner": Owner.KUBERNETES}) if h.name == "gpu-2" else h
        for h in seen.site.hosts
    )
    site = seen.site.model_copy(update={"hosts": hosts})
    done = run(View(seen.profile, site, seen.facts), Mixed(EIGHT))
    results = {(r.id, r.target): r for r in done.results}
    assert results[TO_GPU, "gpu-1/GPU 0"].status is Status.PASS
    busy = results[PEER, "gpu-2"]
    assert (busy.status, busy.cause) == (
        Status.NOT_ASSESSED,
        "programs are running on its GPUs: 3",
    )


def test_divided_gpus_are_not_asked() -> None:
    cluster = Cluster(EIGHT)
    results = run(view(mig_enabled=True, limits={TO_GPU: 20.0}), cluster).results
    assert [(r.id, r.status, r.required) for r in results] == [
        (TO_GPU, Status.NOT_ASSESSED, True),
        (FROM_GPU, Status.NOT_ASSESSED, False),
        (PEER, Status.NOT_ASSESSED, False),
    ]
    assert cluster.jobs == []


def test_a_host_of_which_one_gpu_is_divided_is_not_asked() -> None:
    seen = view()
    facts = seen.facts["gpu-1"]
    assert facts.gpus
    one, *rest = facts.gpus.devices
    divided = facts.gpus.model_copy(
        update={"devices": (one.model_copy(update={"mig_enabled": True}), *rest)}
    )
    of_one = {"gpu-1": facts.model_copy(update={"gpus": divided})}
    cluster = Cluster(EIGHT)
    results = run(View(seen.profile, seen.site, of_one), cluster).results
    assert {r.status for r in results} == {Status.NOT_ASSESSED}
    assert cluster.jobs == []


def test_one_gpu_has_no_peer_and_a_site_without_gpu_hosts_nothing() -> None:
    assert task(1).arguments == (CASES[TO_GPU][0], CASES[FROM_GPU][0])
    assert set(task(2).arguments) == {name for names in CASES.values() for name in names}
    (none,) = run(View(profile_of(), site_of("head"), {}), Cluster("")).results
    assert none.status is Status.NOT_ASSESSED


def test_figures_tables_and_raw_output_go_into_the_record() -> None:
    done = outcome(cell(EIGHT, CASES[TO_GPU][0], 0, 2, "22.5"))
    assert {(m.name, m.target) for m in done.measurements} == {(c, "gpu-1") for c in CHECKS}
    assert next(m.value for m in done.measurements if m.name == TO_GPU) == 22.5
    (table,) = done.tables
    assert [row[:3] for row in table.rows][2] == ("gpu-1", "GPU 2", 22.5)
    (raw,) = done.raw
    assert raw.name == "gpu-1.json"
    assert '"22.5"' in raw.text


def test_gates_ask_for_each_gpu_and_each_pair_where_a_limit_is_set() -> None:
    assert gates(view(limits={})) == ()
    seen = view(2, limits=dict.fromkeys(CHECKS, 20.0))
    asked = {gate.id: [t.name for t in gate.targets] for gate in gates(seen)}
    assert list(asked) == list(CHECKS)
    good = {(r.id, r.target) for r in outcome(EIGHT, view(2)).results}
    assert {(check, name) for check, names in asked.items() for name in names} <= good


@pytest.mark.parametrize(("at_work", "told"), [("", "ran"), ("17\n", f"{BUSY}1")])
def test_the_script_keeps_the_order_of_the_bus_and_disturbs_nobody(
    tmp_path: Path, at_work: str, told: str
) -> None:
    for name, text in (
        ("nvidia-smi", f"printf '{at_work}'"),
        ("nvbandwidth", 'echo "ran $CUDA_DEVICE_ORDER $@"'),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    shell = shutil.which("sh")
    assert shell
    done = subprocess.run(
        [shell, "-c", SCRIPT, "sh", "one", "two"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith(told)
    if told == "ran":
        assert done.stdout.strip() == "ran PCI_BUS_ID --json --bufferSize 512 --testcase one two"
