"""Xid messages of the NVIDIA driver in the kernel log of this boot."""

from __future__ import annotations

import os
import re

from appliance.probe import files
from appliance.probe.ask import Ask, Unreadable
from appliance.probe.collectors.gpus import pci_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts

KEPT = 200
XID = re.compile(r"NVRM: Xid .*")


def collect(ask: Ask) -> Facts:
    """The area ``xids``: the last of them, oldest first."""
    if files.exists(ask.path(ask.kmsg)):
        return {"xids": messages(_log(ask.path(ask.kmsg)))[-KEPT:]}
    if pci_gpus(ask):
        raise Unreadable(f"no kernel log here: {ask.kmsg} is missing")
    return {"xids": []}


def messages(log: str) -> list[str]:
    """The text of each Xid record, without priority and time."""
    return [found.group().strip() for found in map(XID.search, log.splitlines()) if found]


def _log(path: str) -> str:
    """All records so far. Each read gives one; EPIPE means that older ones were overwritten meanwhile."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    records = []
    try:
        while True:
            try:
                record = os.read(fd, 8192)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue
            if not record:
                break
            records.append(record)
    finally:
        os.close(fd)
    return b"".join(records).decode("utf-8", "replace")
