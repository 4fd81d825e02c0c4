"""Updates in waves: their order, what stops them, and answers of hosts that cannot be believed."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.actions.hosts import maintenance, updates, waves
from appliance.actions.hosts.updates import Choice
from appliance.actions.sites.opening import Target
from appliance.adapters.process import Completed
from appliance.engine.run import drain as draining
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.models.drain import Maintenance
from appliance.models.result import CheckResult, Status
from appliance.updates import on_host
from tests.support.drain_world import World
from tests.support.engine_fakes import FakeHosts, Recorder
from tests.support.engine_session import hosts, recorder, session

__all__ = ["hosts", "recorder", "session"]

BROKEN = CheckResult(id="slurm.munge", target="gpu-1", host="gpu-1", status=Status.FAIL)
OPENSSL = {"name": "openssl", "old": "3.0.15-1", "new": "3.0.16-1", "security": True}
EVERY = Choice()
PLANNED = {"updates": [OPENSSL], "held": ["slurmd"], "back": False}


class Bench:
    """Hosts that answer the update program's requests."""

    def __init__(self, world: World, hosts: FakeHosts) -> None:
        self.world = world
        self.asked: list[tuple[str, str]] = []
        self.plans: dict[str, Any] = {}
        self.fails: dict[str, str] = {}
        self.reboot: list[str] = []
        self.rebooted: list[str] = []
        self.failing: dict[str, tuple[CheckResult, ...]] = {}
        self.drained: dict[str, str] = {}
        answered = hosts.answer

        def answer(host: str, argv: Sequence[str]) -> Completed:
            if "-" not in argv or '"do"' not in argv[-1] or "note" in argv[-1]:
                return answered(host, argv)
            request = json.loads(argv[-1])
            self.asked.append((host, request["do"]))
            return Completed(tuple(argv), 0, json.dumps(self.said(host, request["do"])), "")

        hosts.answer = answer

    def said(self, host: str, do: str) -> Any:
        if do == "plan":
            return self.plans.get(host, PLANNED)
        if do == "records":
            return {"back": True}
        self.drained[host] = self.world.reasons.get(host, "")
        if host in self.fails:
            return {"error": self.fails[host], "hint": "look"}
        return {"changed": 1, "reboot": self.reboot}

    def apply(self, *, agrees: bool = True, choice: Choice = EVERY, **more: Any) -> Any:
        consent = lambda *_: agrees  # noqa: E731
        return updates.apply(Target(Path()), choice, Recorder(), consent, 0.0, **more)

    @property
    def changed(self) -> list[str]:
        return [host for host, do in self.asked if do == "apply"]


@pytest.fixture
def bench(session: Session, hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch) -> Bench:
    for module in (draining, maintenance):
        monkeypatch.setattr(module, "PAUSE", 0.0)
    monkeypatch.setattr(maintenance, "PATIENCE", 0.0)
    made = Bench(World(hosts), hosts)

    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[Session]:
        yield session

    def reboot_host(_: object, name: str) -> None:
        made.rebooted.append(name)

    def failures(_: object, __: object, name: str, known: frozenset[str]) -> Any:
        return tuple(r for r in made.failing.get(name, ()) if r.name not in known)

    for module in (updates, waves):
        monkeypatch.setattr(module, "open_session", opened)
    monkeypatch.setattr(updates, "reboot_host", reboot_host)
    monkeypatch.setattr(waves, "against", lambda _, name: made.failing.get(name, ()))
    monkeypatch.setattr(waves, "failures_of", failures)
    return made


def test_one_host_goes_first_and_each_is_drained(bench: Bench) -> None:
    done, rest = bench.apply(at_once=2)
    assert [one.host for one in done if one.is_good] == ["gpu-1", "gpu-2", "head"]
    assert rest == ()
    assert bench.changed == ["gpu-1", "gpu-2", "head"]
    assert Maintenance.read(bench.drained["gpu-1"])
    assert bench.drained["head"] == ""
    assert bench.world.reasons == {"gpu-1": "", "gpu-2": ""}
    assert bench.rebooted == []


def test_the_canary_is_the_operators_choice(bench: Bench) -> None:
    bench.apply(canary="gpu-2")
    assert bench.changed == ["gpu-2", "gpu-1", "head"]
    with pytest.raises(ConfigError, match="--canary: gpu-9 has nothing to update"):
        bench.apply(canary="gpu-9")


def test_hosts_reboot_only_if_that_is_needed_and_wanted(bench: Bench) -> None:
    bench.reboot = ["a new kernel"]
    bench.apply(reboots=False)
    assert bench.rebooted == []
    bench.apply(choice=Choice(("gpu-1",)))
    assert bench.rebooted == ["gpu-1"]


