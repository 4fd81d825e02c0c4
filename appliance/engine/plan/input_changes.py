"""Explains what changed inside a variable: the journal keeps the digests of the parts of every applied value."""

from collections.abc import Iterable, Mapping

from appliance.engine.plan.fingerprint import Digests, changed_inputs
from appliance.engine.plan.prepare import Prepared
from appliance.engine.session import Session
from appliance.journal import New
from appliance.models.facts import Receipt
from appliance.stages.context import Shared
from appliance.text import first_few

KIND = "variable"
SECRET = "a secret of the site, which is the key of all settings' digests"
KEYS = ("name", "path", "at")
"""Keys that identify an item of a list, in this order."""

Parts = Mapping[str, str]
"""Name of a part and its digest, with the salt of the value."""


def store_parts(session: Session, stage: str, applied: Iterable[Prepared]) -> None:
    """Store the parts of applied values, each value once."""
    known = {str(entry.data["digest"]) for entry in session.journal.entries(KIND, stage=stage)}
    key = _key(session)
    fresh: dict[str, New] = {}
    for one in applied:
        for name, value in one.variables.items():
            digest = one.inputs[name]
            if digest in known or digest in fresh:
                continue
            if found := _parts(session, value):
                data = {"name": name, "digest": digest, "parts": found, "key": key}
                fresh[digest] = New(KIND, data, stage=stage)
    session.journal.append_all(session.run, fresh.values())


def changes_since_receipt(
    session: Session, stage: str, receipt: Receipt, now: Prepared
) -> list[str]:
    """Return inputs that differ from the receipt's, with the changed parts if known: "slurm_nodes (gpu-3 added)".

    With another secret all digests differ, and nothing is known of the settings themselves.
    """
    names = changed_inputs(receipt.inputs, now.inputs)
    if not any(name in now.variables for name in names):
        return names
    kept = {
        str(entry.data["digest"]): entry.data
        for entry in session.journal.entries(KIND, stage=stage)
    }
    before = {name: kept[d] for name, d in receipt.inputs.items() if d in kept}
    if any(data["key"] != _key(session) for data in before.values()):
        return [SECRET, *(name for name in names if name not in now.variables)]
    return [
        _change_text(
            name,
            before[name]["parts"] if name in before else None,
            _parts(session, now.variables.get(name)),
        )
        for name in names
    ]


def changes_between(session: Session, before: Prepared, now: Prepared) -> list[str]:
    """Compare two preparations in the same way."""
    return [
        _change_text(
            name,
            _parts(session, before.variables.get(name)),
            _parts(session, now.variables.get(name)),
        )
        for name in changed_inputs(before.inputs, now.inputs)
    ]


def _change_text(name: str, before: object, now: Parts) -> str:
    if not isinstance(before, Mapping) or not (before or now):
        return name
    told = [f"{part} added" for part in now if part not in before]
    told += [f"{part} removed" for part in before if part not in now]
    told += [f"{part} changed" for part in now if before.get(part, now[part]) != now[part]]
    return f"{name} ({first_few(told)})" if told else name


def _key(session: Session) -> str:
    """Identifies a digest key without revealing it."""
    return Digests(session.salt, Shared()).of("")


def _parts(session: Session, value: object) -> Parts:
    """Return keys of a mapping, names of a list's items, or its texts; nothing for values without names."""
    digests = Digests(session.salt, Shared())
    return {name: digests.of(part) for name, part in _items(value)}


def _items(value: object) -> list[tuple[str, object]]:
    if isinstance(value, Mapping):
        return [(str(key), part) for key, part in value.items()]
    if not isinstance(value, list | tuple):
        return []
    found = [(_name(item), item) for item in value]
    return found if all(name for name, _ in found) else []


def _name(item: object) -> str:
    if isinstance(item, Mapping):
        return next((str(item[key]) for key in KEYS if isinstance(item.get(key), str)), "")
    # A Secret is not a str, and its text is not a name.
    return item if type(item) is str else ""
