"""Describes how a resource in the cluster differs from the site, field by field."""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from appliance.adapters.kubernetes import FIELD_MANAGER, Resource
from appliance.stages.scheduler.queues.manifest import DIGEST
from appliance.text import plural

Path = tuple[str, ...]

NAMED = frozenset({"apiVersion", "kind"})
QUANTITIES = {
    "gpu": ("GPU", 1, "GPUs"),
    "cpu": ("CPU", 1000, "cores"),
    "memory": ("memory", 1000, "GB"),
}
AMOUNTS = {"quota": "quota", "deserved": "quota", "limit": "limit", "overQuotaWeight": "weight"}
WORDS = {
    "parentQueue": "parent",
    "displayName": "title",
    "preemptMinRuntime": "runtime before preemption",
    "reclaimMinRuntime": "runtime before reclaim",
}
ABSENT = "-"
IN_QUANTITIES = frozenset({"ResourceQuota", "LimitRange"})
"""Kinds with quantities, which the API server may return in another form: 10240Gi as 10Ti, 0.5 as 500m."""
QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?[0-9]{1,2}))?"
)
BINARY = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", 1)}
POWERS = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


def differences(wanted: Resource, found: Resource) -> tuple[str, ...]:
    """Return fields of the site that differ in the cluster, and fields that the site no longer sets."""
    if wanted["kind"] == "Secret":
        return () if wanted["data"] == found.get("data") else ("its content is another",)
    said = [
        f"{_field(path)} {_value(path, old)} → {_value(path, new)}"
        for path, old, new in (*_changed(wanted, found, ()), *_dropped(wanted, found))
        if path != ("metadata", "annotations", DIGEST)
        and not (wanted["kind"] in IN_QUANTITIES and _same_amount(old, new))
    ]
    return tuple(dict.fromkeys(said))


def _changed(wanted: Any, found: Any, path: Path) -> Iterator[tuple[Path, Any, Any]]:
    if isinstance(wanted, dict):
        there = found if isinstance(found, dict) else {}
        for key in wanted:
            if path or key not in NAMED:
                yield from _changed(wanted[key], there.get(key), (*path, key))
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for i, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from _changed(one, other, (*path, _item(one, i)))
    elif wanted != found:
        yield path, found, wanted


def _same_amount(one: Any, other: Any) -> bool:
    amounts = [amount_of(value) for value in (one, other)]
    return None not in amounts and amounts[0] == amounts[1]


def amount_of(value: Any) -> Decimal | None:
    """Return the value of a Kubernetes quantity; None if it is invalid."""
    found = QUANTITY.fullmatch(str(value))
    if found is None:
        return None
    number, binary, letter, exponent = found.groups()
    power = POWERS[letter] if letter else int(exponent or 0)
    factor = Decimal(BINARY[binary]) if binary else Decimal(10) ** power
    return Decimal(number) * factor


def _dropped(wanted: Resource, found: Resource) -> Iterator[tuple[Path, Any, Any]]:
    """Return fields set by an earlier apply; the server removes them if they are not set again."""
    for entry in found.get("metadata", {}).get("managedFields", ()):
        if entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply":
            for path in _owned(entry.get("fieldsV1", {}), ()):
                old = _at(found, path)
                if old is not None and _at(wanted, path) is None:
                    yield path, old, None


def _owned(fields: Mapping[str, Any], path: Path) -> Iterator[Path]:
    for key, below in fields.items():
        if not key.startswith("f:"):
            continue
        inner = [k for k in below if k.startswith("f:")] if isinstance(below, dict) else []
        if inner:
            yield from _owned(below, (*path, key[2:]))
        else:
            yield (*path, key[2:])


def _at(resource: Any, path: Path) -> Any:
    for key in path:
        resource = resource.get(key) if isinstance(resource, dict) else None
    return resource


def _item(one: Any, index: int) -> str:
    return str(one["name"]) if isinstance(one, dict) and "name" in one else str(index)


def _field(path: Path) -> str:
    inner = [part for part in path if part not in ("spec", "metadata", "resources")]
    if len(inner) > 1 and inner[-2] in QUANTITIES and inner[-1] in AMOUNTS:
        words = f"{QUANTITIES[inner[-2]][0]} {AMOUNTS[inner[-1]]}"
        return " ".join([*(p for p in inner[:-2] if p != "queues"), words])
    if len(inner) == 1:
        return WORDS.get(inner[0], inner[0])
    return ".".join(inner)


def _value(path: Path, value: Any) -> str:
    if value is None:
        return ABSENT
    if len(path) > 1 and path[-2] in QUANTITIES and path[-1] in AMOUNTS:
        _, unit, name = QUANTITIES[path[-2]]
        if path[-1] == "overQuotaWeight":
            return f"{value:g}"
        return "unbounded" if value == -1 else f"{value / unit:g} {name}"
    if isinstance(value, dict | list):
        return plural(len(value), "entry", "entries")
    return str(value)
