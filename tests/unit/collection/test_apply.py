"""appliance.host.apply: many resources in one call."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.support.collection_host import PLUGINS, Host

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


@pytest.mark.parametrize("installs", [True, False])
def test_a_dry_run_validates_no_file_by_what_it_would_have_installed_before(
    apply: Run, host: Host, plugin: Plugin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, installs: bool
) -> None:  # fmt: skip
    said = json.dumps({"changed": installs})
    monkeypatch.setattr(plugin("module_utils.resources.packages"), "main", lambda: sys.stdout.write(said))  # fmt: skip
    host.answer("sh -n", (1, "", "User does not exist"))
    place = str(tmp_path / "file")
    item = {"path": place, "owner": "root", "group": "root", "validate": "sh -n %s"}
    files = entry("f", "files", files=[item], contents=json.dumps({place: "eA=="}))
    answer = apply(entry("p", "packages", present=["x"]), files, check=True)
    assert answer.get("failed", False) is not installs
    assert bool(host.calls) is not installs
    host.calls.clear()
    assert "User does not exist" in apply(entry("p", "packages", present=["x"]), files)["msg"]


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
    assert (said["entry"], said["msg"]) == ("b", 'needs the answer of "a", which did not run')
    assert host.calls == []


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("v1.35.4\n", ""),
        ("v1.3.9\n", "kubeadm: v1.3.9"),
        ("\n", "kubeadm: no ^v1\\.35([.]|$) in its output"),
    ],
)
def test_what_is_to_be_printed_is_a_pattern(apply: Run, host: Host, printed: str, said: str) -> None:  # fmt: skip
    host.answer("kubeadm", (0, printed, ""))
    assert apply(runs("k", "kubeadm", prints=r"^v1\.35([.]|$)")).get("msg", "") == said


def test_an_output_without_a_word_may_be_wrong_too(apply: Run, host: Host) -> None:
    host.answer("plan", (0, "--\n", ""))
    assert apply(runs("p", "plan", lacks="-+"))["msg"] == "plan: '--' in its output"


@pytest.mark.parametrize(
    ("answered", "said"),
    [
        ((1, "", "error: the server doesn't have a resource type"), ""),
        ((1, "", "Unable to connect"), "kubectl: Unable to connect"),
        # What it was to print is asked of a program that ended well.
        ((0, "", "doesn't have a resource type"), "kubectl: doesn't have a resource type"),
        ((0, "True\n", ""), ""),
    ],
)
def test_a_failure_may_be_as_good_as_the_output(apply: Run, host: Host, answered: tuple[int, str, str], said: str) -> None:  # fmt: skip
    host.answer("kubectl", answered)
    wanted = {"lines": ["True"], "tolerates": "doesn't have a resource type"}
    assert apply(runs("k", "kubectl", **wanted)).get("msg", "") == said


@pytest.mark.parametrize("made", [True, False])
def test_a_command_is_known_to_have_run_by_any_file_of_its_kind(apply: Run, host: Host, tmp_path: Path, *, made: bool) -> None:  # fmt: skip
    host.answer("save", (0, "", ""))
    (tmp_path / ("a.snapshot" if made else "a.part")).touch()
    answer = apply(runs("s", "save", creates=f"{tmp_path}/*.snapshot", changes="always"))
    assert (answer["changed"], host.calls) == (not made, [] if made else ["save"])


def test_a_command_may_not_print_what_is_wrong(apply: Run, host: Host) -> None:
    host.answer("plan", (0, '"state": "unchanged"', ""), (0, '"state": "divided"', ""))
    asked = runs("p", "plan", lacks='"state": "(?!unchanged)')
    assert not apply(asked).get("failed")
    assert apply(asked)["msg"] == 'plan: "state": "divided"'


def test_a_host_whose_system_is_known_is_not_asked(plugin: Plugin, tmp_path: Path) -> None:
    (tmp_path / "vars").mkdir()
    (tmp_path / "vars/Debian.yml").write_text("{}")
    action = object.__new__(plugin("action.apply").ActionModule)
    asked: list[str] = []

    def setup(name: str, *_: object, **__: object) -> dict[str, Any]:
        asked.append(name)
        return {"ansible_facts": {"ansible_os_family": "Debian"}}

    action._execute_module = setup
    known = {"distribution": "Debian", "distribution_major_version": "12", "os_family": "Debian"}
    assert action._facts({"appliance_system": known}) == known
    assert asked == []
    assert action._facts({}) == {}
    assert action._facts({"role_path": str(tmp_path)}) == {"os_family": "Debian"}
    assert asked == ["ansible.builtin.setup"]


def test_entries_share_what_jinja_has_loaded_unless_one_has_variables_of_its_own(
    plugin: Plugin,
) -> None:
    action = object.__new__(plugin("action.apply").ActionModule)
    made: list[dict[str, Any]] = []

    class Templar:
        def evaluate_conditional(self, condition: object) -> object:
            return condition

        def template(self, value: object) -> object:
            return value

    def copied(variables: dict[str, Any]) -> Templar:
        made.append(variables)
        return Templar()

    own = {"name": "b", "command": {"argv": ["b"]}, "vars": {"x": 2}}
    resources = [{"name": "a", "command": {"argv": ["a"]}}, own]
    refuse = [{"when": False, "message": ""}]
    action._with = copied
    action._task = SimpleNamespace(args={"refuse": refuse, "resources": resources})
    common = copied({"x": 1})
    assert action._refusal(common) == ""
    assert [one["name"] for one in action._settled({"x": 1}, common)] == ["a", "b"]
    assert made == [{"x": 1}, {"x": 2}]
