"""Judges a repair by the desired state, never by what is found afterwards: a receipt must not record foreign state."""

from collections.abc import Iterator, Mapping

from appliance.engine.plan.prepare import Prepared
from appliance.engine.run.diagnose import Diagnosis
from appliance.models.facts import HostFacts
from appliance.text import first_few

Managed = Mapping[tuple[str, str], Mapping[str, object]]
"""Return the (kind, name) pairs of resources that a playbook reported on one host, with the desired state of each."""
SETTLED = frozenset(
    {
        *("user", "group", "link", "sysctl", "nftables", "sshd", "keyword"),
        *("unit file", "mount options"),
    }
)
"""Kinds whose state is entirely the role's.

A package may have lost its earlier version, a program may own its file, and a folder may be on another host's
disk.
"""
OBSERVED_AS = {"unit file": "unit", "mount options": "mount"}
REMEDY = "undo the manual change there, then deploy again"


def deviations(facts: HostFacts, managed: Managed) -> Diagnosis | None:
    """Return what differs from the state that the modules reported as desired."""
    return _diagnosis([f"{thing}: {words}" for thing, words in _differences(facts, managed)])


def unrepaired_drift(
    facts: HostFacts, stage: str, managed: Managed, prepared: Prepared
) -> Diagnosis | None:
    """Return what differed from a receipt with the same inputs, and still differs."""
    receipt = facts.receipts.get(stage)
    if receipt is None or receipt.fingerprint != prepared.fingerprint:
        return None
    return _diagnosis(
        [
            f"{d.kind} {d.name}: {d.found}, not {d.expected}"
            for d in receipt.drift
            if d.kind in SETTLED and (OBSERVED_AS.get(d.kind, d.kind), d.name) in managed
        ]
    )


def _diagnosis(differences: list[str]) -> Diagnosis | None:
    if not differences:
        return None
    return Diagnosis(f"differs from the desired state: {first_few(differences)}", REMEDY)


def _differences(facts: HostFacts, managed: Managed) -> Iterator[tuple[str, str]]:
    for state in facts.resources:
        key = str(state.get("kind")), str(state.get("name"))
        wanted = managed.get(key, {})
        # If a host could not read a resource, the receipt records that and proves nothing.
        if "error" not in state:
            for field, value in wanted.items():
                if state.get(field) != value:
                    yield " ".join(key), f"{field} is {_word(state.get(field))}, not {_word(value)}"


def _word(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value)) or "none"
    text = "none" if value is None else str(value)
    return f"{text[:8]}…" if len(text) == 64 else text
