"""fio on hosts: scratch of each, the shared directory from one host to all, who is slow, and what could not be measured."""

from collections.abc import Sequence

import pytest

from appliance.adapters.process import Completed
from appliance.benchmarks.benchmark import Outcome
from appliance.benchmarks.fio import run as fio
from appliance.checks.check import View
from appliance.models.result import CheckResult, Status
from tests.support.batches import changed
from tests.support.facts import facts_of
from tests.support.fio_hosts import RATES, Hosts, view

SPOKEN = {
    "seq_write": "write",
    "seq_read": "read",
    "rand_write": "random_write",
    "rand_read": "random_read",
    "create": "create",
}


Found = dict[tuple[str, str], CheckResult]


def results(outcome: Outcome) -> Found:
    return {(r.id, r.target): r for r in outcome.results}


def failures(found: Found) -> list[tuple[str, str]]:
    return sorted(key for key, r in found.items() if r.status is Status.FAIL)


EQUAL = 5


def test_equal_hosts_pass_each_figure_and_show_it() -> None:
    remote = Hosts()
    outcome = fio.run(view(EQUAL), remote)
    found = results(outcome)
    names = {f"gpu-{n}" for n in range(1, EQUAL + 1)}
    for kind, at in (("scratch", "scratch"), ("shared", "data")):
        for part, (scale, unit) in {
            "seq_write": (1e9, "GB/s"),
            "seq_read": (1e9, "GB/s"),
            "rand_write": (1, "IOPS"),
            "rand_read": (1, "IOPS"),
            "create": (1, "files/s"),
        }.items():
            for name in names:
                one = found[f"fio.{kind}_{SPOKEN[part]}", f"{name}/{at}"]
                shown = (one.status, one.value, one.unit, one.evidence)
                assert shown == (Status.PASS, RATES[part] / scale, unit, "fio-3.33")
    assert remote.tried[EQUAL:] == [
        ("/data", tuple(f"gpu-{n}" for n in range(1, count + 1))) for count in (1, 2, 4, 5)
    ]
    for check in ("fio.visible", "fio.locks"):
        assert found[check, "cluster/data 5 hosts"].status is Status.PASS
    (table,) = outcome.tables
    assert table.rows == ((1, 2.0, 3.0), (2, 4.0, 6.0), (4, 8.0, 12.0), (5, 10.0, 15.0))
    measured = {(m.name, m.target): m.value for m in outcome.measurements}
    assert measured["fio.total_read", "cluster/data 5 hosts"] == 15.0


def test_the_host_whose_scratch_is_slow_is_named_alone() -> None:
    slow = Hosts(lambda host, at, _: 0.5 if (host, at) == ("gpu-3", "/scratch") else 1.0)
    found = results(fio.run(view(EQUAL), slow))
    assert failures(found) == sorted(
        (f"fio.scratch_{name}", "gpu-3/scratch") for name in SPOKEN.values()
    )
    assert "nvme smart-log" in found["fio.scratch_read", "gpu-3/scratch"].fix


def test_the_host_that_reaches_the_server_slowly_is_named_alone() -> None:
    slow = Hosts(lambda host, at, _: 0.5 if (host, at) == ("gpu-2", "/data") else 1.0)
    found = results(fio.run(view(EQUAL), slow))
    assert {target for _, target in failures(found)} == {"gpu-2/data"}
    assert "ethtool" in found["fio.shared_read", "gpu-2/data"].fix


@pytest.mark.parametrize(
    ("bound", "status"), [(15.0, Status.PASS), (15.001, Status.FAIL), (None, Status.NOT_ASSESSED)]
)
def test_all_hosts_together_are_judged_by_the_limit_alone(
    bound: float | None, status: Status
) -> None:
    limits = {} if bound is None else {"fio.total_read": bound}
    found = results(fio.run(view(EQUAL, limits), Hosts()))
    total = found["fio.total_read", "cluster/data 5 hosts"]
    assert (total.status, total.value, total.unit, total.required) == (
        status,
        15.0,
        "GB/s",
        bound is not None,
    )
    if status is Status.FAIL:
        assert total.cause == "5 hosts together reach 15 GB/s"
        assert (total.limit, total.limit_source) == (15.001, "contract")
        assert failures(found) == [("fio.total_read", "cluster/data 5 hosts")]
    assert found["fio.total_write", "cluster/data 5 hosts"].status is Status.NOT_ASSESSED


@pytest.mark.parametrize(
    ("decay", "status"), [(20.0, Status.PASS), (20.5, Status.FAIL), (0.0, Status.PASS)]
)
def test_storage_that_slows_down_while_it_is_read_is_told(decay: float, status: Status) -> None:
    found = results(fio.run(view(EQUAL, {"fio.decay": 20.0}), Hosts(decay=decay)))
    one = found["fio.decay", "cluster/data 5 hosts"]
    assert (one.status, one.value, one.unit, one.limit) == (status, decay, "%", 20.0)
    if status is Status.FAIL:
        assert one.cause == "the last third is 20.5 % slower than the first"


