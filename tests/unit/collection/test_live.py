"""appliance.host.live against a pretended kernel: the name is taken, a table that differs is loaded, all is wanted."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.collection_host import Host

Run = Callable[..., dict[str, Any]]
LIST = "nft --stateless --numeric-priority --numeric-protocol list table inet a"
GOOD = "table inet a {\n\tchain input {\n\t}\n}\n"
TABLE = {"name": "inet a", "file": "/etc/a.nft"}
WANTED = {"loaded": True, "sha256": hashlib.sha256(GOOD.encode()).hexdigest()}


@pytest.fixture
def names(plugin: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names the host has had, the last one counts."""
    found = ["old"]
    module = plugin("module_utils.resources.live")
    monkeypatch.setattr(module.socket, "gethostname", lambda: found[-1])
    monkeypatch.setattr(module.socket, "sethostname", found.append)
    return found


def test_a_table_that_is_gone_or_was_changed_is_loaded(run: Run, host: Host) -> None:
    for found in ((1, "", "Error: No such file"), (0, GOOD.replace("input", "other"), "")):
        host.answer("nft -f", (0, "", ""))
        host.answer(LIST, found, (0, GOOD, ""))
        answer = run("live", tables=[TABLE])
        assert (answer["changed"], answer["loaded"]) == (True, ["inet a"])
        assert answer["resources"] == [{"kind": "nftables", "name": "inet a", "wanted": WANTED}]


def test_a_table_that_is_as_written_is_no_change(run: Run, host: Host) -> None:
    host.answer("nft -f", (0, "", ""))
    host.answer(LIST, (0, GOOD, ""))
    answer = run("live", tables=[TABLE])
    assert (answer["changed"], answer["loaded"]) == (False, [])
    assert answer["resources"][0]["wanted"] == WANTED


def test_check_mode_loads_nothing(run: Run, host: Host) -> None:
    host.answer(LIST, (1, "", ""))
    run("live", check=True, tables=[TABLE])
    assert host.calls == [LIST]


def test_a_file_that_cannot_be_loaded_says_why(run: Run, host: Host) -> None:
    host.answer("nft -f", (1, "", "/etc/a.nft:3:1-4: Error: syntax error\nfoo\n^^^\n"))
    host.answer(LIST, (0, GOOD, ""))
    assert "syntax error" in run("live", tables=[TABLE])["msg"]


def test_a_file_that_makes_no_such_table_is_a_problem(run: Run, host: Host) -> None:
    host.answer("nft -f", (0, "", ""))
    host.answer(LIST, (1, "", ""))
    assert run("live", tables=[TABLE])["msg"] == "/etc/a.nft: makes no table inet a"


def test_the_name_is_taken_once(run: Run, names: list[str]) -> None:
    assert run("live", hostname="new")["changed"]
    assert not run("live", hostname="new")["changed"]
    assert names == ["old", "new"]


def test_sshd_is_only_told_what_it_must_go_by(run: Run) -> None:
    answer = run("live", sshd={"permitrootlogin": "no"})
    wanted = {"kind": "sshd", "name": "permitrootlogin", "wanted": {"value": "no"}}
    assert (answer["changed"], answer["resources"]) == (False, [wanted])


