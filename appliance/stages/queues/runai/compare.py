"""Describes how an object of Run:ai differs from the site, field by field."""

from collections.abc import Iterator
from typing import NamedTuple

from appliance.adapters.runai import Document
from appliance.stages.queues.runai.bodies import MB, MILLICORES, Ids
from appliance.stages.scheduler.queues.runai import LABEL, LIMITS, Pool, Unit
from appliance.stages.scheduler.site import Amount

NAMES = {"gpu": "GPU", "cpu": "CPU", "memory": "memory"}
UNITS = {"gpu": "GPUs", "cpu": "cores", "memory": "GB"}
NOISE = {"gpu": 1e-6, "cpu": 1e-3, "memory": 2e-3}
"""Rounding of the control plane: a millicore, and 2 MB, because it may keep memory in MiB."""

IN_GB = {"mib": 2**20 / 1e9, "mb": 1 / MB, "gb": 1.0}
FACTORS = {"gpu": 1.0, "cpu": 1 / MILLICORES}
TITLES = {
    "interactiveJobTimeLimitSeconds": "time limit of build",
    "interactiveJobMaxIdleDurationSeconds": "idle limit of build",
    "trainingJobMaxIdleDurationSeconds": "idle limit of train",
}


class _Field(NamedTuple):
    name: str
    old: str
    new: str


def same_name(one: str, other: str) -> bool:
    """Whether two names of roles or ranks are the same: consoles print MediumLow as Medium low."""
    return _plain(one) == _plain(other)


def pool_differences(pool: Pool, found: Document) -> tuple[str, ...]:
    """Of a node pool that belongs to the site."""
    strategy = (found.get("schedulingConfiguration") or {}).get("placementStrategy") or {}
    fields = [
        _Field(f"placement of {name}", str(strategy.get(key) or "-"), pool.placement)
        for key, name in (("gpu", "GPUs"), ("cpu", "CPUs"))
    ]
    return _lines(fields)


def is_ours(found: Document, name: str) -> bool:
    """Whether a node pool is selected by our label."""
    return found.get("labelKey") == LABEL and found.get("labelValue") == name


def unit_differences(unit: Unit, found: Document, pools: Ids) -> tuple[str, ...]:
    """Of a department or project. ``pools``: ids by name; a pool that does not exist yet has none."""
    return _lines([*_shares(unit, found, pools), *_rules(unit, found, pools)])


def _shares(unit: Unit, found: Document, pools: Ids) -> Iterator[_Field]:
    entries = {}
    for entry in found.get("resources") or ():
        pool = entry.get("nodePool") or {}
        name = next((n for n in unit.shares if pools.get(n) == pool.get("id")), pool.get("name"))
        entries[name] = entry
    for name, amounts in unit.shares.items():
        before = f"pool {name}: " if len(unit.shares) > 1 else ""
        entry = entries.get(name)
        if entry is None:
            yield _Field(f"{before}share", "-", "as in the site")
            continue
        for resource, amount in amounts.items():
            for field in _amount(resource, amount, entry.get(resource)):
                yield field._replace(name=before + field.name)
        # Releases before 3.0 called it priority.
        rank = str(entry.get("rank") or entry.get("priority") or "-")
        if not same_name(rank, unit.rank):
            yield _Field(f"{before}rank", rank, unit.rank)


def _amount(resource: str, wanted: Amount | None, found: object) -> Iterator[_Field]:
    own = found if isinstance(found, dict) else {}
    units = IN_GB.get(str(own.get("units", "")).lower(), 1 / MB)
    factor = FACTORS.get(resource, units)
    quota = (_number(own.get("deserved")) or 0.0) * factor
    limit = _number(own.get("limit"))
    # The command line of Run:ai writes -1 for no limit.
    limit = None if limit is None or limit < 0 else limit * factor
    given = wanted or Amount(quota=0, limit=None)
    name, unit, noise = NAMES[resource], UNITS[resource], NOISE[resource]
    if abs(quota - given.quota) > noise:
        yield _Field(f"{name} quota", f"{quota:g} {unit}", f"{given.quota:g} {unit}")
    if (limit is None) != (given.limit is None) or abs((limit or 0) - (given.limit or 0)) > noise:
        yield _Field(f"{name} limit", _bound(limit, unit), _bound(given.limit, unit))
    # Without a limit above the guarantee, no idle resources are divided by the weight.
    if wanted and (wanted.limit is None or wanted.limit > wanted.quota):
        weight = _number(own.get("overQuotaWeight"))
        if weight is None or abs(weight - wanted.weight) > NOISE["gpu"]:
            yield _Field(
                f"{name} weight", "-" if weight is None else f"{weight:g}", f"{wanted.weight:g}"
            )


def _rules(unit: Unit, found: Document, pools: Ids) -> Iterator[_Field]:
    if unit.rules is None:
        return
    own = found.get("schedulingRules") or {}
    for key in LIMITS.values():
        yield _Field(TITLES[key], _seconds(own.get(key)), _seconds(unit.rules.get(key)))
    # Whether the API lists names or ids here is uncertain: both are read.
    names = {identity: name for name, identity in pools.items()}
    listed = [names.get(str(item), str(item)) for item in found.get("defaultNodePools") or ()]
    yield _Field("default pools", ", ".join(listed) or "-", ", ".join(unit.pools))
    if found.get("enforceRunaiScheduler") is False:
        yield _Field("only Run:ai's scheduler", "no", "yes")


def _lines(fields: list[_Field]) -> tuple[str, ...]:
    return tuple(f"{f.name} {f.old} → {f.new}" for f in fields if f.old != f.new)


def _bound(limit: float | None, unit: str) -> str:
    return "unbounded" if limit is None else f"{limit:g} {unit}"


def _seconds(value: object) -> str:
    number = _number(value)
    if not number:
        return "-"
    for each, unit in ((3600, "h"), (60, "m")):
        if number % each == 0:
            return f"{number / each:g}{unit}"
    return f"{number:g}s"


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())
