"""Xid messages of the NVIDIA driver, and SXid ones of its NVSwitches, in the kernel log of this boot."""

from __future__ import annotations

import os
import re
import stat
import time

from appliance.probe import files, kernel_log
from appliance.probe.ask import Ask
from appliance.probe.lines import lines_of
from appliance.probe.problems import Unreadable
from appliance.stages.gpu.collect.gpus import pci_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from appliance.probe.ask import Facts

KEPT = 200
KEPT_ALIKE = 50
"""Maximum number of messages of one code and GPU, so that a flood does not displace those of other GPUs."""
DEVICE = "/dev/kmsg"
RECORD = re.compile(
    r"(?P<priority>[0-9]{1,9}),(?P<number>[0-9]{1,20}),(?P<micros>[0-9]{1,20}),[^;]{0,200};(?P<text>.*)"
)
ADDRESS = r"(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?)"
"""The complete prefix of the driver: it is longer than the 15 characters of a process name (TASK_COMM_LEN),
after which the kernel writes ``[PID]:``, as in ``NAME[123]: segfault at 0 ip ... in FILE[...]``."""
PARTS = re.compile(
    r"NVRM: Xid \((?:PCI:)?" + ADDRESS + r"(?: [A-Za-z0-9:.-]{1,40})?\): (?P<code>[0-9]{1,9})\b"
)
"""As in ``NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, ...``; a MIG instance may follow the address."""
LINK = re.compile(
    r"\): (?:14[4-9]|150), (?P<unit>[A-Z0-9_]{1,40}) (?P<severity>Nonfatal|Fatal)\b(?:.{0,40}?\bLink (?P<link>[0-9]{1,3})\b)?"
)
"""Unit, severity and link of an NVLink 5 message, as in ``): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x...``."""
SWITCH = re.compile(
    r"nvidia-nvswitch[0-9]{1,4}: SXid \(PCI:"
    + ADDRESS
    + r"\): (?P<code>[0-9]{1,9}), (?:Fatal|Non-fatal)\b"
)
"""As in ``nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20009, Non-fatal, Link 28 ...``; lines of its data and severity follow it."""
KERNEL = 0
"""The facility (priority >> 3) of the kernel's records; records written to /dev/kmsg have another one."""


def collect(ask: Ask) -> Facts:
    """The area ``xids``: the last messages, oldest first, and the age of the log's oldest record."""
    at = ask.path(ask.kmsg)
    if not files.exists(at):
        if pci_gpus(ask):
            raise Unreadable(f"no kernel log here: {ask.kmsg} is missing")
        return {"xids": [], "xid_events": None}
    if ask.kmsg == DEVICE and not ask.root and not stat.S_ISCHR(os.stat(at).st_mode):  # noqa: PTH116
        raise Unreadable(f"{DEVICE} is not the kernel's log here (a container hides it)")
    log, unbroken = _log(at)
    shared = ask.kmsg == DEVICE and bool(files.text(ask.path("/run/systemd/container")))
    return {
        "kernel_events": None
        if shared
        else kernel_log.events(_records(log), ask.kernel_log, _now()),
        "xids": messages(log)[-KEPT:],
        "xid_events": latest(events(lines_of(log), _now())),
        "switch_events": latest(events(lines_of(log), _now(), SWITCH)),
        "kernel_log_span": span(unbroken, _now()),
    }


def _records(log: str) -> Iterator[tuple[str, float]]:
    for record in filter(None, map(_of_kernel, lines_of(log))):
        yield record["text"], int(record["micros"]) / 1e6


def messages(log: str) -> list[str]:
    """Return the text of each Xid record, without priority and time."""
    records = (_of_kernel(line) for line in lines_of(log))
    return [record["text"].strip() for record in records if record and PARTS.match(record["text"])]


def events(lines: Iterable[str], now: float, shape: re.Pattern[str] = PARTS) -> list[Facts]:
    """Return each matching record with code, address, age in s and text; ``now`` in s on the kernel log's clock."""
    found = []
    for line in lines:
        record = _of_kernel(line)
        parts = shape.match(record["text"]) if record else None
        if record and parts:
            age = max(0.0, now - int(record["micros"]) / 1e6)
            event = {"code": int(parts["code"]), "bus_id": parts["bus"], "age": round(age, 1)}
            found.append({**event, "text": record["text"].strip(), **_link(record["text"])})
    return found


def _link(text: str) -> Facts:
    """Return unit, severity and link of an NVLink 5 message; empty for others."""
    said = LINK.search(text)
    return {name: value for name, value in said.groupdict().items() if value} if said else {}


def _of_kernel(line: str) -> re.Match[str] | None:
    """Return whether the kernel or a driver wrote the record. Records contain names of users' programs, so only the prefix counts."""
    record = RECORD.fullmatch(line)
    return record if record and int(record["priority"]) >> 3 == KERNEL else None


def latest(found: list[Facts]) -> list[Facts]:
    """Return the last messages of each code and severity of each GPU, oldest first."""
    alike: dict[tuple[int, str, str], list[Facts]] = {}
    kept = []
    for event in reversed(found):
        same = alike.setdefault((event["code"], event["bus_id"], event.get("severity", "")), [])
        if len(same) < KEPT_ALIKE:
            same.append(event)
            kept.append(event)
        else:
            same[-1]["omitted"] = same[-1].get("omitted", 0) + 1
    return kept[::-1]


def span(log: str, now: float) -> float | None:
    """Return the age in s of the oldest remaining record; None if none was overwritten since the boot, 0 if unknown."""
    first = RECORD.match(log)
    if first is None:
        return 0.0
    if first["number"] == "0":
        return None
    return round(max(0.0, now - int(first["micros"]) / 1e6), 1)


def _now() -> float:
    """Return the time of the kernel log's clock, which excludes suspend."""
    return time.monotonic()


def _log(path: str) -> tuple[str, str]:
    """Return all records, and those after the last gap.

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