def test_strangers_are_moved_away_and_kept(
    run: Run, host: Host, plugin: Callable[[str], ModuleType], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    module = plugin("module_utils.resources.live")
    units = str(tmp_path / "units") + "/"
    monkeypatch.setattr(module, "KEPT_AT", str(tmp_path / "purged"))
    monkeypatch.setattr(module, "SYSTEMD", (units,))
    monkeypatch.setattr(module, "_unit", lambda path: "x.service" if path.startswith(units) else "")
    drop_in, rule = tmp_path / "units/x.service.d/zz.conf", tmp_path / "sudoers/zz"
    for path in (drop_in, rule):
        path.parent.mkdir(parents=True)
        path.write_text("text")
    host.answer("systemctl", (0, "", ""))
    given = {"strangers": [str(drop_in), str(rule), str(tmp_path / "gone already")]}
    assert run("live", check=True, **given)["changed"]
    assert rule.exists()
    assert run("live", **given)["changed"]
    assert host.calls == ["systemctl daemon-reload", "systemctl try-restart x.service"]
    (kept,) = (tmp_path / "purged").iterdir()
    assert (kept / str(rule)[1:]).read_text() == "text"
    assert not rule.exists()
    assert not run("live", **given)["changed"]


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        ("/etc/systemd/system/slurmd.service.d/zz.conf", "slurmd.service"),
        ("/run/systemd/system/slurmd.service", "slurmd.service"),
        ("/etc/systemd/system/service.d/zz.conf", ""),
        ("/etc/systemd/system/o@.service.d/zz.conf", ""),
        ("/etc/sudoers.d/zz", ""),
    ],
)
def test_the_unit_a_file_is_of(plugin: Callable[[str], ModuleType], path: str, unit: str) -> None:
    assert plugin("module_utils.resources.live")._unit(path) == unit


MOUNTED = """1 0 8:1 / / rw,nodev - ext4 /dev/sda1 rw
2 1 8:1 /var/s {at} rw,{flags}relatime shared:1 - ext4 /dev/sda1 rw
"""
BIND = {"what": "/var/s", "options": "bind"}
OWN = {"what": "/dev/sdb", "options": "noatime,nosuid"}


@pytest.mark.parametrize(
    ("item", "flags", "remount"),
    [
        (BIND, "nodev,", ""),
        (BIND, "noexec,nodev,", "remount,bind,rw,exec,suid,nodev"),
        (BIND, "", "remount,bind,rw,exec,suid,nodev"),
        (OWN, "nosuid,", ""),
        (OWN, "nosuid,noexec,", "remount,rw,exec,nosuid,dev"),
        (OWN, "ro,", "remount,rw,exec,nosuid,dev"),
    ],
)
def test_a_mount_forbids_what_its_unit_says(
    run: Run,
    host: Host,
    plugin: Callable[[str], ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    item: dict[str, str],
    flags: str,
    remount: str,
) -> None:
    at = str(tmp_path / "scratch")
    (tmp_path / "mounts").write_text(MOUNTED.format(at=at, flags=flags))
    monkeypatch.setattr(plugin("module_utils.resources.live"), "MOUNTS", str(tmp_path / "mounts"))
    host.answer("mount", (0, "", ""))
    answer = run("live", mounts=[{"at": at, **item}])
    wanted = ["nodev"] if item is BIND else ["nosuid"]
    assert answer["resources"] == [
        {"kind": "mount", "name": at, "wanted": {"mounted": True, "flags": wanted}}
    ]
    assert answer["changed"] is bool(remount)
    assert host.calls == ([f"mount -o {remount} {at}"] if remount else [])


@pytest.mark.parametrize("name", ["\u2028", "\r", "\f", "\x85", b"\xff"])
def test_what_users_call_their_mounts_costs_none_of_the_others(
    run: Run,
    host: Host,
    plugin: Callable[[str], ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str | bytes,
) -> None:
    at, odd = str(tmp_path / "scratch"), name if isinstance(name, bytes) else name.encode()
    pod = b"90 22 8:1 /a%b /var/lib/kubelet/pods/1/a%b rw - ext4 /dev/sda1 rw\n" % (odd, odd)
    table = MOUNTED.format(at=at, flags="").encode()
    (tmp_path / "mounts").write_bytes(pod + b"nonsense\n" + table)
    monkeypatch.setattr(plugin("module_utils.resources.live"), "MOUNTS", str(tmp_path / "mounts"))
    host.answer("mount", (0, "", ""))
    answer = run("live", mounts=[{"at": at, **OWN}])
    assert answer["resources"][0]["wanted"] == {"mounted": True, "flags": ["nosuid"]}


def test_what_is_not_mounted_is_wanted_and_not_remounted(
    run: Run, host: Host, tmp_path: Path
) -> None:
    answer = run("live", mounts=[{"at": str(tmp_path), **OWN}])
    assert answer["resources"][0]["wanted"] == {"mounted": True}
    assert host.calls == []
