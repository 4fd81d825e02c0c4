"""Kernel messages about faults of the host, by the requested prefixes."""

from __future__ import annotations

import re

from appliance.probe.ask import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from appliance.probe.ask import Facts

WIDTH = 200
MOST = 64
"""Maximum number of kinds and parts reported."""


def events(
    records: Iterable[tuple[str, float]], asked: dict[str, list[str]], now: float
) -> list[Facts]:
    """Return each kind and part with its count, and the age in s and text of the last message. ``records``: texts with their seconds."""
    shapes = _compiled(asked)
    found: dict[tuple[str, str], Facts] = {}
    for text, second in records:
        for name, begins, ends in shapes:
            match = begins.match(text)
            if match:
                parts = match.groupdict()
                what = parts.get("what") or parts.get("other") or ""
                count = found.pop((name, what), {"count": 0})["count"] + 1
                age = round(max(0.0, now - second), 1)
                said = {"id": name, "what": what, "count": count, "age": age}
                found[name, what] = {**said, "text": text.strip()[:WIDTH]}
                break
            if ends is not None and ends.match(text):
                found = {key: value for key, value in found.items() if key[0] != name}
                break
    return list(found.values())[-MOST:]


def _compiled(
    asked: dict[str, list[str]],
) -> list[tuple[str, re.Pattern[str], re.Pattern[str] | None]]:
    try:
        return [
            (name, re.compile(said[0]), re.compile(said[1]) if len(said) > 1 else None)
            for name, said in asked.items()
        ]
    except (re.error, IndexError):
        raise Refused('"kernel_log" must hold regular expressions') from None
