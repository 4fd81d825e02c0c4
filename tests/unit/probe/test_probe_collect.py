"""Areas fail alone: one that hangs, breaks or lacks privilege leaves the others their facts."""

import shlex
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from appliance.engine.look.gather import DEADLINE
from appliance.probe import ask as asking
from appliance.probe import collect, command
from appliance.probe.ask import Ask, Once
from appliance.probe.collectors import clock, cpu, disks, filesystems
from appliance.probe.problems import Absent, Unreadable

Grow = Callable[[dict[str, Any]], str]


def ask(root: str, **request: object) -> Ask:
    return Ask({"areas": ["disks"], **request}, root)


def kinds(problems: list[dict[str, str]]) -> list[tuple[str, str, str]]:
    return [(p["area"], p["kind"], p["at"]) for p in problems]


def planted(monkeypatch: pytest.MonkeyPatch, fault: Callable[[Ask], Any]) -> None:
    monkeypatch.setattr(disks, "collect", fault)


def test_an_area_that_hangs_is_left_behind(grow: Grow, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, lambda _: time.sleep(30))
    monkeypatch.setitem(collect.AREAS, "disks", ("appliance.probe.collectors.disks", 0.2))
    began = time.monotonic()
    facts = collect.document(ask(grow({})))
    assert time.monotonic() - began < 20
    assert facts["errors"]["disks"] == "no answer within 0.2 s"
    assert facts["clock"]["time"] > 0


