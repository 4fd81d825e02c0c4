"""Local users and groups from /etc/passwd and /etc/group; a directory service is never asked."""

from __future__ import annotations

import hashlib

from appliance.probe import files
from appliance.probe.ask import Ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from appliance.probe.ask import Facts


class Accounts:
    """The local accounts of a host, read once. Raises OSError."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._shadow: dict[str, str] | None = None
        self.users = _table(files.read(ask.path("/etc/passwd")), 7)
        self.groups = _table(files.read(ask.path("/etc/group")), 4)
        self._user_of = {int(user[2]): name for name, user in reversed(list(self.users.items()))}
        self._group_of = {int(row[2]): name for name, row in reversed(list(self.groups.items()))}

    def owner(self, uid: int) -> str:
        """Name of a user, its number where it is not a local one."""
        return self._user_of.get(uid, str(uid))

    def group(self, gid: int) -> str:
        """Name of a group, its number where it is not a local one."""
        return self._group_of.get(gid, str(gid))

    def user_state(self, name: str) -> Facts:
        """Fields of the resource kind ``user``. Raises PermissionError where keys are hidden."""
        row = self.users.get(name)
        if row is None:
            return {"exists": False}
        return {
            "uid": int(row[2]),
            "gid": int(row[3]),
            "shell": row[6],
            "home": row[5],
            "groups": sorted(g for g, fields in self.groups.items() if name in _words(fields[3])),
            "keys_sha256": self._keys(row[5]),
            "password": self.password(name),
        }

    def group_state(self, name: str) -> Facts:
        """Fields of the resource kind ``group``."""
        row = self.groups.get(name)
        return {"exists": False} if row is None else {"gid": int(row[2])}

    def password(self, name: str) -> str:
        """What opens the account: "locked" (no password does), "set", or "none" (it is open). Raises PermissionError."""
        if self._shadow is None:
            said = files.read(self._ask.path("/etc/shadow"))
            self._shadow = dict(line.split(":")[:2] for line in said.splitlines() if ":" in line)
        secret = self._shadow.get(name, self.users[name][1])
        if not secret:
            return "none"
        return "locked" if secret.startswith(("*", "!")) else "set"

    def secret(self, name: str) -> str:
        """The same, and of a password that is set a mark by which another one is told; what it is made of stays here."""
        state = self.password(name)
        if state != "set" or self._shadow is None:
            return state
        return f"set ({hashlib.sha256(self._shadow.get(name, '').encode()).hexdigest()[:6]})"

    def opened_groups(self) -> Iterator[tuple[str, str]]:
        """Groups that a password opens, or that somebody beside root gives away (gshadow(5))."""
        for line in files.text(self._ask.path("/etc/gshadow")).splitlines():
            fields = line.split(":")
            if len(fields) == 4:
                words = ["password set"] if fields[1] and fields[1][0] not in "*!" else []
                words += [f"given away by {fields[2]}"] if fields[2] else []
                if words:
                    yield fields[0], ", ".join(words)

    def _keys(self, home: str) -> str | None:
        """Digest of the authorized keys, whatever their order and remarks between them."""
        try:
            said = files.read(self._ask.path(home + "/.ssh/authorized_keys"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        lines = (" ".join(line.split()) for line in said.splitlines())
        keys = sorted({line for line in lines if line and not line.startswith("#")})
        return hashlib.sha256("\n".join(keys).encode()).hexdigest()


def _table(text: str, width: int) -> dict[str, list[str]]:
    rows = (line.split(":") for line in text.splitlines())
    found: dict[str, list[str]] = {}
    for row in rows:
        if len(row) == width and row[2].isdigit():
            found.setdefault(row[0], row)
    return found


def _words(members: str) -> list[str]:
    return members.split(",")
