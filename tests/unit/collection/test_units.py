"""appliance.host.units against a pretended systemd."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.collection_host import Host

Run = Callable[..., dict[str, Any]]
Plugin = Callable[[str], ModuleType]


def state(**changes: str) -> str:
    """What systemctl show prints of a running, enabled service."""
    good = {
        "LoadState": "loaded",
        "ActiveState": "active",
        "SubState": "running",
        "UnitFileState": "enabled",
        "NeedDaemonReload": "no",
        "Type": "notify",
        "Result": "success",
        "ConditionResult": "yes",
        "ActiveEnterTimestampMonotonic": "1000000",
        "ExecMainStatus": "0",
        "FragmentPath": "/places/lib/a.service",
        "DropInPaths": "",
    }
    return "".join(f"{key}={value}\n" for key, value in {**good, **changes}.items())


RUNNING = (0, state(), "")
DEAD = (0, state(ActiveState="inactive", SubState="dead"), "")
FAILED = (0, state(ActiveState="failed", Result="exit-code", ExecMainStatus="1"), "")
SHOW = "systemctl --no-pager --no-ask-password show"
CALL = "systemctl --no-pager --no-ask-password"


@pytest.fixture(autouse=True)
def live(plugin: Plugin, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that systemd runs, where every verb works."""
    monkeypatch.setattr(plugin("module_utils.resources.units"), "booted", lambda: True)
    monkeypatch.setattr(plugin("module_utils.resources.units"), "GRACE_SECONDS", 0)
    host.answer(CALL, (0, "", ""))
    host.answer(SHOW, RUNNING)


def verbs(host: Host) -> list[str]:
    """What was done to units, without the looking."""
    done = [call.removeprefix(CALL + " ") for call in host.called(CALL)]
    return [call for call in done if not call.startswith("show")]


def test_a_running_enabled_unit_costs_one_look(run: Run, host: Host) -> None:
    answer = run("units", units=[{"name": "chrony"}])
    assert not answer["changed"]
    assert len(host.calls) == 1
    assert answer["resources"] == [{"kind": "unit", "name": "chrony.service"}]


def test_a_dead_disabled_unit_is_enabled_and_started(run: Run, host: Host) -> None:
    host.answer(SHOW, (0, DEAD[1].replace("=enabled", "=disabled"), ""), RUNNING)
    answer = run("units", units=[{"name": "a.timer"}])
    assert verbs(host) == ["enable a.timer", "start a.timer"]
    assert answer["units"] == {"a.timer": ["enable", "start"]}


@pytest.mark.parametrize(
    ("item", "now", "done"),
    [
        ({"state": "stopped"}, RUNNING, ["disable a.service", "stop a.service"]),
        ({"state": "stopped", "enabled": True}, RUNNING, ["stop a.service"]),
        ({"state": "restarted"}, RUNNING, ["restart a.service"]),
        ({"state": "restarted"}, DEAD, ["start a.service"]),
        ({"state": "reloaded"}, RUNNING, ["reload-or-restart a.service"]),
        ({"masked": True}, RUNNING, ["stop a.service", "mask a.service"]),
        ({"enabled": False}, RUNNING, ["disable a.service"]),
        ({}, (0, state(UnitFileState="static"), ""), []),
        ({}, (0, state(UnitFileState="masked"), ""), ["unmask a.service", "enable a.service"]),
        (
            {},
            (0, state(NeedDaemonReload="yes"), ""),
            ["daemon-reload"],
        ),
    ],
)
def test_what_is_done_follows_from_what_is(
    run: Run, host: Host, item: dict[str, Any], now: tuple[int, str, str], done: list[str]
) -> None:
    host.answer(SHOW, now, RUNNING)
    if not done:
        host.answer(SHOW, now)
    run("units", units=[{"name": "a", **item}])
    assert verbs(host) == done


