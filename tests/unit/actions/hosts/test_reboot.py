"""Reboots in waves: their order, and what stops them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.actions.hosts import maintenance, reboot, waves
from appliance.actions.sites.opening import Target
from appliance.adapters.process import Completed
from appliance.engine.run import drain as draining
from appliance.engine.session import Session
from appliance.errors import ConfigError
from appliance.models.drain import Maintenance
from appliance.models.result import CheckResult, Status
from tests.support.drain_world import World
from tests.support.engine_fakes import FakeHosts, Recorder
from tests.support.engine_session import hosts, recorder, session
from tests.support.sites import site_of

__all__ = ["hosts", "recorder", "session"]

BROKEN = CheckResult(id="gpu.count", target="gpu-1", host="gpu-1", status=Status.FAIL)


class Bench:
    """Hosts whose boot id changes after the command to reboot."""

    def __init__(self, world: World, hosts: FakeHosts) -> None:
        self.world, self.hosts = world, hosts
        self.rebooted: list[str] = []
        self.reasons: list[str] = []
        self.stuck: set[str] = set()
        self.before: tuple[CheckResult, ...] = ()
        self.after: dict[str, tuple[CheckResult, ...]] = {}
        answered = hosts.answer

        def answer(host: str, argv: Sequence[str]) -> Completed:
            if "systemd-run" in argv:
                self.rebooted.append(host)
                self.reasons.append(self.world.reasons.get(host, ""))
                return Completed(tuple(argv), 0, "", "")
            if reboot.BOOT in argv:
                boot = self.rebooted.count(host) if host not in self.stuck else 0
                text = f"id\nUserspaceTimestampMonotonic={boot}\nSystemState=running\n"
                return Completed(tuple(argv), 0, text, "")
            return answered(host, argv)

        hosts.answer = answer

    def run(self, *names: str, agrees: bool = True, **more: Any) -> Any:
        return reboot.reboot_hosts(
            Target(Path()), names, Recorder(), lambda _: agrees, 0.0, everything=not names, **more
        )


@pytest.fixture
def bench(session: Session, hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch) -> Bench:
    for module in (draining, maintenance, reboot):
        monkeypatch.setattr(module, "PAUSE", 0.0)
    monkeypatch.setattr(reboot, "PATIENCE", 0.05)
    monkeypatch.setattr(maintenance, "PATIENCE", 0.0)
    made = Bench(World(hosts), hosts)

    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[Session]:
        yield session

    def failures(_: object, __: object, name: str, known: frozenset[str]) -> Any:
        return tuple(r for r in made.after.get(name, ()) if r.name not in known)

    for module in (reboot, waves):
        monkeypatch.setattr(module, "open_session", opened)
    monkeypatch.setattr(waves, "against", lambda *_: made.before)
    monkeypatch.setattr(waves, "failures_of", failures)
    return made


def test_storage_and_control_hosts_come_last_one_by_one() -> None:
    both = {"name": "store-1", "roles": ["storage", "gpu"]}
    site = site_of("head", both, "gpu-1", "gpu-2", "gpu-3")
    plan = waves.waves(site, [h.name for h in site.hosts], 2)
    names = [tuple(host.name for host in wave) for wave in plan]
    assert names == [("gpu-1", "gpu-2"), ("gpu-3",), ("store-1",), ("head",)]


def test_each_host_is_drained_rebooted_and_returned(bench: Bench) -> None:
    done, rest = bench.run()
    assert [one.host for one in done if one.is_good] == ["gpu-1", "gpu-2", "head"]
    assert rest == ()
    assert bench.rebooted == ["gpu-1", "gpu-2", "head"]
    first, second, head = bench.reasons
    assert Maintenance.read(first)
    assert Maintenance.read(second)
    assert head == ""
    assert bench.world.reasons == {"gpu-1": "", "gpu-2": ""}


def test_the_first_host_with_a_new_failure_stops_the_rest_and_stays_drained(bench: Bench) -> None:
    bench.after = {"gpu-1": (BROKEN,)}
    done, rest = bench.run()
    assert [one.failures for one in done] == [(BROKEN,)]
    assert rest == ("gpu-2", "head")
    assert bench.rebooted == ["gpu-1"]
    assert Maintenance.read(bench.world.reasons["gpu-1"])


def test_a_failure_that_was_there_before_stops_nothing(bench: Bench) -> None:
    bench.before, bench.after = (BROKEN,), {"gpu-1": (BROKEN,)}
    done, rest = bench.run("gpu-1", "gpu-2")
    assert all(one.is_good for one in done)
    assert rest == ()


def test_a_host_that_does_not_boot_stops_the_rest(bench: Bench) -> None:
    bench.stuck = {"gpu-1"}
    done, rest = bench.run("gpu-[1-2]")
    assert "has not booted" in str(done[0].error)
    assert rest == ("gpu-2",)
    assert Maintenance.read(bench.world.reasons["gpu-1"])


def test_a_host_that_is_not_free_is_not_rebooted_and_works_on(bench: Bench) -> None:
    bench.world.jobs = ["7 of ada"]
    done, rest = bench.run("gpu-[1-2]")
    assert "job 7 of ada" in str(done[0].error)
    assert rest == ("gpu-2",)
    assert bench.rebooted == []
    assert bench.world.reasons["gpu-1"] == ""


def test_a_host_that_was_drained_for_planned_work_stays_drained(bench: Bench) -> None:
    mine = str(maintenance.maintenance_for("new power supply"))
    bench.world.reasons["gpu-1"] = mine
    done, _ = bench.run("gpu-1")
    assert done[0].is_good
    assert bench.world.reasons["gpu-1"] == mine


@pytest.mark.parametrize(("names", "said"), [(("gpu-9",), "no such host"), (("gpu-1",), "another")])
def test_refused_before_a_host_is_touched(names: tuple[str], said: str, bench: Bench) -> None:
    bench.world.reasons["gpu-1"] = "broken fan"
    with pytest.raises(ConfigError, match=said):
        bench.run(*names)
    assert bench.rebooted == []


def test_who_declines_changes_nothing(bench: Bench) -> None:
    assert bench.run(agrees=False) is None
    assert bench.rebooted == []
