"""fio on hosts: scratch of each, the shared directory from one host to all, who is slow, and what could not be measured."""

import json
from collections.abc import Callable, Sequence

import pytest

from appliance.adapters.process import Completed
from appliance.benchmarks.benchmark import Outcome
from appliance.benchmarks.fio import gates
from appliance.benchmarks.fio import run as fio
from appliance.checks.check import View
from appliance.models.result import CheckResult, Status
from appliance.models.site import Site
from tests.facts import facts_of
from tests.profiles import profile_of
from tests.unit.benchmarks.batches import Batches, value

RATES = {"seq_write": 2e9, "seq_read": 3e9, "rand_write": 50_000, "rand_read": 60_000}
RATES["create"] = 4_000
SPOKEN = {
    "seq_write": "write",
    "seq_read": "read",
    "rand_write": "random_write",
    "rand_read": "random_read",
    "create": "create",
}
Rates = Callable[[str, str, int], float]
"""Of a host on a directory, while so many are at work; a factor of what is usual."""


def printed(parts: Sequence[str], factor: float, decay: float) -> str:
    """As fio prints it: what it creates counts as read."""
    jobs = []
    for part in parts:
        moved = {"bw_bytes": 0, "iops": 0, "io_bytes": 0, "runtime": 0}
        rate = {"bw_bytes": RATES[part] * factor, "iops": RATES[part] * factor}
        own = {**rate, "io_bytes": 1, "runtime": 1}
        both = {"read": own, "write": moved} if part != "seq_write" else {}
        if part in {"seq_write", "rand_write"}:
            both = {"read": moved, "write": own}
        jobs.append({"jobname": part, "error": 0, **both})
    text = json.dumps({"fio version": "fio-3.33", "jobs": jobs})
    steps = [100.0] * 4 + [90.0] * 4 + [100.0 - decay] * 4
    lines = "".join(f"{500 * at}, {rate:g}, 0, 0, 0\n" for at, rate in enumerate(steps, 1))
    return f"{text}\nappliance-log seq_read\n{lines}"


def meeting(argv: Sequence[str], nodes: Sequence[str]) -> Completed:
    """What hosts say that see each other's files and locks."""
    lines = []
    for number, node in enumerate(nodes):
        lock = "refused" if number else "held"
        met = {"place": number, "longest": 0.1, "lock": lock, "counted": 9, "added": 9}
        said = json.dumps(met)
        ends = (f"appliance-begin host={node}", said, f"appliance-end code=0 size={len(said)}")
        lines += [f"{number}: {line}" for line in ends]
    return Completed(tuple(argv), 0, "\n".join(lines), "")


class Hosts(Batches):
    """Hosts of Slurm with fio; ``rates``: how fast each is; ``silent`` have none."""

    def __init__(
        self,
        rates: Rates = lambda host, at, of: 1.0,
        *,
        decay: float = 0.0,
        silent: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.rates, self.decay, self.silent = rates, decay, silent
        self.tried: list[tuple[str, tuple[str, ...]]] = []

    def step(self, argv: Sequence[str]) -> Completed:
        nodes = value(argv, "--nodelist").split(",")
        if "python3" in argv:
            return meeting(argv, nodes)
        at, *_, parts = argv[argv.index("appliance") + 4 :]
        self.tried.append((at, tuple(nodes)))
        lines = []
        for number, node in enumerate(nodes):
            said = printed(parts.split(), self.rates(node, at, len(nodes)), self.decay)
            ends = [*said.splitlines(), f"appliance-end code=0 size={len(said)}"]
            if node in self.silent:
                ends = ["appliance-missing=fio"]
            lines += [f"{number}: {line}" for line in (f"appliance-begin host={node}", *ends)]
        return Completed(tuple(argv), 0, "\n".join(lines), "")


def view(count: int, limits: dict[str, float] | None = None, mounted: int = 99) -> View:
    """GPU hosts of which the first ``mounted`` have the shared directory; limits by check in the unit of it."""
    names = [f"gpu-{n}" for n in range(1, count + 1)]
    hosts: list[dict[str, object]] = [
        {"name": "head", "roles": ["control", "storage"], "address": "10.0.0.10"}
    ]
    hosts += [
        {"name": name, "roles": ["gpu"], "address": f"10.0.0.{at}"}
        for at, name in enumerate(names, 11)
    ]
    found = {
        "version": 1,
        "name": "hall",
        "networks": {"management": {"cidr": "10.0.0.0/24"}},
        "hosts": hosts,
        "storage": {
            "exports": [{"path": "/srv/data"}],
            "mounts": [{"export": "/srv/data", "at": "/data"}],
            "scratch": {"at": "/scratch"},
        },
        "limits": {
            check: {"value": bound, "unit": gates.BOUNDS[check].unit, "source": "contract"}
            for check, bound in (limits or {}).items()
        },
    }
    there = {
        "at": "/data",
        "source": "10.0.0.10:/srv/data",
        "type": "nfs4",
        "size": 1,
        "free": 1,
        "inodes_free": 1,
    }
    facts = {
        name: facts_of(name, filesystems=[there] if at < mounted else [])
        for at, name in enumerate(names)
    }
    return View(profile_of(), Site.model_validate_json(json.dumps(found)), facts)


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
            done = super().step(argv)
            return Completed(done.argv, 0, done.stdout.replace('"jobs"', '"none"'), "")

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


@pytest.mark.parametrize(
    ("count", "sizes"), [(0, []), (1, [1]), (2, [1, 2]), (5, [1, 2, 4, 5]), (8, [1, 2, 4, 8])]
)
def test_numbers_of_hosts_are_doubled_up_to_all(count: int, sizes: list[int]) -> None:
    assert fio.sizes(count) == sizes
