"""What a host is besides its stages, from a grown tree: accounts without their secrets, keys, files with rights, sockets."""

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.probe.ask import Ask
from appliance.probe.posture import collect
from appliance.probe.sockets import listening

Grow = Callable[[dict[str, Any]], str]
BLOB = base64.b64encode(b"\0\0\0\x0bssh-ed25519" + b"k" * 36).decode()
KEY = "SHA256:" + base64.b64encode(hashlib.sha256(base64.b64decode(BLOB)).digest()).decode()[:-1]
SECRET = "$6$salt$hash"
DPKG = """Package: nano
Status: install ok installed
Priority: important
Architecture: amd64
Version: 7.2-1
Description: small editor
 with a text of its own

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1.0
"""
HOST: dict[str, Any] = {
    "/etc/passwd": "root:x:0:0::/root:/bin/bash\nada:x:1000:1000::/home/ada:/bin/zsh\n",
    "/etc/group": "root:x:0:\nsudo:x:27:ada,far\n",
    "/etc/shadow": f"root:*:1::::::\nada:{SECRET}:1::::::\n",
    "/home/ada/.ssh/authorized_keys": f"ssh-ed25519 {BLOB} laptop\n",
    "/etc/sudoers.d/x": {"text": "ada ALL=(ALL) ALL\n", "mode": "0440"},
    "/var/lib/dpkg/status": DPKG,
    "/etc/systemd/system/evil.service": "[Service]\n",
    "/etc/systemd/system/multi-user.target.wants/evil.service": {"link": "../evil.service"},
    "/proc/modules": "nvidia 5 0 - Live 0x0 (POE)\next4 5 0 - Live 0x0\n",
    "/usr/bin/su": {"text": "x", "mode": "4755"},
    "/usr/bin/true": {"text": "x", "mode": "0755"},
}


def things(root: str, receipts: dict[str, Any] | None = None, *, deep: bool = False) -> Any:
    ask = Ask({"deep": deep}, root)
    return {**collect(ask, receipts or {})["posture"], "errors": ask.errors}


def test_each_kind_is_told_by_name_and_no_secret_is(grow: Grow) -> None:
    seen = things(grow(HOST))
    found = seen["things"]
    assert found["account"]["ada"] == (
        "uid 1000, gid 1000, shell /bin/zsh, home /home/ada, groups sudo, password set"
    )
    assert found["account"]["group sudo"] == "members far"
    assert found["key"] == {f"{KEY} of ada": "ssh-ed25519  laptop"}
    assert found["package"] == {"nano": "7.2-1"}
    assert found["unit"] == {"evil.service": "wanted by multi-user.target"}
    assert found["unit file"].keys() == {"/etc/systemd/system/evil.service"}
    assert found["module"] == {"nvidia": "flags POE"}
    assert "mode 0440" in found["sudoers file"]["/etc/sudoers.d/x"]
    assert "setuid file" not in found
    assert SECRET not in str(seen)
    assert seen["errors"] == {}


def test_files_that_give_rights_are_looked_for_where_that_is_asked(grow: Grow) -> None:
    found = things(grow(HOST), deep=True)["things"]
    assert found["setuid file"].keys() == {"/usr/bin/su"}
    assert "mode 4755" in found["setuid file"]["/usr/bin/su"]


def test_a_container_has_no_modules_of_its_own(grow: Grow) -> None:
    root = grow({**HOST, "/run/systemd/container": "systemd-nspawn"})
    assert things(root)["things"]["module"] == {}


def test_what_stages_left_is_named(grow: Grow) -> None:
    left = [{"kind": k, "name": "x"} for k in ("file", "user", "group", "package", "unit", "mount")]
    owned = things(grow(HOST), {"base": {"resources": left}})["owned"]
    assert owned == ["account group x", "account x", "package x", "unit x", "x"]


def test_a_kind_that_cannot_be_read_is_said_and_costs_no_other(grow: Grow) -> None:
    root = grow({k: v for k, v in HOST.items() if k != "/etc/shadow"})
    seen = things(root)
    assert "account" not in seen["things"]
    assert "package" in seen["things"]
    assert "account: " in seen["errors"]["posture"]


ROW = "{n}: {local} {remote} {state} 0:0 00:0 0 {uid} 0 {inode} 1\n"
NOBODY = "00000000:0000"
ROWS = (
    ("tcp", "00000000:0016", NOBODY, "0A", 0, 11),
    ("tcp", "0100007F:0CEA", NOBODY, "0A", 0, 12),
    ("tcp", "00000000:C350", NOBODY, "0A", 0, 13),
    ("tcp", "00000000:1F90", NOBODY, "0A", 1000, 14),
    ("tcp", "0A00000A:0016", "0A000001:C000", "01", 0, 15),
    ("udp", "00000000:007B", NOBODY, "07", 0, 16),
    ("udp", "00000000:C351", NOBODY, "07", 0, 17),
    ("tcp", "00000000:02BC", NOBODY, "0A", 0, 18),
)
PROGRAMS = {11: "sshd", 12: "mariadbd", 13: "ganesha.nfsd", 16: "chronyd", 18: "rpc.statd"}


@pytest.fixture
def network(grow: Grow, tmp_path: Path) -> str:
    tables = {"tcp": "heads\n", "udp": "heads\n"}
    for n, (table, local, remote, state, uid, inode) in enumerate(ROWS):
        tables[table] += ROW.format(
            n=n, local=local, remote=remote, state=state, uid=uid, inode=inode
        )
    root = grow({f"/proc/net/{name}": text for name, text in tables.items()})
    for pid, (inode, program) in enumerate(PROGRAMS.items(), 100):
        folder = tmp_path / f"proc/{pid}/fd"
        folder.mkdir(parents=True)
        (folder / "3").symlink_to(f"socket:[{inode}]")
        (folder.parent / "comm").write_text(program + "\n")
    return root


def test_who_listens_is_told_by_port_and_program_and_people_s_work_is_not(network: str) -> None:
    assert dict(listening(Ask({}, network))) == {
        "tcp 22": "sshd",
        "tcp 3306 local": "mariadbd",
        "tcp of ganesha.nfsd, on any port": "ganesha.nfsd",
        "tcp of rpc.statd, on any port": "rpc.statd",
        "udp 123": "chronyd",
    }
