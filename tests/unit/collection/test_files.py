"""appliance.host.files on a folder: what is compared, replaced, refused and hidden."""

import base64
import errno
import grp
import json
import os
import pwd
import stat
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

Run = Callable[..., dict[str, Any]]
Plugin = Callable[[str], ModuleType]
ME = {"owner": pwd.getpwuid(os.geteuid()).pw_name, "group": grp.getgrgid(os.getegid()).gr_name}


def file(path: Path, content: str = "one\n", **more: Any) -> dict[str, Any]:
    """A wanted file that belongs to whoever runs the test."""
    return {"path": str(path), "content": content, **ME, **more}


@pytest.fixture
def run(run: Run, plugin: Plugin) -> Run:
    """Runs the module with what the action plugin makes of a task's arguments."""

    def packed(name: str, **given: Any) -> dict[str, Any]:
        files = given.pop("files", [])
        action = plugin("plugin_utils.rendering")
        contents = {item["path"]: action.inline(item) for item in files}
        contents = {path: data for path, data in contents.items() if data is not None}
        options = {key: given.pop(key) for key in ("check", "diff") if key in given}
        return run(name, **options, **action.arguments(given, files, contents))

    return packed


@pytest.fixture
def syslog(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the module would leave in the host's syslog."""
    from ansible.module_utils import basic

    said: list[str] = []
    monkeypatch.setattr(basic, "has_journal", False)
    monkeypatch.setattr(basic.syslog, "syslog", lambda _level, line: said.append(line))
    return said


def test_a_new_file_has_its_content_mode_and_parents(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a/b/c.conf"
    answer = run("files", files=[file(path, mode="0640")])
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("one\n", 0o640)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755
    assert answer["changed_paths"] == [str(path)]
    (managed,) = answer["resources"]
    assert (managed["kind"], managed["name"]) == ("file", str(path))
    assert managed["wanted"]["mode"] == "0640"
    assert managed["wanted"]["sha256"] == sha256(b"one\n").hexdigest()


def test_no_digest_of_a_secret_leaves_the_host(run: Run, tmp_path: Path) -> None:
    answer = run("files", files=[file(tmp_path / "key", secret=True)])
    assert "sha256" not in answer["resources"][0]["wanted"]


def test_the_second_run_changes_nothing_but_names_its_resources(run: Run, tmp_path: Path) -> None:
    wanted = {
        "files": [file(tmp_path / "f")],
        "directories": [{"path": str(tmp_path / "d"), **ME}],
        "links": [{"path": str(tmp_path / "l"), "target": "f"}],
    }
    assert run("files", **wanted)["changed"]
    before = (tmp_path / "f").stat()
    again = run("files", **wanted)
    assert not again["changed"]
    assert {item["kind"] for item in again["resources"]} == {"file", "directory", "link"}
    now = (tmp_path / "f").stat()
    assert (now.st_ino, now.st_mode, now.st_ctime_ns) == (
        before.st_ino,
        before.st_mode,
        before.st_ctime_ns,
    )


@pytest.mark.parametrize(("content", "mode"), [("other\n", "0644"), ("one\n", "0600")])
def test_content_and_mode_are_both_compared(
    run: Run, tmp_path: Path, content: str, mode: str
) -> None:
    run("files", files=[file(tmp_path / "f")])
    assert run("files", files=[file(tmp_path / "f", content, mode=mode)])["changed"]
    assert (tmp_path / "f").read_text() == content
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == int(mode, 8)


def test_check_mode_tells_and_does_not_do(run: Run, tmp_path: Path) -> None:
    answer = run(
        "files",
        check=True,
        diff=True,
        files=[file(tmp_path / "f")],
        directories=[{"path": str(tmp_path / "d"), **ME}],
        links=[{"path": str(tmp_path / "l"), "target": "x"}],
    )
    assert len(answer["changed_paths"]) == 3
    assert list(tmp_path.iterdir()) == []


def test_the_diff_shows_before_and_after(run: Run, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old\n")
    (diff,) = run("files", diff=True, files=[file(tmp_path / "f")])["diff"]
    assert (diff["before"], diff["after"]) == ("old\n", "one\n")


@pytest.mark.parametrize("validate", ["true", "grep -f %s /dev/null", "cat %s /dev/none"])
def test_a_secret_is_in_no_answer(run: Run, tmp_path: Path, validate: str) -> None:
    item = file(tmp_path / "key", "hunter2\nhunter3\n", secret=True, validate=validate)
    answer = run("files", diff=True, files=[item])
    assert "hunter" not in str(answer)
    assert answer.get("failed", False) is (validate != "true")


@pytest.mark.parametrize("secret", [True, False])
@pytest.mark.parametrize("content", ["hunter2", "a\nhunter2\n", 'it\'s "hunter2"\t\\\n', "h\n" * 9])
def test_no_content_reaches_the_hosts_log(
    run: Run, syslog: list[str], tmp_path: Path, content: str, secret: bool
) -> None:
    run("files", files=[file(tmp_path / "slurmdbd.conf", content, secret=secret)])
    (line,) = syslog
    assert "slurmdbd.conf" in line
    assert "contents=NOT_LOGGING_PARAMETER" in line
    assert "hunter2" not in line
    assert base64.b64encode(content.encode()).decode() not in line


def test_a_mistaken_argument_tells_no_content(run: Run, syslog: list[str], tmp_path: Path) -> None:
    answer = run("files", files=[file(tmp_path / "f", "hunter2\n", colour="red")])
    assert "colour" in answer["msg"]
    assert "hunter2" not in f"{answer} {syslog}"
    assert base64.b64encode(b"hunter2\n").decode() not in f"{answer} {syslog}"


def test_bytes_arrive_as_they_are_and_are_not_printed(run: Run, tmp_path: Path) -> None:
    data = bytes(range(256))
    text = base64.b64encode(data).decode()
    item = {"path": str(tmp_path / "f"), "content_base64": text, **ME}
    (diff,) = run("files", diff=True, files=[item])["diff"]
    assert (tmp_path / "f").read_bytes() == data
    assert (diff["before"], diff["after"]) == ("", "256 bytes\n")


def test_what_is_no_base64_is_refused_on_the_controller(plugin: Plugin) -> None:
    from ansible.errors import AnsibleActionFail

    with pytest.raises(AnsibleActionFail, match="/f: content_base64 is not base64"):
        plugin("plugin_utils.rendering").inline({"path": "/f", "content_base64": "hunter2!"})


PINNED = b"\x00enroot"
DIGEST = sha256(PINNED).hexdigest()


def test_a_pinned_file_that_is_there_needs_no_content(run: Run, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(PINNED)
    (tmp_path / "f").chmod(0o600)
    item = {"path": str(tmp_path / "f"), "sha256": DIGEST, **ME}
    answer = run("files", files=[item])
    assert answer["changed_paths"] == [str(tmp_path / "f")]
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "f").read_bytes() == PINNED
    assert run("files", files=[item])["changed"] is False


@pytest.mark.parametrize("there", [b"another", None])
def test_a_pinned_file_that_is_not_there_needs_content(run: Run, tmp_path: Path, there: bytes | None) -> None:  # fmt: skip
    if there is not None:
        (tmp_path / "f").write_bytes(there)
    item = {"path": str(tmp_path / "f"), "sha256": DIGEST, **ME}
    assert run("files", files=[item])["msg"].endswith("no content came from the controller")
    sent = {**item, "content_base64": base64.b64encode(PINNED).decode()}
    assert run("files", files=[sent])["changed"] is True
    assert (tmp_path / "f").read_bytes() == PINNED


class Action:
    """An action plugin whose host answers to sha256sum."""

    def __init__(self, said: str) -> None:
        self.said, self.asked = said, list[str]()

    def _low_level_execute_command(self, command: str) -> dict[str, str]:
        self.asked.append(command)
        return {"stdout": self.said}


def renderer(plugin: Plugin, folder: Path, action: Action) -> Any:
    """The controller's half, with sources in ``folder``."""
    rendering = plugin("plugin_utils.rendering")
    found = lambda _kind, source: str(folder / source)  # noqa: E731
    return rendering.Renderer(found, None, None, {}, partial(rendering.digests, action))


@pytest.mark.parametrize(
    ("said", "is_sent"),
    [
        (f"{DIGEST}  /opt/f x\n", False),
        (f"{'0' * 64}  /opt/f x\n", True),
        ("sha256sum: '/opt/f x': No such file or directory\n", True),
    ],
)
def test_a_pinned_file_is_sent_only_where_the_host_lacks_it(plugin: Plugin, tmp_path: Path, said: str, *, is_sent: bool) -> None:  # fmt: skip
    (tmp_path / "f").write_bytes(PINNED)
    action = Action(said)
    item = {"path": "/opt/f x", "src": "f", "template": False, "sha256": DIGEST}
    given = renderer(plugin, tmp_path, action).files({"files": [item]})
    wanted = {"/opt/f x": base64.b64encode(PINNED).decode()} if is_sent else {}
    assert json.loads(given["contents"]) == wanted
    assert given["files"] == [{"path": "/opt/f x", "sha256": DIGEST}]
    assert action.asked == ["sha256sum -- '/opt/f x'"]


def test_files_without_a_digest_ask_nothing_of_the_host(plugin: Plugin, tmp_path: Path) -> None:
    action = Action("")
    renderer(plugin, tmp_path, action).files({"files": [{"path": "/f", "content": "x"}]})
    assert action.asked == []


@pytest.mark.parametrize(("there", "why"), [(b"another", "its digest is "), (None, "No such file")])
def test_a_source_that_is_not_the_pinned_one_is_not_sent(
    plugin: Plugin, tmp_path: Path, there: bytes | None, why: str
) -> None:
    from ansible.errors import AnsibleActionFail

    if there is not None:
        (tmp_path / "f").write_bytes(there)
    item = {"path": "/opt/f", "src": "f", "template": False, "sha256": DIGEST}
    with pytest.raises(AnsibleActionFail, match=f"/opt/f: f: {why}"):
        renderer(plugin, tmp_path, Action("")).files({"files": [item]})


def test_a_refused_file_leaves_everything_as_it_was(run: Run, tmp_path: Path) -> None:
    (tmp_path / "b").write_text("old\n")
    answer = run(
        "files",
        files=[file(tmp_path / "a"), file(tmp_path / "b", "bad\n", validate="grep -q good %s")],
    )
    assert answer["failed"]
    assert answer["msg"].startswith(f"{tmp_path / 'b'}: refused by `grep -q good %s`")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"b": "old\n"}


@pytest.mark.parametrize("old", ["old\n", None])
def test_a_file_refused_in_its_place_is_put_back(run: Run, tmp_path: Path, old: str | None) -> None:
    path = tmp_path / "f"
    if old:
        path.write_text(old)
    answer = run("files", files=[file(path, validate=f"grep -q nothing {path}")])
    assert answer["failed"]
    assert [p.read_text() for p in tmp_path.iterdir()] == ([old] if old else [])


def test_a_file_accepted_in_its_place_stays_alone(run: Run, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old\n")
    run("files", files=[file(tmp_path / "f", validate=f"grep -q one {tmp_path / 'f'}")])
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"f": "one\n"}


def test_a_file_refused_in_its_place_takes_the_others_of_the_call_back(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "a").write_text("old\n")
    wanted = file(tmp_path / "b", validate=f"grep -q nothing {tmp_path / 'b'}")
    answer = run("files", files=[file(tmp_path / "a"), wanted, file(tmp_path / "c")])
    assert answer["failed"]
    assert (answer["changed"], answer["changed_paths"]) == (False, [])
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a": "old\n"}


@pytest.mark.parametrize(("content", "refused"), [("good\n", False), ("bad\n", True)])
def test_a_validation_may_be_given_an_environment(
    run: Run, tmp_path: Path, content: str, refused: bool
) -> None:
    validate = """env CONF=%s sh -c 'grep -q good "$CONF"'"""
    item = file(tmp_path / "f", content, validate=validate)
    assert run("files", files=[item]).get("failed", False) is refused
    assert run("files", files=[item], check=True).get("failed", False) is refused


def test_a_program_that_is_yet_to_be_installed_is_not_asked_in_check_mode(
    run: Run, tmp_path: Path
) -> None:
    item = file(tmp_path / "f", validate="env CONF=%s no-such-program --check")
    assert not run("files", files=[item], check=True).get("failed", False)


def test_a_link_in_the_way_is_replaced_not_followed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("mine\n")
    (tmp_path / "f").symlink_to("target")
    run("files", files=[file(tmp_path / "f")])
    assert not (tmp_path / "f").is_symlink()
    assert (tmp_path / "target").read_text() == "mine\n"


def test_a_link_takes_the_place_of_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "l").write_text("x")
    run("files", links=[{"path": str(tmp_path / "l"), "target": "elsewhere"}])
    assert (tmp_path / "l").readlink() == Path("elsewhere")


def test_absent_removes_once(run: Run, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    item = {"path": str(tmp_path / "f"), "state": "absent"}
    assert run("files", files=[item])["changed"]
    answer = run("files", files=[item])
    assert (answer["changed"], answer["resources"]) == (False, [])


def test_a_full_disk_is_named_and_leaves_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    answer = run("files", files=[file(tmp_path / "f")])
    assert answer["msg"] == f"{tmp_path / 'f'}: no space left on device"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"owner": "nobody-like-this"}, "owner nobody-like-this is not a user"),
        ({"group": "no-such-group"}, "group no-such-group is not a group"),
        ({"mode": "u=rw"}, "is not octal"),
    ],
)
def test_wrong_attributes_are_explained(
    run: Run, tmp_path: Path, item: dict[str, str], words: str
) -> None:
    answer = run("files", files=[file(tmp_path / "f", **item)])
    assert words in answer["msg"]
    assert list(tmp_path.iterdir()) == []


