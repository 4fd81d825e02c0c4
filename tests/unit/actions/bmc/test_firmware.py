"""Firmware in waves: what is ordered, watched and read back, and what a failed, lost or interrupted task leaves."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from appliance.actions.bmc import firmware as action
from appliance.actions.hosts import maintenance, waves
from appliance.actions.sites.opening import Target
from appliance.adapters.redfish import Controller
from appliance.bmc import firmware
from appliance.bmc.firmware import Watching
from appliance.engine.run import drain as draining
from appliance.engine.session import Session
from appliance.errors import ApplianceError
from appliance.models.drain import Maintenance
from tests.redfish_server import QUICK, certificate, serve
from tests.support.drain_world import World
from tests.support.engine_fakes import FakeHosts, Recorder
from tests.support.engine_session import hosts, recorder, session
from tests.support.profiles import profile_of
from tests.support.update_service import NEW, OLD, Updates

__all__ = ["hosts", "recorder", "session"]

NAMES = ("head", "gpu-1", "gpu-2")
IMAGES = {name: f"https://mirror.example/{name.split()[0]}.fw" for name in NEW}
SERVER = {"model": "*", "firmware": NEW, "images": IMAGES}
SOON = Watching(whole=5.0, read_back=0.2, pause=0.01)


class Bench:
    """Three machines with old firmware."""

    def __init__(self, world: World, session: Session, made: Mapping[str, Updates]) -> None:
        self.world, self.session, self.machines = world, session, made
        self.server: dict[str, Any] = SERVER
        self.rebooted: list[str] = []

    def known(self, names: Sequence[str]) -> dict[str, Controller]:
        return {n: m.bmc.known(n) for n, m in self.machines.items() if not names or n in names}

    def update(self, *names: str, agrees: bool = True, **more: Any) -> Any:
        return action.update(
            Target(Path()),
            Recorder(),
            names,
            lambda *_: agrees,
            0.0,
            watching=SOON,
            patience=QUICK,
            **more,
        )

    def ordered(self) -> dict[str, list[str]]:
        return {n: [one for one, _ in m.ordered] for n, m in self.machines.items() if m.ordered}


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate(tmp_path_factory.mktemp("pem"))


@pytest.fixture
def bench(
    session: Session, hosts: FakeHosts, pem: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bench]:
    for module in (draining, maintenance):
        monkeypatch.setattr(module, "PAUSE", 0.0)
    monkeypatch.setattr(maintenance, "PATIENCE", 0.0)
    with ExitStack() as stack:
        machines = {name: Updates(pem) for name in NAMES}
        for one in machines.values():
            stack.enter_context(serve(one.bmc))
        made = Bench(World(hosts), session, machines)

        @contextmanager
        def opened(*_: object, **__: object) -> Iterator[Session]:
            yield session

        def reboot_host(_: object, name: str) -> None:
            made.rebooted.append(name)
            machines[name].start_again()

        for module in (action, waves):
            monkeypatch.setattr(module, "open_session", opened)
        monkeypatch.setattr(action, "reboot_host", reboot_host)
        monkeypatch.setattr(action, "controllers", lambda _, names: made.known(names))
        monkeypatch.setattr(Session, "profile_of", lambda *_: profile_of(servers=[made.server]))
        monkeypatch.setattr(waves, "against", lambda *_: ())
        monkeypatch.setattr(waves, "failures_of", lambda *_: ())
        yield made


def test_old_firmware_is_updated_in_waves_and_a_second_run_does_nothing(bench: Bench) -> None:
    drained: dict[str, str] = {}

    def note(name: str) -> None:
        drained[name] = bench.world.reasons.get(name, "")

    for name, machine in bench.machines.items():
        machine.on_poll = partial(note, name)
    done, rest = bench.update(*NAMES, at_once=2)
    assert [one.host for one in done if one.is_good] == ["gpu-1", "gpu-2", "head"], done
    assert rest == ()
    assert all(machine.versions == NEW for machine in bench.machines.values())
    assert bench.machines["gpu-1"].ordered == [(name, IMAGES[name]) for name in NEW]
    assert Maintenance.read(drained["gpu-1"])
    assert bench.world.reasons == {"gpu-1": "", "gpu-2": ""}
    assert bench.rebooted == []
    assert bench.update(*NAMES, agrees=False) == ((), ())
    assert len(bench.machines["gpu-1"].ordered) == len(NEW)


def test_a_failed_task_is_named_and_stops_the_rest(bench: Bench) -> None:
    bench.machines["gpu-1"].fails = {"BIOS"}
    done, rest = bench.update(*NAMES)
    assert done[0].error.message == (
        "BIOS: task /redfish/v1/TaskService/Tasks/2 ended as Exception: the image is not signed"
    )
    assert rest == ("gpu-2", "head")
    assert bench.ordered() == {"gpu-1": ["BMC", "BIOS"]}
    assert Maintenance.read(bench.world.reasons["gpu-1"]), "it stays drained"
    bench.machines["gpu-1"].fails = set()
    done, rest = bench.update(*NAMES)
    assert [one.is_good for one in done] == [True] * 3
    assert bench.ordered()["gpu-1"] == ["BMC", "BIOS", "BIOS", "NIC", "GPU baseboard"]


def test_a_lost_task_is_named_if_the_version_is_still_old(bench: Bench) -> None:
    bench.machines["gpu-1"].loses = {"NIC"}
    done, rest = bench.update("gpu-1", "gpu-2")
    assert "lost task /redfish/v1/TaskService/Tasks/3: NIC is 28.30.1000, expected" in str(
        done[0].error.message
    )
    assert rest == ("gpu-2",)


def test_a_bmc_that_forgets_its_tasks_after_its_own_update_has_succeeded(bench: Bench) -> None:
    bench.machines["gpu-1"].forgets = {"BMC"}
    done, _ = bench.update("gpu-1")
    assert done[0].is_good, done
    assert bench.machines["gpu-1"].versions == NEW


def test_a_staged_image_is_used_after_a_restart(bench: Bench) -> None:
    bench.machines["gpu-1"].stages = {"BIOS", "NIC"}
    done, _ = bench.update("gpu-1")
    assert done[0].is_good, done
    assert bench.rebooted == ["gpu-1"]
    assert bench.machines["gpu-1"].versions == NEW


def test_a_version_that_does_not_come_is_named(bench: Bench) -> None:
    machine = bench.machines["gpu-1"]
    machine.stages = {"GPU baseboard"}
    machine.start_again = lambda: None  # type: ignore[method-assign]
    done, _ = bench.update("gpu-1")
    assert done[0].error.message == (
        "GPU baseboard is 1.2 after its update and a restart, expected 1.5"
    )


def test_a_run_after_a_power_cut_watches_the_task_that_runs(bench: Bench) -> None:
    def killed(*_: object) -> bool:
        raise RuntimeError("the power is cut")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(firmware, "watch", killed)
        with pytest.raises(RuntimeError):
            bench.update("gpu-1")
    assert bench.ordered() == {"gpu-1": ["BMC"]}
    assert Maintenance.read(bench.world.reasons["gpu-1"])
    done, _ = bench.update("gpu-1")
    assert done[0].is_good, done
    assert bench.ordered() == {"gpu-1": list(NEW)}, "no task was ordered twice"
    assert bench.world.reasons["gpu-1"] == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"images": {}}, "the profile gives no image of BMC 24.09"),
        ({"firmware": {"CPLD": "1"}, "images": {}}, "no CPLD, which cannot be compared with 1"),
        ({"firmware": {"BMC": "release 7"}, "images": {}}, "BMC 24.01, which cannot be compared"),
        ({"model": "other"}, "lists no firmware of"),
    ],
)
def test_what_cannot_be_updated_is_refused_before_any_change(change: dict[str, Any], said: str, bench: Bench) -> None:  # fmt: skip
    bench.server = SERVER | change
    with pytest.raises(ApplianceError, match=said):
        bench.update(*NAMES)
    assert bench.ordered() == {}
    assert bench.world.reasons.get("gpu-1", "") == ""


def test_without_consent_nothing_is_ordered(bench: Bench) -> None:
    assert bench.update("gpu-1", agrees=False) is None
    assert bench.ordered() == {}


def test_status_names_what_is_older(bench: Bench) -> None:
    found = action.status(Target(Path()), Recorder(), ("gpu-1",))
    assert [str(change) for change in found[0].changes] == [
        f"{n}: {OLD[n]} -> {NEW[n]}" for n in NEW
    ]
    assert not found[0].is_good


def test_an_image_without_version_is_refused() -> None:
    with pytest.raises(ValueError, match="images names BIOS, but firmware gives it no version"):
        profile_of(
            servers=[{"model": "*", "firmware": {"NIC": "1"}, "images": {"BIOS": "https://m/x"}}]
        )
