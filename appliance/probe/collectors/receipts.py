"""Receipts of finished stages, and differences of the host from them."""

from __future__ import annotations

import json

from appliance.probe import drift, files
from appliance.probe.ask import Ask
from appliance.probe.problems import DENIED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from appliance.probe.ask import Facts
    from appliance.probe.state import Observer

FOLDER = "/var/lib/appliance/receipts"
LEASE = "/var/lib/appliance/lease"
VERSION = 1
WORDS = ("fingerprint", "written", "run", "appliance")


class Broken(Exception):
    """The receipt is invalid."""


def load(ask: Ask) -> dict[str, Facts]:
    """Return receipts by stage; an invalid one has only ``broken``. Raises OSError if they are not readable."""
    try:
        names = files.listing(ask.path(FOLDER))
    except FileNotFoundError:
        return {}
    found = {}
    for name in names:
        stage, dot, _ = name.rpartition(".json")
        if dot and not name.startswith(".") and name.endswith(".json"):
            try:
                found[stage] = parse(stage, files.read(ask.path(f"{FOLDER}/{name}")))
            except Broken as error:
                found[stage] = {"broken": str(error)}
    return found


def parse(stage: str, text: str) -> Facts:
    """A receipt as the engine wrote it. Raises Broken."""
    try:
        receipt = json.loads(text)
    except ValueError as error:
        raise Broken(f"not JSON: {error}") from error
    if not isinstance(receipt, dict) or receipt.get("version") != VERSION:
        raise Broken(f"not a receipt of version {VERSION}")
    if receipt.get("stage") != stage:
        raise Broken(f"of another stage: {receipt.get('stage')}")
    if not all(isinstance(receipt.get(word), str) for word in WORDS):
        raise Broken("lacks one of " + ", ".join(WORDS))
    resources = receipt.get("resources")
    if not isinstance(resources, list) or not all(map(_is_state, resources)):
        raise Broken("its resources are not a list of states")
    return receipt


def _is_state(state: object) -> bool:
    keys = ("kind", "name")
    return isinstance(state, dict) and all(isinstance(state.get(key), str) for key in keys)


def resources(found: dict[str, Facts]) -> list[tuple[str, str]]:
    """Return all resources of all receipts."""
    listed = (state for receipt in found.values() for state in receipt.get("resources", ()))
    return [(state["kind"], state["name"]) for state in listed]


def collect(ask: Ask, found: dict[str, Facts], observer: Observer) -> Facts:
    """The area ``receipts``: the present state of every resource, and who changes the host now."""
    looked = {stage: _receipt(ask, stage, found[stage], observer) for stage in found}
    return {"receipts": looked, **_lease(ask)}


def _lease(ask: Ask) -> Facts:
    try:
        text = files.read(ask.path(LEASE))
    except OSError:
        return {}
    if not text:
        return {}
    # Needed while a deployment is at work, and then alone.
    from appliance.probe import lease

    note = lease.held(text)
    return {"lease": note} if note else {}


def _receipt(ask: Ask, stage: str, receipt: Facts, observer: Observer) -> Facts:
    if "broken" in receipt:
        entry = _drift("receipt", f"{FOLDER}/{stage}.json", "readable", receipt["broken"])
        return {"stage": stage, **dict.fromkeys(WORDS, ""), "resources": 0, "drift": [entry]}
    left = receipt["resources"]
    changes, reasons = [], []
    for was in left:
        now = observer.look(was["kind"], was["name"])
        if was["kind"] == "file" and ("withheld" in now or "withheld" in was):
            # Its owner put something in its place, or keeps it from being read, also just after it was written: the stage puts that right.
            why = f"not read: {now['withheld']}" if "withheld" in now else "not read before"
            changes.append(_drift("file", was["name"], "as written", why))
            continue
        if "error" in was or "error" in now:
            reasons.append(f"{was['name']}: {now.get('error') or was['error']}")
            continue
        for kind, expected, found in drift.differences(was, now):
            changes.append(_drift(kind, was["name"], expected, found))
    if reasons:
        names = {(was["kind"], was["name"]) for was in left}
        kind = "" if names.isdisjoint(observer.denied) else DENIED
        ask.problem("receipts", f"{stage}: {len(reasons)} unread, {reasons[0]}", kind)
    return {
        "stage": stage,
        **{word: receipt[word] for word in WORDS},
        "inputs": receipt.get("inputs", {}),
        "resources": len(left),
        "drift": changes,
        "unread": len(reasons),
        "versions": {s["name"]: s["version"] for s in left if _versioned(s)},
    }


def _drift(kind: str, name: str, expected: str, found: str) -> Facts:
    return {"kind": kind, "name": name, "expected": expected, "found": found}


def _versioned(state: Facts) -> bool:
    return state["kind"] == "package" and isinstance(state.get("version"), str)
