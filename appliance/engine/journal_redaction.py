"""Redacts journals of earlier releases, which stored lines of keys, crontabs and foreign files in clear text.

A user's link could lead root to a file with a secret, and a line of it was stored.
"""

import re
from collections.abc import Mapping
from typing import Any

from appliance.journal import Journal
from appliance.probe import keys
from appliance.probe.outline import outline
from appliance.stages.base import ids

VERSION = 2
"""Version of the journal's redaction; 1 stored lines in clear text."""
KINDS = ("posture", "facts", "health", "result", "handover")
QUOTED = re.compile(r'^(?P<before>.{0,8192}? UTC\)): "(?P<line>.*)"$', re.S)
"""The cause of base.foreign: owner, time, and the line."""
OF_KEYS = re.compile(r"^(?P<before>\S{0,4096}/authorized_keys2?) (?P<line>.*)$", re.S)
A_KEY = "has a key"


def redact_journal(journal: Journal) -> int:
    """Remove such lines from a journal of an earlier release; return how many entries had some."""
    return journal.retell(VERSION, KINDS, _redacted_entry)


def _redacted_entry(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    match kind:
        case "posture":
            return _posture(data)
        case "facts":
            return _facts(data)
        case "handover":
            return _handed_over(data)
        case _:
            return _result(data)


def _posture(data: dict[str, Any]) -> dict[str, Any]:
    things = data.get("things")
    if not isinstance(things, Mapping) or not isinstance(things.get("key"), Mapping):
        return data
    return {**data, "things": {**things, "key": keys.retold(dict(things["key"]))}}


def _facts(data: dict[str, Any]) -> dict[str, Any]:
    facts = data.get("facts")
    if not isinstance(facts, Mapping) or not facts.get("foreign"):
        return data
    found = [{**f, "line": _line(f["kind"], f.get("line", ""))} for f in facts["foreign"]]
    return {**data, "facts": {**facts, "foreign": found}}


def _handed_over(data: dict[str, Any]) -> dict[str, Any]:
    baseline = data.get("baseline")
    if not isinstance(baseline, Mapping) or not baseline.get("results"):
        return data
    results = [_result(result) for result in baseline["results"]]
    return {**data, "baseline": {**baseline, "results": results}}


def _result(data: dict[str, Any]) -> dict[str, Any]:
    if ids.FOREIGN not in {data.get("id"), data.get("check")}:
        return data
    found = dict(data)
    if cause := QUOTED.match(str(data.get("cause") or "")):
        kind = "key" if A_KEY in cause["before"] else "file"
        found["cause"] = f'{cause["before"]}: "{_line(kind, cause["line"])}"'
    if data.get("target"):
        found["target"] = _named(str(data["target"]))
    if data.get("parts"):
        found["parts"] = [_named(str(part)) for part in data["parts"]]
    return found


def _named(target: str) -> str:
    of_keys = OF_KEYS.match(target)
    return f"{of_keys['before']} {_line('key', of_keys['line'])}" if of_keys else target


def _line(kind: str, line: str) -> str:
    """Write a line in today's form, of which only the text is known."""
    if kind in {"file", "changed", "line"}:
        return outline(line)
    return keys.retold_line(line) if kind == "key" else line