def test_relative_paths_are_refused(run: Run) -> None:
    assert "must be absolute" in run("files", files=[file(Path("a/b"))])["msg"]


def test_an_owner_who_is_yet_to_come_is_no_error_in_check_mode(run: Run, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\n")
    answer = run("files", check=True, files=[file(tmp_path / "f", owner="nobody-like-this")])
    assert answer["changed"]


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (
            "/x:3:5-9: Error: Could not resolve\n  ip daddr\n     ^^^^^\n",
            "/x:3:5-9: Error: Could not resolve",
        ),
        ("one\ntwo\n", "two"),
        ("\n", ""),
    ],
)
def test_the_line_that_tells_is_found(
    plugin: Callable[[str], ModuleType], said: str, line: str
) -> None:
    assert plugin("module_utils.outcome").telling_line(said) == line


class FakeTemplar:
    """Counts the environments of Jinja that are made."""

    def __init__(self) -> None:
        self.made: list[list[str]] = []

    def copy_with_new_env(self, searchpath: list[str], **_: object) -> "FakeTemplar":
        """An environment of its own."""
        self.made.append(searchpath)
        return self

    def template(self, text: str, **_: object) -> str:
        """As it stands."""
        return text


def test_templates_of_a_folder_share_what_jinja_has_loaded(plugin: Plugin, tmp_path: Path) -> None:
    paths = ["etc/one", "etc/two", "etc/more/three"]
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{path}.j2").write_text(path)

    class Loader:
        def get_text_file_contents(self, path: str) -> str:
            return Path(path).read_text()

    templar = FakeTemplar()
    find = lambda _kind, source: str(tmp_path / source)  # noqa: E731
    renderer = plugin("plugin_utils.rendering").Renderer(find, Loader(), templar, {}, dict)
    assert [renderer.content({"path": f"/{path}"}) for path in paths] == [p.encode() for p in paths]
    assert [made[-1] for made in templar.made] == [f"{tmp_path}/etc", f"{tmp_path}/etc/more"]
