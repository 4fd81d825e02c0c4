"""How long GPUs of pods have been idle, from dcgm-exporter's metrics in Prometheus; a gap in the samples does not count as idle."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from appliance.limits import web
from appliance.limits.trouble import Trouble, Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Slices = dict[int, float]
    Key = tuple[str, str]
    Part = tuple[str, ...]

METRICS = {"DCGM_FI_DEV_GPU_UTIL": 1.0, "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.01}
"""Metric -> maximum value that counts as idle. The first is in percent and missing for MIG instances, the second is a fraction of 1."""
PART = ("instance", "UUID", "Hostname", "gpu", "GPU_I_ID")
"""Labels that distinguish GPUs and their parts."""
SLICES = 60
SHORTEST_S = 60
CLOCK_S = 60.0


class Usage:
    """The result of one query of Prometheus, for one window of time."""

    def __init__(self, window: float, step: float, devices: dict[Key, list[Slices]]) -> None:
        self.window, self.step = window, step
        self._devices = devices

    def __len__(self) -> int:
        return len(self._devices)

    def idle_for(self, namespace: str, pod: str, gpus: int) -> float:
        """Return the seconds, up to the window, for which all GPUs of the pod have been idle. Raises Unknown."""
        devices = self._devices.get((namespace, pod), [])
        if len(devices) != gpus:
            raise Unknown(f"Prometheus has metrics of {len(devices)} of its {gpus} GPUs")
        slices = math.ceil(self.window / self.step)
        for back in range(slices):
            if any(device.get(back, 0.0) > 0 for device in devices):
                return back * self.step
            if any(back not in device for device in devices):
                raise Unknown(f"its GPUs' metrics have a gap {back * self.step:g} s ago")
        return self.window


def look(
    prometheus: str,
    window: float,
    now: float,
    places: Mapping[Key, frozenset[str]],
    hosts: frozenset[str],
) -> Usage:
    """Query the last ``window`` seconds in slices, with the maximum of the samples in each. Raises Trouble.

    ``places``: by namespace and pod the name and address of its host; ``hosts``: of all hosts. If Prometheus names
    exporters after them (label instance), a host reports on its own pods only.
    """
    step = max(SHORTEST_S, math.ceil(window / SLICES))
    slices = math.ceil(window / step)
    end = math.floor(now)
    devices: dict[Key, dict[Part, Slices]] = {}
    for metric, idle in METRICS.items():
        for series in _ask(prometheus, f"max_over_time({metric}[{step}s])", end, step, slices):
            labels = series["metric"]
            owner = _owner(labels)
            if owner is None:
                continue
            part = tuple(labels.get(k, "") for k in PART)
            known = devices.setdefault(owner, {}).setdefault(part, {})
            for when, said in series["values"]:
                value = float(said)
                if not math.isnan(value):
                    back = round((end - float(when)) / step)
                    known[back] = max(known.get(back, 0.0), 0.0 if value <= idle else value)
    named = any(_place(part) in hosts for parts in devices.values() for part in parts)
    found = {
        owner: [
            known
            for part, known in parts.items()
            if not named or _place(part) in places.get(owner, ())
        ]
        for owner, parts in devices.items()
    }
    return Usage(slices * step, step, found)


def _place(part: Part) -> str:
    """Return the exporter's host, without its port."""
    return part[0].partition(":")[0]


def _owner(labels: dict[str, str]) -> Key | None:
    """Return namespace and pod. If the exporter's own pod has these labels, those of the GPU have the prefix exported_."""
    for prefix in ("exported_", ""):
        pod = labels.get(prefix + "pod")
        if pod:
            return labels.get(prefix + "namespace", ""), pod
    return None


def _ask(
    prometheus: str, expression: str, end: int, step: int, slices: int
) -> list[dict[str, Any]]:
    asked = {"query": expression, "start": end - (slices - 1) * step, "end": end, "step": step}
    answer = web.ask("GET", f"{prometheus}/api/v1/query_range?{urlencode(asked)}", {})
    if answer.skew is None or abs(answer.skew) > CLOCK_S:
        told = (
            "is unknown: its answer has no date"
            if answer.skew is None
            else f"differs by {answer.skew:.0f} s"
        )
        raise Trouble(f"the clock of Prometheus {told}")
    try:
        document = json.loads(answer.body)
        if answer.status != 200 or document["status"] != "success" or document.get("warnings"):
            why = document.get("error") or "; ".join(
                document.get("warnings") or ["no reason given"]
            )
            raise Trouble(f"Prometheus rejected the query: {why} (HTTP {answer.status})")
        return [
            {"metric": dict(s["metric"]), "values": list(s["values"])}
            for s in document["data"]["result"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Trouble(f"Prometheus returned an invalid answer (HTTP {answer.status})") from None