@pytest.fixture
def places(plugin: Plugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders of unit files, first wins; the unit comes from the last one."""
    found = [tmp_path / "etc", tmp_path / "lib"]
    for place in found:
        place.mkdir()
    monkeypatch.setattr(
        plugin("module_utils.systemd"), "PLACES", tuple(str(place) for place in found)
    )
    (found[1] / "a.service").touch()
    return found


def drop_in(place: Path, name: str = "a.service.d/x.conf") -> str:
    """A drop-in file's path; it is made."""
    (place / name).parent.mkdir(exist_ok=True)
    (place / name).touch()
    return str(place / name)


def reloads(run: Run, host: Host, unit: Path, *loaded: str, name: str = "a") -> bool:
    """Whether the module reloads systemd, which has loaded this unit file with these drop-ins."""
    now = state(FragmentPath=str(unit), DropInPaths=" ".join(loaded))
    host.answer(SHOW, (0, now, ""))
    host.calls.clear()
    run("units", units=[{"name": name}])
    return verbs(host) == ["daemon-reload"]


def test_a_drop_in_in_a_directory_systemd_never_saw_is_loaded(
    run: Run, host: Host, places: list[Path]
) -> None:
    unit = places[1] / "a.service"
    assert not reloads(run, host, unit)
    new = drop_in(places[0])
    assert reloads(run, host, unit)
    assert not reloads(run, host, unit, new)


def test_a_drop_in_that_replaces_another_is_loaded(
    run: Run, host: Host, places: list[Path]
) -> None:
    unit, old = places[1] / "a.service", drop_in(places[1])
    assert not reloads(run, host, unit, old)
    new = drop_in(places[0])
    assert reloads(run, host, unit, old)
    assert not reloads(run, host, unit, new)


def test_a_drop_in_of_a_template_counts_for_its_instances(
    run: Run, host: Host, places: list[Path]
) -> None:
    new = drop_in(places[0], "a@.service.d/x.conf")
    assert reloads(run, host, places[1] / "a@.service", name="a@1")
    assert not reloads(run, host, places[1] / "a@.service", new, name="a@1")
    assert not reloads(run, host, places[1] / "a.service", name="a")


def test_a_drop_in_made_void_is_not_waited_for(run: Run, host: Host, places: list[Path]) -> None:
    (places[0] / "a.service.d").mkdir()
    (places[0] / "a.service.d/x.conf").symlink_to("/dev/null")
    assert not reloads(run, host, places[1] / "a.service")


def test_a_unit_file_that_hides_another_is_loaded(run: Run, host: Host, places: list[Path]) -> None:
    (places[0] / "a.service").touch()
    assert reloads(run, host, places[1] / "a.service")
    assert not reloads(run, host, places[0] / "a.service")
    assert not reloads(run, host, Path("/run/systemd/generator/a.service"))


def test_a_folder_with_two_names_hides_nothing(run: Run, host: Host, places: list[Path]) -> None:
    places[0].rmdir()
    places[0].symlink_to(places[1])
    loaded = drop_in(places[1])
    assert not reloads(run, host, places[1] / "a.service", loaded)


def test_check_mode_only_looks(run: Run, host: Host) -> None:
    host.answer(SHOW, DEAD)
    assert run("units", check=True, units=[{"name": "a"}])["changed"]
    assert verbs(host) == []


def test_a_unit_older_than_what_it_watches_is_restarted_once(
    run: Run, host: Host, tmp_path: Path
) -> None:
    watched = tmp_path / "a.conf"
    watched.write_text("x")
    started = time.clock_gettime(time.CLOCK_MONOTONIC)
    item = {"name": "a", "watches": [str(watched), str(tmp_path / "none")]}

    def at(seconds: float) -> tuple[int, str, str]:
        return (0, state(ActiveEnterTimestampMonotonic=str(int((started + seconds) * 1e6))), "")

    host.answer(SHOW, at(-60))
    assert run("units", units=[item])["units"] == {"a.service": ["restart"]}
    host.answer(SHOW, at(+0))
    os.utime(watched, (0, time.time() - 60))
    assert not run("units", units=[item])["changed"]


def test_a_file_of_the_future_does_not_restart_for_ever(
    run: Run, host: Host, tmp_path: Path
) -> None:
    (tmp_path / "f").write_text("x")
    os.utime(tmp_path / "f", (0, time.time() + 3600))
    assert not run("units", units=[{"name": "a", "watches": [str(tmp_path / "f")]}])["changed"]


def test_a_failed_start_tells_the_units_last_words(run: Run, host: Host) -> None:
    host.answer(SHOW, DEAD, FAILED)
    host.answer(f"{CALL} start", (1, "", "Job for a.service failed.\nSee journalctl -xe\n"))
    host.answer("journalctl", (0, "Fatal error : no port\n", ""))
    answer = run("units", units=[{"name": "a"}])
    assert (
        answer["msg"] == "a.service: start failed (exit-code with status 1): Fatal error : no port"
    )


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (
            ["error: cannot open x", "fatal: CLUSTER NAME MISMATCH", "Terminate signal received"],
            "fatal: CLUSTER NAME MISMATCH",
        ),
        (["starting", "error: no such device", "bye"], "error: no such device"),
        (["starting", "bye"], "bye"),
    ],
)
def test_a_failed_start_tells_the_first_line_of_the_gravest_kind(
    lines: list[str], told: str, run: Run, host: Host
) -> None:
    host.answer(SHOW, DEAD, FAILED)
    host.answer(f"{CALL} start", (1, "", "Job for a.service failed.\n"))
    host.answer("journalctl", (0, "\n".join(lines) + "\n", ""))
    assert run("units", units=[{"name": "a"}])["msg"].endswith(f": {told}")


