"""Xid messages of the NVIDIA driver, and SXid ones of its NVSwitches, in the kernel log of this boot."""

from __future__ import annotations

import os
import re
import stat
import time

from appliance.probe import files
from appliance.probe.ask import Ask
from appliance.probe.problems import Unreadable
from appliance.stages.gpu.collect.gpus import pci_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from appliance.probe.ask import Facts

KEPT = 200
KEPT_ALIKE = 50
"""Of one code and one GPU: a job that floods the log must not push out what another GPU said once."""
DEVICE = "/dev/kmsg"
RECORD = re.compile(r"\d+,(?P<number>\d+),(?P<micros>\d+)[^;]*;(?P<text>.*)")
XID = re.compile(r"NVRM: Xid .*")
PARTS = re.compile(r"NVRM: Xid \((?:PCI:)?(?P<bus>[0-9A-Fa-f:.]+)[^)]*\): (?P<code>\d+)")
"""As in ``NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, ...``; an instance of a GPU (MIG) may stand behind the address."""

SWITCH = re.compile(r"SXid \(PCI:(?P<bus>[0-9A-Fa-f:.]+)\): (?P<code>\d+), (?:Fatal|Non-fatal)\b")
"""As in ``nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20009, Non-fatal, Link 28 ...``; lines of its data and severity follow it."""


def collect(ask: Ask) -> Facts:
    """The area ``xids``: the last of them, oldest first, and how far back the log reaches."""
    at = ask.path(ask.kmsg)
    if not files.exists(at):
        if pci_gpus(ask):
            raise Unreadable(f"no kernel log here: {ask.kmsg} is missing")
        return {"xids": [], "xid_events": None}
    if ask.kmsg == DEVICE and not ask.root and not stat.S_ISCHR(os.stat(at).st_mode):  # noqa: PTH116
        raise Unreadable(f"{DEVICE} is not the kernel's log here (a container hides it)")
    log, unbroken = _log(at)
    return {
        "xids": messages(log)[-KEPT:],
        "xid_events": latest(events(log.splitlines(), _now())),
        "switch_events": latest(events(log.splitlines(), _now(), SWITCH)),
        "kernel_log_span": span(unbroken, _now()),
    }


def messages(log: str) -> list[str]:
    """The text of each Xid record, without priority and time."""
    return [found.group().strip() for found in map(XID.search, log.splitlines()) if found]


def events(lines: Iterable[str], now: float, shape: re.Pattern[str] = PARTS) -> list[Facts]:
    """Each record of that shape by code, address, age in s and text; ``now`` in s on the kernel log's clock."""
    found = []
    for line in lines:
        parts = shape.search(line)
        if parts:
            record = RECORD.match(line)
            age = max(0.0, now - int(record["micros"]) / 1e6) if record else None
            text = line[parts.start() :].strip()
            event = {"code": int(parts["code"]), "bus_id": parts["bus"], "text": text}
            found.append({**event, "age": None if age is None else round(age, 1)})
    return found


def latest(found: list[Facts]) -> list[Facts]:
    """The last of each code of each GPU, oldest first."""
    alike: dict[tuple[int, str], list[Facts]] = {}
    kept = []
    for event in reversed(found):
        same = alike.setdefault((event["code"], event["bus_id"]), [])
        if len(same) < KEPT_ALIKE:
            same.append(event)
            kept.append(event)
        else:
            same[-1]["omitted"] = same[-1].get("omitted", 0) + 1
    return kept[::-1]


def span(log: str, now: float) -> float | None:
    """Age in s of the oldest record that is left; None where none was overwritten since the boot, 0 where nothing tells."""
    first = RECORD.match(log)
    if first is None:
        return 0.0
    if first["number"] == "0":
        return None
    return round(max(0.0, now - int(first["micros"]) / 1e6), 1)


def _now() -> float:
    """The clock the kernel stamps its records with, but for the time it slept."""
    return time.monotonic()


def _log(path: str) -> tuple[str, str]:
    """All records so far, and those behind the last gap.

    Each read gives one; EPIPE means that the next ones were overwritten meanwhile.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    records: list[bytes] = []
    unbroken = 0
    try:
        while True:
            try:
                record = os.read(fd, 8192)
            except BlockingIOError:
                break
            except BrokenPipeError:
                unbroken = len(records)
                continue
            if not record:
                break
            records.append(record)
    finally:
        os.close(fd)
    return _text(records), _text(records[unbroken:])


def _text(records: list[bytes]) -> str:
    return b"".join(records).decode("utf-8", "replace")
