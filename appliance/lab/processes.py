"""Finds the processes of a rack by start time, mark and control group, never by name."""

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from appliance.errors import DeadlineExceeded

PROC = Path("/proc")
MARK = "APPLIANCE_LAB_RACK"


def start_time(pid: int) -> int | None:
    """Start time of ``pid`` in clock ticks since boot; None if it has ended or is a zombie."""
    try:
        stat = (PROC / str(pid) / "stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def remember(pid: int, file: Path) -> None:
    """Note a process of ours so that a later run recognises it even if its number is reused."""
    file.write_text(json.dumps({"pid": pid, "start": start_time(pid)}), encoding="utf-8")


def recall(file: Path) -> int | None:
    """The remembered process if it still runs."""
    try:
        noted = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    started = start_time(noted["pid"])
    return noted["pid"] if started is not None and started == noted["start"] else None


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal; it is no error if the process has ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def marked(rack_dir: Path) -> tuple[int, ...]:
    """Processes the rack started, also those whose note was never written, by their environment."""
    mark = f"{MARK}={rack_dir}".encode()
    found = []
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return tuple(found)


def end_marked(rack_dir: Path, timeout: float = 20.0) -> None:
    """End every process the rack started, also those forked meanwhile. Raises DeadlineExceeded."""
    deadline = time.monotonic() + timeout
    while pids := marked(rack_dir):
        for pid in pids:
            kill(pid)
        if time.monotonic() > deadline:
            raise DeadlineExceeded(
                f"{rack_dir.name}: {len(pids)} processes do not die", "they hang in the kernel"
            )
        time.sleep(0.05)


def with_argument(text: str) -> int | None:
    """A process that was started with an argument which begins like this."""
    wanted = text.encode()
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if any(
                    word.startswith(wanted)
                    for word in (entry / "cmdline").read_bytes().split(b"\0")
                ):
                    return int(entry.name)
    return None


def memory_mib(pids: tuple[int, ...]) -> int:
    """Proportional share of memory of these processes, in MiB."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            for line in (PROC / str(pid) / "smaps_rollup").read_text(encoding="utf-8").splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
    return total // 1024


def uptime_seconds(pid: int) -> int | None:
    """Seconds since ``pid`` began."""
    started = start_time(pid)
    if started is None:
        return None
    now = float((PROC / "uptime").read_text(encoding="utf-8").split()[0])
    return int(now - started / os.sysconf("SC_CLK_TCK"))
