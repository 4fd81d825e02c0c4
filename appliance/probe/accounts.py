"""Local users and groups from /etc/passwd and /etc/group; directory services are not queried."""

from __future__ import annotations

import hashlib
import re

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.keys import BYTES
from appliance.probe.lines import lines_of
from appliance.probe.places import Untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from appliance.probe.ask import Facts


UNREAD = "not read"
"""Instead of a digest, if a user placed a link, another user's file, or millions of lines."""


class Accounts:
    """The local accounts of a host, read once. Raises OSError."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._shadow: dict[str, list[str]] | None = None
        self.users = _table(files.read(ask.path("/etc/passwd")), USER)
        self.groups = _table(files.read(ask.path("/etc/group")), GROUP)
        self._user_of = {int(user[2]): name for name, user in reversed(list(self.users.items()))}
        self._group_of = {int(row[2]): name for name, row in reversed(list(self.groups.items()))}

    def owner(self, uid: int) -> str:
        """Return the name of a user, or its number if it is not a local one."""
        return self._user_of.get(uid, str(uid))

    def group(self, gid: int) -> str:
        """Return the name of a group, or its number if it is not a local one."""
        return self._group_of.get(gid, str(gid))

    def user_state(self, name: str) -> Facts:
        """Return the fields of the resource kind ``user``. Raises PermissionError if keys are not readable."""
        row = self.users.get(name)
        if row is None:
            return {"exists": False}
        groups = sorted(g for g, fields in self.groups.items() if name in _words(fields[3]))
        return {
            "uid": int(row[2]),
            "gid": int(row[3]),
            "shell": row[6],
            "home": row[5],
            "groups": groups,
            **({} if OF_THE_SITE in groups else {"keys_sha256": self._keys(row[5], int(row[2]))}),
            "password": self.password(name),
        }

    def group_state(self, name: str) -> Facts:
        """Return the fields of the resource kind ``group``."""
        row = self.groups.get(name)
        return {"exists": False} if row is None else {"gid": int(row[2])}

    def password(self, name: str) -> str:
        """Return the state of the password: "locked", "set", or "none" (login without one). Raises PermissionError."""
        # What stands in passwd itself counts, but for the x that means shadow (passwd(5)); there a line that lacks opens nothing.
        known, secret = self.users[name][1], self._row(name)[1]
        secret = secret if known == "x" else known
        if not secret:
            return "none"
        return "locked" if secret.startswith(("*", "!")) else "set"

    def secret(self, name: str) -> str:
        """Return the same; for a set password with a mark that changes with the password and does not reveal it."""
        state = self.password(name)
        if state != "set":
            return state
        return f"set ({hashlib.sha256(self._row(name)[1].encode()).hexdigest()[:6]})"

    def closed(self, name: str, day: int) -> str:
        """Return why PAM refuses the account even with a valid key; empty if it does not. ``day``: since 1970. Raises PermissionError."""
        row = self._row(name)
        last, most, expires = (int(row[n]) if row[n].isdigit() else None for n in (2, 4, 7))
        if expires is not None and expires <= day:
            return EXPIRED
        if last == 0 or (last is not None and most is not None and day - last > most):
            return AGED
        return ""

    def _row(self, name: str) -> list[str]:
        """The fields of shadow(5)."""
        if self._shadow is None:
            said = files.read(self._ask.path("/etc/shadow"))
            rows = [line.strip().split(":") for line in lines_of(said) if ":" in line]
            # Of two lines of one account the first counts.
            self._shadow = {row[0]: row + [""] * (SHADOW - len(row)) for row in reversed(rows)}
        return self._shadow.get(name, [name, "*", *[""] * (SHADOW - 2)])

    def opened_groups(self) -> Iterator[tuple[str, str]]:
        """Groups with a password or with administrators other than root (gshadow(5))."""
        for line in lines_of(files.text(self._ask.path("/etc/gshadow"))):
            fields = line.split(":")
            if len(fields) == 4:
                words = ["password set"] if fields[1] and fields[1][0] not in "*!" else []
                words += [f"given away by {fields[2]}"] if fields[2] else []
                if words:
                    yield fields[0], ", ".join(words)

    def _keys(self, home: str, uid: int) -> str | None:
        """Return a digest of the authorized keys, independent of order and comments; a word if they are not read."""
        try:
            said = files.read(self._ask.path(home + "/.ssh/authorized_keys"), BYTES + 1, uid)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except Untrusted:
            return UNREAD
        if len(said) > BYTES:
            return UNREAD
        lines = (" ".join(line.split()) for line in lines_of(said))
        keys = sorted({line for line in lines if line and not line.startswith("#")})
        return hashlib.sha256("\n".join(keys).encode()).hexdigest()


USER, GROUP, SHADOW = 7, 4, 9
"""Fields of a line of passwd(5), group(5) and shadow(5)."""
EXPIRED, AGED = "has expired", "must change its password first"
NUMBERS = {USER: (2, 4), GROUP: (2, 3)}
"""Fields that must be numbers; libc ignores a line without them."""
NUMBER = re.compile(r"\s*[+-]?[0-9]{1,20}")
OF_THE_SITE = "appliance-users"
"""The group of the users of base.users: root owns the files with the site's keys; the files in their homes are their own."""


def _table(text: str, width: int) -> dict[str, list[str]]:
    """Rows by name, read as libc does: leading blanks and signs of numbers are ignored, and trailing fields may be missing.

    Of two accounts of one name the first counts; of two groups all members do.
    """
    found: dict[str, list[str]] = {}
    for line in lines_of(text):
        row = line.strip().split(":", width - 1)
        numbers = range(*NUMBERS[width])
        if len(row) < numbers.stop or not all(
            map(NUMBER.fullmatch, row[numbers.start : numbers.stop])
        ):
            continue
        for place in numbers:
            row[place] = str(int(row[place]))
        row += [""] * (width - len(row))
        if width == GROUP:
            row[3] = ",".join(member.strip() for member in row[3].split(","))
            if row[0] in found:
                found[row[0]][3] += "," + row[3]
        found.setdefault(row[0], row)
    return found


def _words(members: str) -> list[str]:
    return members.split(",")