def test_without_a_limit_decay_is_shown_and_not_judged() -> None:
    one = results(fio.run(view(EQUAL), Hosts(decay=30.0)))["fio.decay", "cluster/data 5 hosts"]
    assert (one.status, one.value, one.required) == (Status.NOT_ASSESSED, 30.0, False)


def test_a_host_without_fio_is_not_assessed_and_larger_numbers_are_not_tried() -> None:
    remote = Hosts(silent=["gpu-2"])
    outcome = fio.run(view(EQUAL), remote)
    found = results(outcome)
    lacking = found["fio.shared_read", "gpu-2/data"]
    assert (lacking.status, lacking.cause) == (Status.NOT_ASSESSED, "fio is not there")
    assert [nodes for at, nodes in remote.tried if at == "/data"] == [
        ("gpu-1",),
        ("gpu-1", "gpu-2"),
    ]
    assert not [check for check, _ in found if check.startswith("fio.total")]
    assert outcome.tables[0].rows == ((1, 2.0, 3.0),)
    assert found["fio.scratch_read", "gpu-1/scratch"].value == 3.0


def test_output_that_is_none_of_fio_is_an_error_of_that_host() -> None:
    class Odd(Hosts):
        def step(self, argv: Sequence[str]) -> Completed:
            return changed(super().step(argv), lambda text: text.replace('"jobs"', '"none"'))

    found = results(fio.run(view(2), Odd()))
    assert found["fio.scratch_read", "gpu-1/scratch"].status is Status.ERROR
    assert "jobs" in found["fio.scratch_read", "gpu-1/scratch"].cause


def test_a_program_that_fails_is_an_error_with_its_last_word() -> None:
    class Failing(Hosts):
        def step(self, argv: Sequence[str]) -> Completed:
            done = super().step(argv)
            said = done.stdout.replace("code=0", "code=1")
            return Completed(done.argv, 0, said, "")

    found = results(fio.run(view(2), Failing()))
    assert found["fio.scratch_read", "gpu-1/scratch"].cause == ("fio ended with 1: no reason given")


def test_a_host_without_the_mount_is_not_assessed_and_the_others_are() -> None:
    found = results(fio.run(view(3, mounted=2), Hosts()))
    assert found["fio.shared_read", "gpu-3/data"].cause == "/data is not mounted"
    assert found["fio.shared_read", "gpu-3/data"].required
    assert ("fio.total_read", "cluster/data 2 hosts") in found


def test_one_host_is_named_by_a_limit_of_the_site() -> None:
    slow = Hosts(lambda host, at, _: 0.1 if (host, at) == ("gpu-2", "/scratch") else 1.0)
    found = results(fio.run(view(2, {"fio.scratch_read": 3.0}), slow))
    assert failures(found) == [("fio.scratch_read", "gpu-2/scratch")]
    assert found["fio.scratch_read", "gpu-1/scratch"].status is Status.PASS


def test_hosts_that_are_containers_are_measured_shortly_and_marked() -> None:
    seen = view(2)
    facts = {
        name: facts_of(name, filesystems=list(f.filesystems), os={"container": "nspawn"})
        for name, f in seen.facts.items()
    }
    remote = Hosts()
    found = results(fio.run(View(seen.profile, seen.site, facts), remote))
    assert all(r.simulated for r in found.values())
    assert fio.SMALL.seconds < fio.REAL.seconds


def test_only_all_hosts_together_are_asked_for_more_than_the_sums() -> None:
    remote = Hosts()
    outcome = fio.run(view(3), remote)
    sums, whole = "seq_write seq_read", "seq_write seq_read rand_write rand_read create"
    of_shared = [(count, parts) for at, count, parts in remote.parts if at == "/data"]
    assert of_shared == [(1, sums), (2, sums), (3, whole)]
    assert remote.lengths == {("10", "1g", "2000")}
    assert {raw.name for raw in outcome.raw} == {
        *(f"scratch-gpu-{n}.txt" for n in (1, 2, 3)),
        *(f"shared-{c}-gpu-{n}.txt" for c in (1, 2, 3) for n in range(1, c + 1)),
        *(f"seen-gpu-{n}.txt" for n in (1, 2, 3)),
    }
    assert all('"jobs"' in raw.text for raw in outcome.raw if not raw.name.startswith("seen"))
    assert [r.status for r in outcome.results if r.id == "fio.shared_read"] == [
        Status.NOT_ASSESSED
    ] * 3


