"""Brings what runs to what the files say: the host's name, tables of the firewall; and says what sshd must go by."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.appliance.host.plugins.module_utils.outcome import (
    Problem,
    os_reason,
    telling_line,
)
from ansible_collections.appliance.host.plugins.module_utils.places import (
    moved,
    open_folder,
    opened,
)

SPEC = {
    "strangers": {"type": "list", "elements": "str", "default": []},
    "hostname": {"default": ""},
    "tables": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"name": {"required": True}, "file": {"required": True}},
    },
    "mounts": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "at": {"required": True},
            "what": {"required": True},
            "options": {"default": ""},
            "unit": {},
            "type": {},
        },
    },
    "sshd": {"type": "dict", "default": {}},
}
# As the probe asks, so that both speak of the same text.
LIST = ["nft", "--stateless", "--numeric-priority", "--numeric-protocol", "list", "table"]


MOUNTS = "/proc/self/mountinfo"
# What a mount may forbid, and the word that allows it (mount(8)).
FLAGS = {"ro": "rw", "noexec": "exec", "nosuid": "suid", "nodev": "dev"}
KEPT_AT = "/var/lib/appliance/purged"
SYSTEMD = ("/etc/systemd/system/", "/run/systemd/system/")
SSHD = "/etc/ssh/"


class Live:
    """What one call found, changed and wants."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.check = module.check_mode
        self.changed = False
        self.loaded: list[str] = []
        self.resources: list[dict[str, Any]] = []

    def strangers(self, paths: list[str]) -> None:
        """Move files away, and have systemd, sshd and the units they spoke of read anew."""
        gone = [path for path in paths if os.path.lexists(path)]
        self.changed = self.changed or bool(gone)
        if not gone or self.check:
            return
        folder = os.path.join(KEPT_AT, time.strftime("%Y-%m-%dT%H-%M-%S", time.gmtime()))
        for path in gone:
            self._move(path, folder + path)
        if any(path.startswith(SYSTEMD) for path in gone):
            self._must(["systemctl", "daemon-reload"])
            units = sorted({unit for unit in map(_unit, gone) if unit})
            self._run(["systemctl", "try-restart", *units])
        if any(path.startswith(SSHD) for path in gone):
            self._run(["systemctl", "try-reload-or-restart", "ssh.service", "sshd.service"])

    def _move(self, path: str, to: str) -> None:
        try:
            with open_folder(KEPT_AT, make=True) as at, opened(at) as handle:
                os.fchmod(handle, 0o700)
            with open_folder(os.path.dirname(path)) as at, open_folder(os.path.dirname(to), make=True) as kept:  # fmt: skip
                moved(os.path.basename(path), at, kept)
        except OSError as error:
            raise Problem(f"{path}: cannot be moved to {to}: {os_reason(error)}") from error

    def _must(self, argv: list[str]) -> None:
        code, out, err = self._run(argv)
        if code:
            raise Problem(f"{' '.join(argv)}: {telling_line(err or out) or 'it failed'}")

    def name(self, hostname: str) -> None:
        """Take the host's name."""
        self._want("sysctl", "kernel.hostname", value=hostname)
        if socket.gethostname() == hostname:
            return
        self.changed = True
        if not self.check:
            try:
                socket.sethostname(hostname)
            except OSError as error:
                raise Problem(f"the host's name: {os_reason(error)}") from error

    def table(self, name: str, file: str) -> None:
        """Load a table from its file; what the kernel then lists is what is wanted."""
        before = self._listed(name)
        if self.check:
            return
        code, out, err = self._run(["nft", "-f", file])
        if code:
            raise Problem(f"{file}: {telling_line(err or out)}")
        after = self._listed(name)
        if not after:
            raise Problem(f"{file}: makes no table {name}")
        self._want("nftables", name, loaded=True, sha256=hashlib.sha256(after.encode()).hexdigest())
        if before != after:
            self.changed = True
            self.loaded.append(name)

    def mount(self, item: dict[str, str]) -> None:
        """Have a mount forbid what its unit says, and no more."""
        at, options = os.path.realpath(item["at"]), (item["options"] or "").split(",")
        mounts = _mounts()
        if at not in mounts:
            self._want("mount", at, mounted=True)
            return
        wanted = {flag for flag in FLAGS if flag in options}
        if "bind" in options:
            wanted |= mounts[_above(os.path.realpath(item["what"]), mounts)]
        self._want("mount", at, mounted=True, flags=sorted(wanted))
        if mounts[at] == wanted:
            return
        self.changed = True
        if not self.check:
            words = [flag if flag in wanted else allowed for flag, allowed in FLAGS.items()]
            bind = ["bind"] if "bind" in options else []
            self._must(["mount", "-o", ",".join(["remount", *bind, *words]), at])

    def sshd(self, keyword: str, value: str) -> None:
        """Say what sshd must go by."""
        self._want("sshd", keyword, value=value)

    def _want(self, kind: str, name: str, **fields: object) -> None:
        self.resources.append({"kind": kind, "name": name, "wanted": fields})

    def _listed(self, name: str) -> str:
        code, out, _ = self._run([*LIST, *name.split()])
        return "" if code else out

    def _run(self, argv: list[str]) -> tuple[int, str, str]:
        answer: tuple[int, str, str] = self.module.run_command(argv, environ_update={"LC_ALL": "C"})
        return answer


def _mounts() -> dict[str, set[str]]:
    """What each mount forbids, by mount point; of several on one point the last, which hides the others."""
    with open(MOUNTS, "rb") as file:
        rows = [line.split(b" ") for line in file.read().split(b"\n")]
    return {
        _plain(row[4]): set(FLAGS).intersection(row[5].decode("ascii", "replace").split(","))
        for row in rows
        if len(row) > 5
    }


def _plain(word: bytes) -> str:
    """A mount point as the module's arguments name it: a user may put any byte but these into it (proc(5), mountinfo)."""
    named = re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8) & 0xFF]), word)
    return named.decode("utf-8", "surrogateescape")


def _above(path: str, mounts: dict[str, set[str]]) -> str:
    """The mount point a path lies on."""
    while path not in mounts and path != "/":
        path = os.path.dirname(path)
    return path


def _unit(path: str) -> str:
    """The unit a file is of, itself or as a drop-in; empty for all of a type, and for a template."""
    if not path.startswith(SYSTEMD):
        return ""
    name = path.split("/")[4]
    name = name[:-2] if name.endswith(".d") else name
    return name if "." in name and "@." not in name else ""


def _apply(live: Live, parameters: dict[str, Any]) -> None:
    live.strangers(parameters["strangers"])
    if parameters["hostname"]:
        live.name(parameters["hostname"])
    for table in parameters["tables"]:
        live.table(table["name"], table["file"])
    for mount in parameters["mounts"]:
        live.mount(mount)
    for keyword, value in parameters["sshd"].items():
        live.sshd(keyword, str(value))


def main() -> None:
    """Run the module."""
    module = AnsibleModule(SPEC, supports_check_mode=True)
    live = Live(module)
    try:
        _apply(live, module.params)
    except Problem as problem:
        module.fail_json(msg=str(problem), changed=live.changed, loaded=live.loaded)
    module.exit_json(changed=live.changed, loaded=live.loaded, resources=live.resources)
