"""The look at every file that a host takes by itself: compared with its first, and told in a record of its own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.probe import weekly
from appliance.probe.ask import Ask
from appliance.probe.collectors.weekly import collect
from appliance.probe.posture import DEEP
from appliance.probe.problems import Unreadable

Grow = Callable[[dict[str, Any]], str]
NOTHING: dict[str, dict[str, str]] = {kind: {} for kind in DEEP}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where its record lies."""
    for name in ("FOLDER", "FIRST", "LAST"):
        own = getattr(weekly, name).replace("/var/lib/appliance/weekly", str(tmp_path / "weekly"))
        monkeypatch.setattr(weekly, name, own)
    return tmp_path / "weekly"


@pytest.fixture
def look(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """One look at a host that is so; what it leaves."""

    def once(**kinds: dict[str, str]) -> dict[str, Any]:
        found = {**NOTHING, **{k.replace("_", " "): v for k, v in kinds.items()}}
        monkeypatch.setattr(weekly, "seen", lambda _: found)
        assert weekly.main() == 0
        last: dict[str, Any] = json.loads((folder / "last.json").read_text())
        return last

    return once


def test_what_is_another_than_at_the_first_look_is_told_until_it_is_as_it_was(
    look: Callable[..., dict[str, Any]], folder: Path
) -> None:
    before = {"/usr/bin/su": "mode 4755, of root:root"}
    assert look(setuid_file=before)["changes"] == []
    changed = {"kind": "package file", "name": "/usr/bin/nproc", "then": "", "now": "content c7"}
    gone = {"kind": "setuid file", "name": "/usr/bin/su", "then": before["/usr/bin/su"], "now": ""}
    for _ in range(2):
        last = look(package_file={"/usr/bin/nproc": "content c7"})
        assert sorted(last["changes"], key=lambda c: c["kind"]) == [changed, gone]
    assert look(setuid_file=before)["changes"] == []
    assert {p.stat().st_mode & 0o777 for p in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_of_very_many_changes_the_rest_is_a_number(look: Callable[..., dict[str, Any]]) -> None:
    look()
    last = look(program={f"/opt/{n}": "x" for n in range(weekly.MOST + 7)})
    assert (len(last["changes"]), last["more"]) == (weekly.MOST, 7)


def test_a_look_that_could_not_be_taken_says_why(
    look: Callable[..., dict[str, Any]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look()

    def broken(_: Ask) -> dict[str, dict[str, str]]:
        raise Unreadable("dpkg failed with 2:\n no database")

    monkeypatch.setattr(weekly, "seen", broken)
    assert weekly.main() == 0
    last = json.loads((folder / "last.json").read_text())
    assert last["problem"] == "dpkg failed with 2: no database"
    assert "changes" not in last


def test_what_stages_left_is_not_looked_at(grow: Grow) -> None:
    own = {"kind": "file", "name": "/etc/ours"}
    receipt = {"version": 1, "stage": "base", "resources": [own]}
    receipt |= dict.fromkeys(("fingerprint", "written", "run", "appliance"), "x")
    root = grow(
        {
            "/etc/passwd": "root:x:0:0::/root:/bin/bash\n",
            "/etc/group": "root:x:0:\n",
            "/etc/shadow": "root:*:1::::::\n",
            "/etc/ours": "x",
            "/etc/theirs": "x",
            "/var/lib/appliance/receipts/base.json": json.dumps(receipt),
        }
    )
    found = weekly.seen(Ask({"deep": True}, root))["configuration file"]
    assert "/etc/theirs" in found
    assert "/etc/ours" not in found


PROGRAM = {"/usr/local/sbin/appliance-weekly": ""}
LAST = "/var/lib/appliance/weekly/last.json"


def test_the_probe_tells_the_last_look_and_its_age(grow: Grow) -> None:
    assert collect(Ask({}, grow({}))) == {"weekly": None}
    fresh = collect(Ask({}, grow(PROGRAM)))["weekly"]
    assert (fresh["looked"], fresh["age_s"] < 60) == (False, True)
    seen = collect(Ask({}, grow({LAST: json.dumps({"time": 1.0, "seconds": 3, "more": 0})})))
    assert seen["weekly"]["age_s"] > 1e9
    assert seen["weekly"]["seconds"] == 3
    with pytest.raises(Unreadable):
        collect(Ask({}, grow({LAST: "{"})))


def test_whatever_happens_its_record_says_so(
    look: Callable[..., dict[str, Any]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look()

    def broken(_: Ask) -> dict[str, dict[str, str]]:
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr(weekly, "seen", broken)
    assert weekly.main() == 0
    last = json.loads((folder / "last.json").read_text())
    assert last["problem"] == "RecursionError maximum recursion depth exceeded"


def test_what_was_not_looked_at_is_in_the_record_beside_what_was_found(
    look: Callable[..., dict[str, Any]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look(setuid_file={"/usr/bin/su": "mode 4755, of root:root"})

    def partly(ask: Ask) -> dict[str, dict[str, str]]:
        ask.problem("posture", "package file: dpkg: no answer")
        return {kind: {} for kind in DEEP if kind != "package file"}

    monkeypatch.setattr(weekly, "seen", partly)
    assert weekly.main() == 0
    last = json.loads((folder / "last.json").read_text())
    assert last["problem"] == "package file: dpkg: no answer"
    assert [change["name"] for change in last["changes"]] == ["/usr/bin/su"]


def test_many_changes_of_one_owner_hide_none_of_another(
    look: Callable[..., dict[str, Any]],
) -> None:
    look()
    heap = {f"/home/mallory/{n:04}": "mode 4755, of mallory:mallory" for n in range(900)}
    own = {"/usr/bin/zz": "mode 4755, of root:root"}
    last = look(setuid_file={**heap, **own}, package_file={"/usr/bin/nproc": "content c7"})
    assert {"/usr/bin/zz", "/usr/bin/nproc"} <= {change["name"] for change in last["changes"]}
    assert last["more"] == 902 - weekly.MOST
