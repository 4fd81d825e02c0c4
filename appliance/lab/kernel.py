"""Kernel settings of this machine for racks: set by the first rack, restored by the last."""

from contextlib import suppress
from pathlib import Path

from appliance.lab.spec import STATE_ROOT

SETTINGS = Path("/proc/sys")
KEPT = STATE_ROOT
"""File of the previous values; that of ip_forward in .ip_forward."""
NEEDED = {
    "net/ipv4/ip_forward": 1,
    # All hosts of all racks share it: systemd takes a dozen on each, and kubelet and the pods of a cluster more than Linux
    # allows by itself (128). A host whose systemd gets none stops half way through its boot.
    "fs/inotify/max_user_instances": 8192,
}
"""Setting below /proc/sys -> the least value."""


def raise_all() -> None:
    """Settings of this machine are at least what racks need."""
    for name, least in NEEDED.items():
        now = (SETTINGS / name).read_text(encoding="ascii").strip()
        if int(now) < least:
            KEPT.mkdir(parents=True, exist_ok=True)
            _before(name).write_text(now, encoding="ascii")
            (SETTINGS / name).write_text(str(least), encoding="ascii")


def give_back() -> None:
    """Restores the values from before the first rack."""
    for name in NEEDED:
        with suppress(FileNotFoundError):
            before = _before(name).read_text(encoding="ascii")
            (SETTINGS / name).write_text(before, encoding="ascii")
            _before(name).unlink()


def _before(name: str) -> Path:
    return KEPT / f".{Path(name).name}"
