"""Accounts equivalent to root, and system accounts with more rights than their package gives them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from appliance.probe.accounts import Accounts

NO_SHELLS = ("/nologin", "/false", "/sync")
PEOPLE = range(1000, 60000)
"""Uids of people; above them are those of packages and of systemd, up to 65535 (Debian Policy 9.2.2, systemd's UIDS-GIDS)."""
LAST_OF_SYSTEM = 65535
LIKE_ROOT = frozenset(
    {
        *("root", "sudo", "wheel", "admin", "shadow", "disk", "kmem", "docker", "lxd"),
        "incus-admin",
    }
)
"""Groups whose members are or can become root. No distribution puts a service into one."""
OURS = frozenset({"munge", "slurm", "prometheus", "mysql", "chrony", "_chrony"})
"""Accounts of daemons of the stages; accounts of other packages may have a shell, as PostgreSQL's has."""
OF_ROOTS_GROUP = frozenset({"sync", "shutdown", "halt", "operator"})
"""Accounts that have root's group as their primary group in the RHEL family (passwd of package setup)."""


def like_root(accounts: Accounts) -> Iterator[tuple[str, str]]:
    """Return privileged accounts, and the reason."""
    for name, row in accounts.users.items():
        if int(row[2]) == 0 and name != "root":
            yield name, "has root's number"
        elif accounts.password(name) == "none":
            yield name, "needs no password"


def excessive(accounts: Accounts) -> Iterator[tuple[str, str, str]]:
    """Return excessive rights of system accounts: "password", "shell", "group" or "primary group"; the account; its value."""
    strong = _strong_groups(accounts)
    for name, row in accounts.users.items():
        if not is_system(int(row[2])):
            continue
        if accounts.password(name) == "set":
            yield "password", name, ""
        if name in OURS and not row[6].endswith(NO_SHELLS):
            yield "shell", name, row[6] or "/bin/sh"
        if row[3] in strong and name not in OF_ROOTS_GROUP:
            yield "primary group", name, strong[row[3]]
        for group, fields in accounts.groups.items():
            if fields[2] in strong and name in fields[3].split(","):
                yield "group", name, group


def is_system(uid: int) -> bool:
    """Return whether an account with this uid belongs to a program."""
    return 0 < uid <= LAST_OF_SYSTEM and uid not in PEOPLE


def _strong_groups(accounts: Accounts) -> dict[str, str]:
    """Return gid -> name, because a second group with the same gid has the same rights."""
    rows = accounts.groups.items()
    return {"0": "root", **{row[2]: name for name, row in rows if name in LIKE_ROOT}}