@pytest.mark.parametrize(("count", "met"), [(1, 0), (2, 1)])
def test_a_host_alone_meets_nobody(count: int, met: int) -> None:
    remote = Hosts()
    found = results(fio.run(view(count), remote))
    assert remote.met == met
    assert ("fio.visible" in {check for check, _ in found}) is bool(met)


def test_without_a_host_or_a_mount_there_is_nothing_shared() -> None:
    (only,) = fio.run(view(0), Hosts()).results
    assert (only.status, only.cause) == (Status.NOT_ASSESSED, "the site has no GPU host")
    found = results(fio.run(view(2, mounted=0), Hosts()))
    assert not [check for check, _ in found if check.startswith(("fio.total", "fio.visible"))]
    assert found["fio.shared_read", "gpu-1/data"].cause == "/data is not mounted"


@pytest.mark.parametrize(("factor", "slow"), [(0.76, False), (0.74, True)])
def test_a_disk_may_be_a_quarter_slower_than_its_equals(factor: float, slow: bool) -> None:
    odd = Hosts(lambda host, at, _: factor if (host, at) == ("gpu-2", "/scratch") else 1.0)
    assert bool(failures(results(fio.run(view(EQUAL), odd)))) is slow


@pytest.mark.parametrize(
    ("decays", "status"),
    [
        ({"gpu-2": 20.04}, Status.FAIL),
        ({"gpu-2": 20.0, "gpu-3": 10.0}, Status.PASS),
        ({"gpu-1": 50.0}, Status.FAIL),
    ],
)
def test_the_host_that_slows_down_most_counts(decays: dict[str, float], status: Status) -> None:
    found = results(fio.run(view(EQUAL, {"fio.decay": 20.0}), Hosts(decays=decays)))
    assert found["fio.decay", "cluster/data 5 hosts"].status is status
    seen = results(fio.run(view(EQUAL), Hosts(decays=decays)))["fio.decay", "cluster/data 5 hosts"]
    assert (seen.value, seen.unit) == (round(max(decays.values()), 1), "%")


def test_a_host_whose_log_shows_nothing_leaves_decay_open() -> None:
    class Cut(Hosts):
        def step(self, argv: Sequence[str]) -> Completed:
            def cut(text: str) -> str:
                kept = (line for line in text.splitlines() if not line.endswith(", 0, 0, 0"))
                return "\n".join(kept)

            return changed(super().step(argv), cut, only="gpu-2")

    found = results(fio.run(view(2, {"fio.decay": 20.0}), Cut()))
    one = found["fio.decay", "cluster/data 2 hosts"]
    assert (one.status, one.required) == (Status.NOT_ASSESSED, True)
    assert one.cause.startswith("no result for gpu-2")


def test_one_host_that_says_it_is_a_container_changes_no_figure_of_the_others() -> None:
    seen = view(3, {"fio.decay": 20.0})
    inside = facts_of(
        "gpu-3", filesystems=list(seen.facts["gpu-3"].filesystems), os={"container": "nspawn"}
    )
    remote = Hosts(silent=[])
    mixed = View(seen.profile, seen.site, {**seen.facts, "gpu-3": inside})
    found = results(fio.run(mixed, remote))
    assert remote.lengths == {("10", "1g", "2000")}
    for check in ("fio.total_read", "fio.decay", "fio.visible", "fio.locks"):
        assert found[check, "cluster/data 3 hosts"].simulated
    silent = results(fio.run(mixed, Hosts(silent=["gpu-3"])))
    assert silent["fio.scratch_read", "gpu-3/scratch"].simulated
    assert not silent["fio.scratch_read", "gpu-1/scratch"].simulated


@pytest.mark.parametrize("kind", ["scratch", "shared"])
def test_of_a_host_that_could_not_be_measured_each_figure_asked_for_is_told(kind: str) -> None:
    """Else an earlier pass of the others would stand."""
    asked = view(2, {f"fio.{kind}_write": 1.0, f"fio.{kind}_create": 1.0})
    at = "data" if kind == "shared" else "scratch"
    told = {(f"fio.{kind}_{name}", f"gpu-2/{at}") for name in ("read", "write", "create")}
    silent = results(fio.run(asked, Hosts(silent=["gpu-2"])))
    assert {key for key in silent if key[1] == f"gpu-2/{at}"} == told
    if kind == "shared":
        gone = results(fio.run(View(asked.profile, asked.site, view(2, mounted=1).facts), Hosts()))
        assert {key for key in gone if key[1] == "gpu-2/data"} == told


@pytest.mark.parametrize(
    ("count", "sizes"), [(0, []), (1, [1]), (2, [1, 2]), (5, [1, 2, 4, 5]), (8, [1, 2, 4, 8])]
)
def test_numbers_of_hosts_are_doubled_up_to_all(count: int, sizes: list[int]) -> None:
    assert fio.sizes(count) == sizes
