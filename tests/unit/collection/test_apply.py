"""appliance.host.apply: many resources in one call."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.collection.conftest import PLUGINS, Host

Run = Callable[..., dict[str, Any]]
Plugin = Callable[[str], ModuleType]


def entry(name: str, resource: str, /, **more: Any) -> dict[str, Any]:
    """One entry as the action plugin hands it over."""
    given = {
        "name": name,
        "resource": resource,
        "after_change": [],
        "ignore_failure": False,
        "pauses_for": "",
    }
    after = {key: more.pop(key) for key in given if key in more}
    return {**given, **after, "arguments": more}


@pytest.fixture
def apply(run: Run) -> Callable[..., dict[str, Any]]:
    return lambda *entries, **flags: run("apply", resources=json.dumps(entries), **flags)


def runs(name: str, *argv: str, **more: Any) -> dict[str, Any]:
    return entry(name, "command", argv=list(argv), **more)


def test_entries_are_applied_in_order(apply: Run, host: Host) -> None:
    host.answer("one", (0, "", ""))
    host.answer("two", (0, "said", ""))
    answer = apply(runs("a", "one"), runs("b", "two", changes="output"))
    assert host.calls == ["one", "two"]
    assert answer["changed"] is True
    assert {name: said["changed"] for name, said in answer["done"].items()} == {"a": False, "b": True}  # fmt: skip


def test_the_first_failure_ends_the_call_and_names_its_entry(apply: Run, host: Host) -> None:
    host.answer("one", (0, "x", ""))
    host.answer("two", (3, "", "error: it is broken\n"))
    answer = apply(runs("a", "one", changes="always"), runs("b", "two"), runs("c", "three"))
    assert (answer["failed"], answer["entry"]) == (True, "b")
    assert answer["msg"] == "two: error: it is broken"
    assert answer["changed"] is True
    assert host.calls == ["one", "two"]


def test_a_failure_that_counts_for_nothing_ends_nothing(apply: Run, host: Host) -> None:
    host.answer("one", (1, "", "no"))
    host.answer("two", (0, "", ""))
    answer = apply(runs("a", "one", ignore_failure=True), runs("b", "two"))
    assert not answer.get("failed")
    assert answer["done"]["a"]["failed"] is True
    assert host.calls == ["one", "two"]


@pytest.mark.parametrize(("output", "ran"), [("x", True), ("", False)])
def test_an_entry_waits_for_a_change_of_another(apply: Run, host: Host, output: str, *, ran: bool) -> None:  # fmt: skip
    host.answer("one", (0, output, ""))
    host.answer("two", (0, "", ""))
    apply(runs("a", "one", changes="output"), runs("b", "two", after_change=["a"]))
    assert ("two" in host.calls) is ran


def test_a_defect_of_one_resource_is_told_with_its_name(
    apply: Run, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise KeyError("units")

    monkeypatch.setattr(plugin("module_utils.resources.units"), "main", broken)
    answer = apply(entry("service | Run", "units", units=[]))
    assert (answer["entry"], answer["msg"]) == ("service | Run", "KeyError: 'units'")
    assert "in broken" in answer["traceback"]


def test_check_mode_reaches_every_resource(apply: Run, host: Host, tmp_path: Path) -> None:
    place = tmp_path / "file"
    wanted = {"path": str(place), "mode": "0644", "owner": "root", "group": "root"}
    files = entry("f", "files", files=[wanted], contents=json.dumps({str(place): "eA=="}))
    host.answer("look", (0, "", ""))
    answer = apply(files, runs("w", "write"), runs("l", "look", looks=True), check=True, diff=True)
    assert (answer["changed"], place.exists()) == (True, False)
    assert host.calls == ["look"]
    assert [d["after_header"] for d in answer["diff"]] == [f"{place} (absent -> file)"]
    assert answer["resources"][0]["name"] == str(place)


def test_what_a_resource_refuses_is_said_in_its_words(apply: Run) -> None:
    answer = apply(entry("f", "files", files=[{"path": "etc/x"}]))
    assert answer["msg"] == "etc/x: the path must be absolute"


def test_unknown_arguments_are_refused(apply: Run) -> None:
    answer = apply(entry("f", "files", fails="x"))
    assert answer["entry"] == "f"
    assert "Unsupported parameters" in answer["msg"]


def test_a_command_is_tried_until_it_prints_what_is_awaited(apply: Run, host: Host) -> None:
    host.answer("ping", (0, "is DOWN", ""), (0, "is UP", ""))
    answer = apply(runs("p", "ping", prints="is UP", attempts=3, delay=0))
    assert not answer.get("failed")
    assert host.calls == ["ping", "ping"]


def test_what_never_prints_it_is_told_in_the_roles_words(apply: Run, host: Host) -> None:
    host.answer("ping", (0, "is DOWN", ""))
    answer = apply(runs("p", "ping", prints="is UP", attempts=2, delay=0, fails="slurmctld"))
    assert answer["msg"] == "slurmctld: ping: is DOWN"


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        ("active\nactive\n", ""),
        ("active\nfailed\n", "prints active, failed"),
        # A word within a word is not the word.
        ("inactive\nactive\n", "prints inactive, active"),
        ("", "prints nothing"),
    ],
)
def test_what_must_print_certain_lines_prints_all_of_them(apply: Run, host: Host, printed: str, why: str) -> None:  # fmt: skip
    host.answer("systemctl", (0 if printed.startswith("active") else 3, printed, ""))
    answer = apply(runs("p", "systemctl", lines=["active", "active"]))
    assert answer.get("msg", "") == (f"systemctl: {why}" if why else "")


@pytest.mark.parametrize(
    ("answered", "said"),
    [
        ((0, "munge\nslurm\nslurm\n", ""), ""),
        ((0, "slurm-devel\nmunge\n", ""), "nobody offers slurm: do"),
        ((0, "", ""), "nobody offers munge, slurm: do"),
        # What cannot be read offers nothing that is known.
        ((1, "", "Error: no mirror"), "dnf: Error: no mirror"),
    ],
)
def test_what_a_list_lacks_is_named(apply: Run, host: Host, answered: tuple[int, str, str], said: str) -> None:  # fmt: skip
    host.answer("dnf", answered)
    look = runs("l", "dnf", looks=True, lists=["munge", "slurm"], unlisted="nobody offers %s: do")
    assert apply(look, check=True).get("msg", "") == said


@pytest.mark.parametrize("failing", ["SELECT 1", "--user=root"])
@pytest.mark.parametrize("diff", [True, False])
def test_a_password_is_in_no_answer(
    apply: Run, host: Host, monkeypatch: pytest.MonkeyPatch, failing: str, *, diff: bool
) -> None:
    from ansible.module_utils import basic

    logged: list[str] = []
    monkeypatch.setattr(basic, "has_journal", False)
    monkeypatch.setattr(basic.syslog, "syslog", lambda _level, line: logged.append(line))
    monkeypatch.setattr(basic.AnsibleModule, "get_bin_path", lambda *_, **__: "/usr/bin/mariadb")
    host.answer("mariadb", (0, "", ""))
    host.answer("mariadb --defaults-file=/dev/stdin", (1, "", "hunter2-hunter2"))
    host.answer(
        "mariadb --no-auto-rehash --batch --skip-column-names --user=root",
        (int(failing == "--user=root"), "", "ERROR at 'hunter2-hunter2'"),
    )
    given = {"name": "slurm_acct_db", "user": "slurm", "password": "hunter2-hunter2"}
    answer = apply(entry("service | Make it", "command", argv=["mariadb"]), _database(given), diff=diff)  # fmt: skip
    assert answer["failed"]
    assert "slurm_acct_db" in answer["msg"]
    assert "hunter2" not in f"{answer} {logged}"


def _database(given: dict[str, str]) -> dict[str, Any]:
    """An entry of slurm_database, whose arguments have a name as entries do."""
    return {**entry("service | Database", "slurm_database"), "arguments": given}


def test_a_command_that_made_its_file_does_not_run_again(apply: Run, tmp_path: Path) -> None:
    answer = apply(runs("p", "false", creates=str(tmp_path), changes="always"))
    assert answer["changed"] is False


@pytest.mark.parametrize(
    ("text", "wanted", "why"),
    [
        (b"all is well", {"has": ["well"]}, ""),
        (b"all is ill", {"has": ["well"]}, "lacks well"),
        (b'{"health":"unknown"}', {"lacks": ["unknown"]}, "says unknown"),
    ],
)
def test_an_answer_is_judged_by_its_text(
    apply: Run,
    plugin: Plugin,
    monkeypatch: pytest.MonkeyPatch,
    text: bytes,
    wanted: dict[str, Any],
    why: str,
) -> None:
    class Answer:
        def __enter__(self) -> "Answer":
            return self

        def __exit__(self, *_: object) -> None: ...

        def read(self, _most: int) -> bytes:
            return text

    monkeypatch.setattr(plugin("module_utils.resources.answer"), "open_url", lambda *_, **__: Answer())  # fmt: skip
    answer = apply(entry("a", "answer", url="http://x/", **wanted))
    assert answer.get("msg", "") == (f"http://x/: {why}" if why else "")


def test_every_resource_is_packed() -> None:
    """Ansible packs what is imported by name alone."""
    plugins = Path(__import__(f"{PLUGINS}.module_utils", fromlist=["x"]).__path__[0])
    text = (plugins / "applying.py").read_text()
    names = {path.stem for path in (plugins / "resources").glob("*.py")} - {"__init__"}
    assert {name for name in names if f"        {name},\n" not in text} == set()


def test_a_call_pauses_where_the_host_must_reboot_first(apply: Run, plugin: Plugin, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr(plugin("module_utils.resources.swap"), "main", lambda: sys.stdout.write('{"reboot": true}'))  # fmt: skip
    host.answer("two", (0, "", ""))
    entries = (entry("a", "swap", pauses_for="reboot"), runs("b", "two", looks=True))
    assert apply(*entries)["paused"] == "a"
    assert host.calls == []
    assert "paused" not in apply(*entries, check=True)
    assert host.calls == ["two"]


def test_an_argument_may_be_what_an_entry_before_answered(apply: Run, host: Host) -> None:
    host.answer("version", (0, "580.1", ""))
    host.answer("gpus", (0, "580.1\n580.1\n", ""), (0, "580.1\n579\n", ""))
    asked = runs("b", "gpus", every_line={"answer_of": "a", "key": "out"})
    assert not apply(runs("a", "version"), asked).get("failed")
    assert apply(runs("a", "version"), asked)["msg"] == "gpus: 579 in place of 580.1"


def test_what_an_entry_that_did_not_run_would_answer_is_no_pass(apply: Run, host: Host) -> None:
    host.answer("gpus", (0, "579", ""))
    said = apply(runs("b", "gpus", every_line={"answer_of": "a", "key": "out"}))
    assert (said["entry"], said["msg"]) == ("b", "needs the answer of “a”, which did not run")
    assert host.calls == []


def test_a_command_may_not_print_what_is_wrong(apply: Run, host: Host) -> None:
    host.answer("plan", (0, '"state": "unchanged"', ""), (0, '"state": "divided"', ""))
    asked = runs("p", "plan", lacks='"state": "(?!unchanged)')
    assert not apply(asked).get("failed")
    assert apply(asked)["msg"] == 'plan: "state": "divided"'
