"""Names that users give to mount points, accounts and remarks stay what they are: text of one line."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.probe import collect, places
from appliance.probe.accounts import Accounts
from appliance.probe.ask import Ask, Once
from appliance.probe.collectors import filesystems, system
from appliance.probe.lines import lines_of
from appliance.probe.mounts import rows
from appliance.probe.state import Observer

Grow = Callable[[dict[str, Any]], str]
ROOT = b"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
CGROUP = b"30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
ODD = (
    "\u2028".encode(),
    "\u0085".encode(),
    b"\r",
    b"\x0c",
    b"\x0b",
    b"\x1c",
    b"\xff\xfe",
    b"\r99 22 8:1 / / ro - tmpfs x ro",
)
POD = b"90 22 8:1 /a%b /var/lib/kubelet/pods/1/volume-subpaths/d/a%b rw - ext4 /dev/sda1 rw\n"


def grown(grow: Grow, table: bytes) -> Ask:
    root = grow({"/etc/os-release": "ID=debian\n", "/proc/self/mountinfo": ""})
    (Path(root) / "proc/self/mountinfo").write_bytes(table)
    return Ask({}, root)


@pytest.mark.parametrize("odd", ODD)
def test_a_mount_point_with_any_byte_costs_nothing(grow: Grow, odd: bytes) -> None:
    name = odd.replace(b" ", b"\\040")
    ask = grown(grow, ROOT + POD % (name, name) + CGROUP)
    found = filesystems.mounts(ask)
    assert [*found][::2] == ["/", "/sys/fs/cgroup"]
    assert os.fsencode([*found][1]).endswith(b"/a" + odd)
    assert (found["/"].read_only, found["/"].source) == (False, "/dev/sda1")
    assert system.collect(ask)["os"]["cgroup"] == "v2"
    assert [one["at"] for one in filesystems.collect(ask)["filesystems"]] == ["/"]
    assert "filesystems" not in ask.errors


@pytest.mark.parametrize(
    "line", [b"nonsense\n", b"1 2 3\n", b"90 22 8:1 / /x rw\n", b"90 22 8:1 / x rw - ext4 a rw\n"]
)
def test_a_line_that_is_none_costs_that_line_and_is_told(grow: Grow, line: bytes) -> None:
    ask = grown(grow, line + ROOT)
    assert [one["at"] for one in filesystems.collect(ask)["filesystems"]] == ["/"]
    assert ask.errors == {"filesystems": "/proc/self/mountinfo has 1 line that names no mount"}
    assert system.cgroup(line + CGROUP) == "v2"


def test_what_the_kernel_escapes_is_read_as_it_was_named() -> None:
    ((row,), odd) = rows(
        b"9 2 8:1 / /a\\040b\\011\\012\\043\\134040 ro,nosuid - fuse.x \\043s ro\n"
    )
    assert (row.at, row.source, odd) == ("/a b\t\n#\\040", "#s", 0)
    assert "nosuid" in row.options


def test_a_source_without_a_name_is_a_mount_as_any_other() -> None:
    ((row,), odd) = rows(b"9 2 0:40 / /mnt rw -  tmpfs  rw\n".replace(b"-  ", b"- "))
    assert (row.type, row.source, row.of_all, odd) == ("tmpfs", "", ["rw"], 0)


@pytest.mark.parametrize("odd", ODD)
def test_what_people_serve_is_known_beside_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: bytes
) -> None:
    name = odd.replace(b" ", b"\\040")
    served = b"91 22 0:50 / /home/a%b rw - fuse.sshfs x rw,user_id=1000,group_id=0\n" % name
    table = tmp_path / "mountinfo"
    table.write_bytes(POD % (name, name) + b"nonsense\n" + served)
    monkeypatch.setattr(places, "MOUNTS", str(table))
    monkeypatch.setattr(places, "_PEOPLE", [])
    (found,) = places.of_people()
    assert os.fsencode(found) == b"/home/a" + odd


def test_a_document_with_a_name_that_is_no_text_can_be_read(grow: Grow) -> None:
    ask = grown(grow, ROOT + b"90 22 8:9 / /data\xff rw - ext4 /dev/sdb rw\n")
    found = filesystems.collect(ask)
    said = json.dumps([found, ask.errors], ensure_ascii=False).encode("utf-8", "replace")
    assert json.loads(said)


@pytest.mark.parametrize("end", ["\u2028", "\u0085", "\r", "\f", "\v", "\x1c"])
def test_a_remark_of_a_user_is_no_account(grow: Grow, end: str) -> None:
    """chfn takes it into the fifth field (GECOS)."""
    passwd = f"root:x:0:0:root:/root:/bin/bash\neve:x:1001:1001:Eve{end}evil:x:0:0::/:/bin/sh,,,:/home/eve:/bin/sh\n"
    root = grow({"/etc/passwd": "", "/etc/group": "root:x:0:\n"})
    (Path(root) / "etc/passwd").write_text(passwd, encoding="utf-8", newline="")
    found = Accounts(Ask({}, root))
    assert [*found.users] == ["root", "eve"]
    assert found.owner(0) == "root"


def test_only_a_newline_ends_a_line() -> None:
    assert lines_of("a\u2028b\rc\nd\n") == ["a\u2028b\rc", "d"]
    assert lines_of("") == []
    assert lines_of("a\n\nb") == ["a", "", "b"]
    assert lines_of(b"a\rb\nc") == [b"a\rb", b"c"]


def test_a_surprise_is_the_problem_of_what_met_it(
    grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(ask: Ask) -> dict[str, Any]:
        raise IndexError("list index out of range")

    monkeypatch.setattr(filesystems, "collect", broken)
    found = collect.document(Ask({"areas": ["filesystems"]}, grow({})))
    assert "area filesystems" in found["errors"]["filesystems"]
    assert "check for unusual names" in found["errors"]["filesystems"]
    assert found["cpu"]
    once = Once(lambda: broken(Ask({})))
    for _ in range(2):
        with pytest.raises(IndexError):
            once.get()
    observer = Observer(Ask({}), [])
    observer._mounts = once
    said = observer.look("mount", "/x")["error"]
    assert "mount /x failed on unexpected data" in said