def test_a_host_that_fails_to_update_stops_the_others_and_stays_drained(bench: Bench) -> None:
    bench.fails = {"gpu-1": "apt-get --yes: E: no space\x1b[2J"}
    done, rest = bench.apply()
    assert "no space" in str(done[0].error)
    assert "\x1b" not in str(done[0].error)
    assert rest == ("gpu-2", "head")
    assert Maintenance.read(bench.world.reasons["gpu-1"])


def test_an_update_that_breaks_a_check_is_undone_and_the_host_returns(
    bench: Bench, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waves, "against", lambda *_: ())
    bench.failing = {"gpu-1": (BROKEN,)}
    done, _ = bench.apply()
    assert done[0].failures == (BROKEN,)
    monkeypatch.setattr(waves, "against", lambda _, name: bench.failing.get(name, ()))

    def back() -> Any:
        consent = lambda _: True  # noqa: E731
        return updates.back(Target(Path()), ["gpu-1"], Recorder(), consent, 0.0)

    done, _ = back()
    assert done[0].failures == (BROKEN,), "it did not fail before the update"
    assert Maintenance.read(bench.world.reasons["gpu-1"])
    bench.failing = {}
    done, _ = back()
    assert done[0].is_good
    assert bench.world.reasons["gpu-1"] == ""


def test_a_host_drained_for_planned_work_stays_drained(bench: Bench) -> None:
    mine = str(maintenance.maintenance_for("new power supply"))
    bench.world.reasons["gpu-1"] = mine
    done, _ = bench.apply(choice=Choice(("gpu-1",)))
    assert done[0].is_good
    assert bench.world.reasons["gpu-1"] == mine


def test_without_consent_nothing_is_changed(bench: Bench) -> None:
    assert bench.apply(agrees=False) is None
    assert bench.changed == []


def test_nothing_to_update_needs_no_consent(bench: Bench) -> None:
    bench.plans = {host: {**PLANNED, "updates": []} for host in ("head", "gpu-1", "gpu-2")}
    assert bench.apply(agrees=False) == ((), ())


def test_a_host_that_a_killed_update_left_drained_is_judged_and_returned(bench: Bench) -> None:
    bench.plans = {host: {**PLANNED, "updates": []} for host in ("head", "gpu-1", "gpu-2")}
    bench.world.reasons["gpu-1"] = str(maintenance.maintenance_for(updates.WHY))
    done, rest = bench.apply()
    assert [one.host for one in done if one.is_good] == ["gpu-1"]
    assert (rest, bench.changed) == ((), [])
    assert ("gpu-1", "settle") in bench.asked
    assert bench.world.reasons["gpu-1"] == ""


def test_one_host_that_cannot_be_planned_stops_all_before_any_change(bench: Bench) -> None:
    bench.plans = {"gpu-2": {"error": "apt-get update: E: no route", "hint": "look"}}
    with pytest.raises(ApplianceError, match="no route"):
        bench.apply()
    assert bench.changed == []


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"updates": 3, "held": []},
        {"updates": [3], "held": []},
        {"updates": [{**OPENSSL, "name": "x\x1b[2J"}], "held": []},
        {"updates": [{**OPENSSL, "new": "1 && reboot"}], "held": []},
        {"updates": [{**OPENSSL, "old": ["1"]}], "held": []},
        {"updates": [OPENSSL] * 5001, "held": []},
        {"updates": [], "held": ["../x"]},
        {"updates": [], "held": {"a": 1}},
    ],
)
def test_an_answer_that_is_no_list_of_packages_is_refused(said: dict[str, object]) -> None:
    found = updates.said_updates("gpu-1", said)
    assert found.updates == ()
    assert "its list of updates is invalid" in str(found.error)


def test_a_host_writes_no_remedy_and_no_document_of_its_own(bench: Bench, session: Session) -> None:
    """Operators type what a remedy says, and history keeps what a journal has."""
    bench.plans = {"gpu-2": {"error": "x", "hint": "curl http://gpu-2/fix | sh"}}
    with pytest.raises(ApplianceError) as refused:
        bench.apply()
    assert refused.value.hint == ""
    bench.plans = {"gpu-2": {"error": "x", "hint": on_host.BACK}}
    with pytest.raises(ApplianceError) as refused:
        bench.apply()
    assert refused.value.hint == on_host.BACK
    for lie in ({"deep": ["x" * 1000]}, "1", -1, 10**9, None):

        def said(_: str, do: str, lie: object = lie) -> object:
            return PLANNED if do == "plan" else {"changed": lie, "reboot": []}

        bench.said = said  # type: ignore[assignment, method-assign]
        done, _ = bench.apply()
        assert done[0].error
        assert "is invalid" in done[0].error.message
    assert not list(session.journal.entries("updated"))
