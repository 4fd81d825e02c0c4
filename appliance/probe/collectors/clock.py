"""The host's clock: chronyd's figures, else whether the kernel considers it synchronised."""

from __future__ import annotations

import re
import time

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.problems import Absent, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

LOCAL = "7F7F0101"
"""Reference id of a chronyd that serves its own clock."""
UNSYNCHRONISED = 5
"""TIME_ERROR of adjtimex(2)."""
MOST_SOURCES = 8
ADDRESS = re.compile(r"[0-9a-fA-F]*[.:][0-9a-fA-F.:]+")
"""A server of the network; a reference clock has a name."""
WORST = 16_000_000
"""Microseconds of possible error from which systemd, too, calls a clock unsynchronised."""


def collect(ask: Ask) -> Facts:
    """The area ``clock``."""
    clock: dict[str, object] = {"daemon": _daemon(ask)}
    if clock["daemon"] == "chronyd" or ask.has("chronyc"):
        try:
            clock.update(tracking(_chronyc(ask)))
        except (Absent, Unreadable) as error:
            if clock["daemon"] == "chronyd":
                ask.problem("clock", error)
        if clock.get("synchronised") is False:
            clock["sources"] = _sources(ask)
        elif "updated" in clock and ADDRESS.fullmatch(str(clock["source"])):
            clock.update(_servers(ask))
    if "synchronised" not in clock and clock["daemon"] != "chronyd":
        clock["synchronised"] = _kernel()
    return {"clock": {**clock, "time": time.time()}}


def tracking(line: str) -> dict[str, object]:
    """Facts of ``chronyc -c tracking``; a positive offset means that the host is behind. Raises Unreadable."""
    fields = line.strip().split(",")
    if len(fields) != 14:
        raise Unreadable(f"chronyc: unexpected answer: {line.strip()[:60]}")
    synchronised = fields[13] != "Not synchronised"
    follows = synchronised and fields[0] != LOCAL
    return {
        **({"updated": float(fields[3])} if follows else {}),
        "daemon": "chronyd",
        "synchronised": synchronised,
        "offset": float(fields[4]) if synchronised else None,
        "source": fields[1] or ("local" if fields[0] == LOCAL else ""),
    }


def _chronyc(ask: Ask) -> str:
    """Uses loopback, because chronyc as root would leave a socket in /run/chrony."""
    said = ask.run(["chronyc", "-n", "-h", "127.0.0.1,::1", "-c", "tracking"], 3.0, (0, 1))
    if said.count(",") < 5:
        raise Unreadable("chronyc: " + (said.strip() or "no answer"))
    return said


def _servers(ask: Ask) -> dict[str, object]:
    """Return the number of chronyd's servers, and for how many queries none answered: without any, chronyd reports synchronisation for hours."""
    asked = ["chronyc", "-n", "-h", "127.0.0.1,::1", "-c", "-m", "activity", "sources"]
    try:
        first, *rest = ask.run(asked, 3.0).strip().split("\n")
    except (Absent, Unreadable):
        return {"online": None}
    counts = first.split(",")
    if len(counts) != 5 or not all(map(str.isdigit, counts)):
        return {"online": None}
    missed = [unanswered(row[5]) for row in (line.split(",") for line in rest) if len(row) > 5]
    return {"online": int(counts[0]) + int(counts[2]), "unanswered": min(missed, default=None)}


def unanswered(reach: str) -> int:
    """The last queries without an answer, of eight that chronyd keeps as bits of an octal number (chronyc(1), sources)."""
    bits = int(reach, 8) if re.fullmatch("[0-7]{1,3}", reach) else 1
    return (bits & -bits).bit_length() - 1 if bits else 8


def _sources(ask: Ask) -> list[str] | None:
    """Return the configured servers of a chronyd that hears none of them."""
    try:
        said = ask.run(["chronyc", "-n", "-h", "127.0.0.1,::1", "-c", "sources"], 3.0)
    except (Absent, Unreadable):
        return None
    rows = [line.split(",") for line in said.split("\n")]
    return [row[2] for row in rows if len(row) > 3][:MOST_SOURCES]


def _daemon(ask: Ask) -> str:
    """Return which time daemon runs, by the file that it keeps while running."""
    for name, at in (
        ("chronyd", "/run/chrony/chronyd.pid"),
        ("chronyd", "/run/chronyd.pid"),
        ("systemd-timesyncd", "/run/systemd/timesync"),
        ("ntpd", "/run/ntpd.pid"),
    ):
        if _there(ask.path(at)):
            return name
    return ""


def _there(path: str) -> bool:
    try:
        return files.exists(path)
    except PermissionError:
        return True


def _kernel() -> bool | None:
    """Call adjtimex(2) read-only, as timedatectl does, but without starting a daemon."""
    import ctypes
    import struct

    # struct timex: int modes, long offset, freq, maxerror, esterror, int status, ...
    state = ctypes.create_string_buffer(512)
    answer = ctypes.CDLL(None, use_errno=True).adjtimex(state)
    if answer < 0:
        return None
    worst: int = struct.unpack_from("@illlli", state)[3]
    return answer != UNSYNCHRONISED and worst < WORST
