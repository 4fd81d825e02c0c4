"""Burnin output, as several test modules use it."""

import json
from typing import Any

HOURS = 8 * 3600.0


XID = "[ 12.3] NVRM: Xid (PCI:0000:10:00): {}, pid=1896, name=python3"


def gpu(index: int, **changes: Any) -> str:
    values = {
        "uuid": f"GPU-{index}",
        "temperature": 70,
        "power": 395.2,
        "clock": 1410,
        "use": 100,
        "lost": 0,
        "mended": 0,
        "reasons": "0x0000000000000004",
    } | changes
    return ", ".join(map(str, (index, *values.values())))


def lines(count: int = 100, gpus: int = 2) -> list[dict[str, Any]]:
    """Samples of a sound burn-in; the first was taken before it began."""
    step = HOURS / count
    row = {"kind": "sample", "failed": 0, "hung": False, "xids": [XID.format(31)], "log": True}
    samples = [
        row
        | {
            "gpus": [gpu(i) for i in range(gpus)],
            "time": 1000 + step * at,
            "rates": {str(i): 250.0 + at % 2 for i in range(gpus)} if at else {},
        }
        for at in range(count + 1)
    ]
    begin = {"kind": "begin", "seconds": HOURS, "interval": step, "load": "gpu", "workers": gpus}
    end = {"kind": "end", "why": "done", "failed": 0, "time": 1001 + HOURS}
    return [samples[0], begin | {"time": 1001}, *samples[1:], end]


def written(found: list[dict[str, Any]]) -> str:
    return "\n".join(map(json.dumps, found))