def test_who_holds_a_port_is_named(run: Run, host: Host) -> None:
    host.answer(SHOW, DEAD, FAILED)
    host.answer(f"{CALL} start", (1, "", "Job for a.service failed.\n"))
    said = 'level=error err="listen tcp 0.0.0.0:9090: bind: address already in use"\n'
    host.answer("journalctl", (0, said, ""))
    held = 'tcp LISTEN 0 128 *:9090 *:* users:(("cockpit-ws",pid=7,fd=3))\n'
    host.answer("ss", (0, held, ""))
    answer = run("units", units=[{"name": "a"}])["msg"]
    assert answer.endswith("(port 9090 is held by cockpit-ws)")
    assert host.called("ss ") == ["ss -Hlntup sport = :9090"]


def test_a_unit_that_failed_too_often_is_explained_by_what_it_said_before(
    run: Run, host: Host
) -> None:
    host.answer(SHOW, DEAD, (0, state(ActiveState="failed", Result="start-limit-hit"), ""))
    host.answer(f"{CALL} start", (1, "", "Job for a.service failed.\n"))
    host.answer("journalctl", (0, "", ""), (0, "fatal: no key\n", ""))
    assert run("units", units=[{"name": "a"}])["msg"].endswith("fatal: no key")


def test_a_silent_unit_is_explained_by_systemd(run: Run, host: Host) -> None:
    host.answer(SHOW, DEAD)
    host.answer(f"{CALL} start", (1, "", "Failed to start a.service: Access denied\n"))
    host.answer("journalctl", (0, "", ""))
    assert run("units", units=[{"name": "a"}])["msg"].endswith("Access denied")


def test_a_daemon_that_dies_after_its_start_is_an_error(run: Run, host: Host) -> None:
    host.answer(SHOW, DEAD, FAILED)
    host.answer("journalctl", (0, "cannot bind\n", ""))
    answer = run("units", units=[{"name": "a"}])
    assert answer["failed"]
    assert "cannot bind" in answer["msg"]


def test_an_unmet_condition_is_an_error(run: Run, host: Host) -> None:
    unmet = (0, state(ActiveState="inactive", ConditionResult="no"), "")
    host.answer(SHOW, DEAD, unmet)
    assert "a condition of the unit is not met" in run("units", units=[{"name": "a"}])["msg"]


def test_an_unknown_unit_is_an_error_unless_it_is_unwanted(run: Run, host: Host) -> None:
    host.answer(
        SHOW, (0, state(LoadState="not-found", ActiveState="inactive", UnitFileState=""), "")
    )
    assert (
        run("units", units=[{"name": "a"}])["msg"]
        == "a.service: there is no such unit on this host"
    )
    answer = run("units", units=[{"name": "a", "state": "stopped"}])
    assert (answer["changed"], answer["resources"]) == (False, [])


def test_one_that_is_kept_is_restarted_for_a_newer_file_and_else_let_be(
    run: Run, host: Host, tmp_path: Path
) -> None:
    kept = {"name": "a", "state": "kept", "watches": [str(tmp_path)]}
    os.utime(tmp_path, (0, 0))
    host.answer(SHOW, RUNNING)
    answer = run("units", units=[kept])
    assert (answer["changed"], answer["resources"]) == (False, [])
    (tmp_path / "new").touch()
    assert run("units", units=[kept])["units"] == {"a.service": ["restart"]}
    assert f"{CALL} restart a.service" in host.calls


@pytest.mark.parametrize("changed", [{"ActiveState": "inactive"}, {"LoadState": "not-found"}])
def test_one_that_is_kept_is_neither_started_nor_missed(
    run: Run, host: Host, tmp_path: Path, changed: dict[str, str]
) -> None:
    host.answer(SHOW, (0, state(**changed, SubState="dead", UnitFileState="disabled"), ""))
    kept = {"name": "a", "state": "kept", "watches": [str(tmp_path)]}
    answer = run("units", units=[kept])
    assert (answer["changed"], answer["resources"]) == (False, [])


def test_without_systemd_units_are_only_enabled(
    run: Run, plugin: Plugin, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin("module_utils.resources.units"), "booted", lambda: False)
    host.answer(f"{CALL} is-enabled", (1, "disabled\n", ""))
    run("units", units=[{"name": "a"}])
    assert [verb for verb in verbs(host) if "is-enabled" not in verb] == ["enable a.service"]


def test_a_service_between_two_tries_is_stopped(run: Run, host: Host) -> None:
    host.answer(SHOW, (0, state(ActiveState="activating", SubState="auto-restart"), ""))
    run("units", units=[{"name": "a", "state": "stopped"}])
    assert verbs(host) == ["disable a.service", "stop a.service"]


def test_units_are_not_treated_as_they_were_before_a_reload_that_failed(
    run: Run, host: Host
) -> None:
    host.answer(SHOW, (0, state(NeedDaemonReload="yes"), ""))
    host.answer(f"{CALL} daemon-reload", (1, "", "Failed to reload daemon: Connection timed out\n"))
    answer = run("units", units=[{"name": "a", "state": "restarted"}])
    assert (
        answer["msg"]
        == "systemd does not read its units anew: Failed to reload daemon: Connection timed out"
    )
    assert verbs(host) == ["daemon-reload"]
