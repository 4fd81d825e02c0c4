"""Asking hosts: one round trip each, whatever is asked; a host that does not answer is a value."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from appliance.adapters.process import Completed
from appliance.engine.look import gather as gathering
from appliance.engine.look.gather import Unanswered, ask, gather
from appliance.engine.look.probe_requests import request_for
from appliance.engine.session import Session
from appliance.errors import OutOfFiles
from appliance.probe.bundle import compiled, payload, program
from appliance.text import LONGEST
from tests.support.engine_fakes import FakeHosts
from tests.support.engine_session import hosts, recorder, session
from tests.support.facts import facts_of

__all__ = ["hosts", "recorder", "session"]

GPU = {"index": 0, "uuid": "GPU-1", "name": "A100", "bus_id": "0", "memory": 1}


def test_everything_is_asked_in_one_round_trip(session: Session, hosts: FakeHosts) -> None:
    def answer(host: str, argv: Sequence[str]) -> Completed:
        return Completed(tuple(argv), 0, facts_of(host).model_dump_json(), "")

    hosts.answer = answer
    names = [host.name for host in session.site.hosts]
    found = gather(hosts, {name: request_for(session, name) for name in names})
    assert sorted(call[0] for call in hosts.calls) == sorted(names)
    assert list(found.facts) == names


@pytest.mark.parametrize(("many", "left"), [(2, []), (1, ["gpu-1", "gpu-2"])])
def test_each_of_many_hosts_is_left_once_it_was_asked(
    many: int, left: list[str], hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "MANY", many)
    hosts.down.add("gpu-2")
    gather(hosts, {"gpu-1": {}, "gpu-2": {}})
    assert sorted(hosts.left) == left


@pytest.mark.parametrize(("few", "archive"), [(2, compiled), (1, program)])
def test_few_hosts_are_sent_bytecode_and_many_are_not(
    few: int,
    archive: Callable[[], bytes],
    hosts: FakeHosts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gathering, "FEW", few)
    gather(hosts, {"gpu-1": {}, "gpu-2": {}})
    assert [told for _, _, told in hosts.calls] == 2 * [payload({}, archive())]


def test_a_round_that_cannot_ask_a_host_says_why_and_blames_none(hosts: FakeHosts) -> None:
    def refuse(host: str, argv: Sequence[str]) -> Completed:
        raise OutOfFiles("this process may hold 64 files open", "ulimit -n 8192")

    hosts.answer = refuse
    with pytest.raises(OutOfFiles):
        gather(hosts, {"gpu-1": {}, "gpu-2": {}})
    asked = ask(hosts, "gpu-1", {})
    assert isinstance(asked, Unanswered)
    assert (asked.cause, asked.fix) == ("this process may hold 64 files open", "ulimit -n 8192")
    assert not asked.away


def test_an_answer_that_makes_no_sense_is_a_host_without_one(
    session: Session, hosts: FakeHosts
) -> None:
    hosts.answer = lambda host, argv: Completed(tuple(argv), 0, f"{{{host}?", "")
    found = gather(hosts, {"gpu-1": {}})
    assert found.facts == {}
    assert "cannot be read" in found.unanswered["gpu-1"].cause


ESCAPES = "\x1b[2J\x1b]0;pwned\x07\u202e"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "template as UUID": (
        {"gpus": {"driver": "", "nvml": "", "devices": [{**GPU, "uuid": "{{ x }}"}]}},
        "gpus.devices.0.uuid cannot be '{{ x }}'",
    ),
    "option as package": ({"packages": {"-oX=y": "1"}}, "cannot be '-oX=y'"),
    "two lines as version": ({"packages": {"a": "1\n2"}}, "packages.a cannot be '1\\n2'"),
    "command as interface": (
        {"interfaces": [{"name": "$(id)", "mtu": 1500, "state": "up"}]},
        "interfaces.0.name cannot be",
    ),
    "colons as GUID": (
        {"subnet_manager": {"state": "MASTER", "guid": ":::"}},
        "subnet_manager.guid cannot be ':::'",
    ),
    "path as unit": ({"units": {"../x": {"load": "", "active": ""}}}, "cannot be '../x'"),
    "number beyond any": ({"cpu_seconds": 1e300}, "cpu_seconds cannot be 1e+300"),
    "cores below none": (
        {"cpu": {"model": "x", "sockets": 1, "cores": -1, "threads": 1}},
        "cpu.cores cannot be -1",
    ),
    "field nobody knows": ({f"x{ESCAPES}": 1}, "is no fact"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_answer_with_what_is_no_fact_is_refused_in_one_line(
    case: str, session: Session, hosts: FakeHosts
) -> None:
    changes, said = REFUSED[case]
    sound = facts_of("gpu-1").model_dump(mode="json")

    def answer(host: str, argv: Sequence[str]) -> Completed:
        told = {**sound, **changes} if host == "gpu-2" else sound
        return Completed(tuple(argv), 0, json.dumps(told), "")

    hosts.answer = answer
    found = gather(hosts, {"gpu-1": {}, "gpu-2": {}})
    assert list(found.facts) == ["gpu-1"]
    missing = found.unanswered["gpu-2"]
    assert said in missing.cause
    assert missing.cause.isprintable()
    assert missing.fix
    assert not missing.away


BROKEN = {
    "deep": "[" * 100_000,
    "twice": '{"version": 1, "version": 1}',
    "list": "[]",
    "number": "1",
    "error": json.dumps({"error": ESCAPES}),
    "escapes": ESCAPES,
}


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize("code", [0, 1])
def test_a_broken_answer_costs_that_host_alone(
    case: str, code: int, session: Session, hosts: FakeHosts
) -> None:
    sound = facts_of("gpu-1").model_dump_json()
    hosts.answer = lambda host, argv: (
        Completed(tuple(argv), code, BROKEN[case], f"sudo: no\n{ESCAPES}")
        if host == "gpu-2"
        else Completed(tuple(argv), 0, sound, "")
    )
    found = gather(hosts, {"gpu-1": {}, "gpu-2": {}})
    assert list(found.facts) == ["gpu-1"]
    assert found.unanswered["gpu-2"].cause.isprintable()


def test_what_is_only_shown_is_cleaned_and_costs_no_host(
    session: Session, hosts: FakeHosts
) -> None:
    odd = facts_of("gpu-1").model_dump(mode="json")
    odd["cpu"]["model"] = f"AMD\x00 EPYC{ESCAPES}"
    odd["disks"] = [{"name": "sda", "size": 1, "serial": "N/A \x01"}]
    odd["errors"] = {"xids": "line\u2028two" + "x" * 100_000}
    hosts.answer = lambda host, argv: Completed(tuple(argv), 0, json.dumps(odd), "")
    facts = gather(hosts, {"gpu-1": {}}).facts["gpu-1"]
    assert facts.cpu.model.startswith("AMD\\x00 EPYC\\x1b[2J")
    assert facts.disks[0].serial == "N/A \\x01"
    assert facts.errors["xids"].startswith("line two")
    assert len(facts.errors["xids"]) == LONGEST


def test_what_a_login_script_prints_before_the_answer_hides_no_host(hosts: FakeHosts) -> None:
    noise = "*** Welcome to gpu-1 ***\n{not json\n\n"
    sound = facts_of("gpu-1").model_dump_json()
    hosts.answer = lambda host, argv: Completed(tuple(argv), 0, f"{noise}{sound}\n", "")
    assert list(gather(hosts, {"gpu-1": {}}).facts) == ["gpu-1"]


def test_a_login_script_that_ends_the_shell_is_named_by_what_it_printed(hosts: FakeHosts) -> None:
    hosts.answer = lambda host, argv: Completed(tuple(argv), 0, "*** Welcome ***\nbye\n", "")
    found = gather(hosts, {"gpu-1": {}}).unanswered["gpu-1"]
    assert "a login script printed" in found.cause
    assert "*** Welcome ***" in found.cause
    assert ".bashrc" in found.fix


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ("sudo: sorry, you must have a tty to run sudo", "!requiretty"),
        ("sudo: a password is required", "NOPASSWD"),
        ("bob is not in the sudoers file.", "NOPASSWD"),
        ("Unmatched '''.", "csh"),
        ("This account is currently not available.", "chsh -s /bin/sh"),
        ("Your account has expired; please contact your administrator", "chage"),
        ("sudo: unable to resolve host gpu-1", "/etc/hosts"),
        ("", "ForceCommand"),
        ("sh: 1: /usr/bin/python3: not found", "install Python"),
        ("what nobody knows", "by hand"),
        ("ValueError: x", "report this as a bug"),
    ],
)
def test_what_keeps_the_probe_from_running_has_a_remedy_of_its_own(
    said: str, fix: str, hosts: FakeHosts
) -> None:
    hosts.answer = lambda host, argv: Completed(tuple(argv), 1, "", said)
    found = gather(hosts, {"gpu-1": {}}).unanswered["gpu-1"]
    assert fix in found.fix
    assert ("bug" in found.fix) == ("Error:" in said)