def test_the_time_of_an_area_counts_from_its_own_start(
    grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(*areas: str) -> None:
        time.sleep(1.2 * (len(areas) > 1))
        load(*areas)

    load = collect._load
    planted(monkeypatch, lambda _: {})
    monkeypatch.setitem(collect.AREAS, "disks", ("appliance.probe.collectors.disks", 1.0))
    monkeypatch.setattr(collect, "USUAL_S", 60.0)
    monkeypatch.setattr(collect, "_load", slowly)
    assert "disks" not in collect.document(ask(grow({})))["errors"]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that takes a hundred times as long as another to read the collectors."""
    monkeypatch.setattr(collect, "USUAL_S", 0.005)
    monkeypatch.setattr(collect, "_load", lambda *_: time.sleep(0.25))


def lately(seconds: float) -> Callable[[Ask], Any]:
    def collected(_: Ask) -> dict[str, Any]:
        time.sleep(seconds)
        return {"disks": [], "late": True}

    return collected


@pytest.mark.usefixtures("slow")
def test_a_slow_host_has_more_time(grow: Grow, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, lately(1.0))
    monkeypatch.setitem(collect.AREAS, "disks", ("appliance.probe.collectors.disks", 0.2))
    facts = collect.document(ask(grow({})))
    assert facts["late"]
    assert "disks" not in facts["errors"]


@pytest.mark.usefixtures("slow")
def test_a_slow_host_is_not_waited_for_beyond_the_whole(
    grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(monkeypatch, lambda _: time.sleep(60))
    monkeypatch.setitem(collect.AREAS, "disks", ("appliance.probe.collectors.disks", 0.2))
    monkeypatch.setattr(collect, "WHOLE_S", 1.5)
    began = time.monotonic()
    facts = collect.document(ask(grow({})))
    assert time.monotonic() - began < 30
    assert facts["errors"]["disks"].startswith("no answer within ")
    assert "disks" not in facts


def test_an_answer_that_came_while_others_were_waited_for_counts(
    grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    came = threading.Event()

    def late(_: Ask) -> dict[str, Any]:
        came.wait(20)
        return {"disks": [], "late": True}

    def longer(_: Ask) -> dict[str, Any]:
        time.sleep(1.0)
        came.set()
        time.sleep(1.0)
        return {}

    planted(monkeypatch, late)
    monkeypatch.setattr(clock, "collect", longer)
    monkeypatch.setitem(collect.AREAS, "disks", ("appliance.probe.collectors.disks", 0.2))
    facts = collect.document(ask(grow({})))
    assert facts["late"]
    assert "disks" not in facts["errors"]


@pytest.mark.parametrize(
    ("seconds", "slowness", "given"),
    [(5.0, 1.0, 5.0), (5.0, 2.0, 10.0), (5.0, 9.0, 15.0), (25.0, 9.0, 25.0)],
)
def test_a_slow_hosts_programs_have_more_time(
    grow: Grow, monkeypatch: pytest.MonkeyPatch, seconds: float, slowness: float, given: float
) -> None:
    bounds: list[float] = []
    monkeypatch.setattr(command, "run", lambda _argv, timeout, _ok: bounds.append(timeout))
    asked = ask(grow({"/usr/bin/tool": {"text": "", "mode": "0755"}}))
    asked.slowness = slowness
    asked.run(["tool"], seconds)
    assert bounds == [given]


def test_an_area_with_a_defect_names_it(grow: Grow, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, lambda _: dict[str, int]()["size"])
    said = collect.document(ask(grow({})))["errors"]["disks"]
    assert "area disks" in said
    assert "(KeyError: 'size'); check for unusual names" in said


def test_missing_privilege_is_named(grow: Grow, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Ask) -> None:
        raise PermissionError(13, "Permission denied", "/dev/kmsg")

    planted(monkeypatch, refuse)
    facts = collect.document(ask(grow({})))
    assert facts["errors"]["disks"] == "needs root to read /dev/kmsg"
    assert kinds(facts["problems"]) == [("disks", "denied", "")]


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("ibwarn: [7] mad_rpc_open_port: can't open UMAD port", "denied"),
        ("open /etc/kubernetes/admin.conf: permission denied", "denied"),
        ("Operation not permitted", "denied"),
        ("no such device", ""),
    ],
)
def test_what_a_program_was_refused_is_known_by_its_kind(
    grow: Grow, monkeypatch: pytest.MonkeyPatch, said: str, kind: str
) -> None:
    text = f"#!/bin/sh\necho {shlex.quote(said)} >&2\nexit 1\n"
    root = grow({"/usr/bin/tool": {"text": text, "mode": "0755"}})
    planted(monkeypatch, lambda asked: asked.run(["tool"]))
    facts = collect.document(ask(root))
    assert facts["errors"]["disks"] == f"tool failed with 1: {said}"
    assert kinds(facts["problems"]) == ([("disks", kind, "")] if kind else [])


def test_errors_are_one_line_each(grow: Grow, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Ask) -> None:
        raise Unreadable("first\n  second")

    planted(monkeypatch, refuse)
    assert collect.document(ask(grow({})))["errors"]["disks"] == "first second"


def test_discovery_of_the_fabric_is_never_part_of_all(grow: Grow) -> None:
    assert "topology" not in collect.chosen(Ask({}, grow({})))
    assert "topology" in collect.chosen(Ask({"areas": ["topology"]}, grow({})))


def test_a_program_is_ended_with_its_children_at_its_deadline() -> None:
    began = time.monotonic()
    with pytest.raises(Unreadable, match=r"sh did not answer within 0\.2 s"):
        command.run(["/bin/sh", "-c", "sleep 30 & wait"], 0.2, (0,))
    assert time.monotonic() - began < 20


def test_a_failing_program_is_told_with_its_last_word() -> None:
    with pytest.raises(Unreadable, match="sh failed with 3: no such cluster"):
        command.run(["/bin/sh", "-c", "echo no such cluster >&2; exit 3"], 5.0, (0,))


def test_a_wrapper_without_its_program_counts_as_absent() -> None:
    with pytest.raises(Absent):
        command.run(["/bin/sh", "-c", "exit 127"], 5.0, (0,))


def test_programs_speak_plain_english_whatever_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert command.run(["/bin/sh", "-c", "echo $LC_ALL"], 5.0, (0,)) == "C\n"


def test_a_shared_failure_is_met_by_all_who_share() -> None:
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        raise Unreadable("dpkg-query failed")

    shared = Once(fail)
    for _ in range(2):
        with pytest.raises(Unreadable, match="dpkg-query failed"):
            shared.get()
    assert calls == [1]


def test_a_dead_server_is_left_out_and_named(grow: Grow, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "42 25 0:60 / /data rw - nfs4 nas:/export rw\n"
    dead = ask(grow({"/proc/self/mountinfo": line, "/data/x": ""}))
    monkeypatch.setattr(filesystems, "PATIENCE", 0.1)
    monkeypatch.setattr(filesystems, "_statvfs", lambda _: time.sleep(5))
    assert filesystems.collect(dead) == {"filesystems": []}
    assert dead.errors == {"filesystems": "/data does not answer within 0.1 s"}


def test_cpulists() -> None:
    assert cpu.expand("0-2,8,10-11\n") == [0, 1, 2, 8, 10, 11]
    assert cpu.expand("") == []


def systemctl(slow: int) -> dict[str, Any]:
    """A host whose systemctl is slow so many times, and then answers at once; it counts how often it was asked."""
    text = (
        f'#!/bin/sh\necho asked >>"$0.asked"\n[ $(wc -l <"$0.asked") -gt {slow} ] || sleep 30\n'
        "printf 'LoadState=loaded\\nActiveState=active\\nSystemState=running\\nNFailedUnits=0\\n'\n"
    )
    return {
        "/run/systemd/system/x": "",
        "/etc/os-release": "ID=debian\n",
        "/proc/uptime": "10.0 10.0\n",
        "/proc/self/mountinfo": "",
        "/usr/bin/systemctl": {"text": text, "mode": "0755"},
    }


def test_a_systemctl_that_does_not_answer_is_asked_once_more(
    grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "SYSTEMCTL_S", (2.0, 20.0))
    root = grow(systemctl(slow=1))
    request = {"units": ["ssh.service"], "resources": [{"kind": "unit", "name": "ssh.service"}]}
    facts = collect.document(ask(root, areas=["units", "resources"], **request))
    assert not {"units", "resources"} & set(facts["errors"])
    assert facts["units"]["ssh.service"]["active"] == "active"
    assert facts["resources"][0]["active"] == "active"


def test_one_that_never_answers_is_asked_twice_and_costs_the_host_no_other_fact(
    grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []

    def ended(argv: Sequence[str], timeout: float) -> tuple[int, str, str]:
        given.append(timeout)
        return really(argv, timeout)

    really = command.ended
    monkeypatch.setattr(command, "ended", ended)
    monkeypatch.setattr(asking, "SYSTEMCTL_S", (0.2, 0.4))
    facts = collect.document(ask(grow(systemctl(slow=99)), areas=["os"]))
    assert facts["errors"]["os"] == "systemctl did not answer within 0.4 s"
    assert (facts["os"]["id"], facts["os"]["state"]) == ("debian", "")
    assert given == [0.2, 0.4]


def test_one_that_fails_is_not_asked_again(grow: Grow) -> None:
    root = grow(systemctl(slow=0))
    Path(root, "usr/bin/systemctl").write_text('#!/bin/sh\necho asked >>"$0.asked"\nexit 1\n')
    assert collect.document(ask(root, areas=["os"]))["errors"]["os"] == "systemctl failed with 1"
    assert Path(root, "usr/bin/systemctl.asked").read_text() == "asked\n"


def test_there_is_time_to_ask_systemctl_twice() -> None:
    twice = sum(asking.SYSTEMCTL_S)
    assert 2 * asking.SLOW_S < collect.WHOLE_S < DEADLINE
    given = {area: collect.AREAS[area][1] for area in ("os", "units", "receipts", "resources")}
    assert {area: seconds for area, seconds in given.items() if not twice < seconds < DEADLINE} == {}  # fmt: skip
