"""A repair is judged by what was wanted, never by what is found after it: a receipt records no foreign state."""

from collections.abc import Iterator, Mapping

from appliance.engine.diagnose import Diagnosis
from appliance.engine.prepare import Prepared
from appliance.models.facts import HostFacts
from appliance.text import first_few

Managed = Mapping[tuple[str, str], Mapping[str, object]]
"""The (kind, name) pairs of resources a playbook reported on one host, with what was wanted of each."""
SETTLED = frozenset(
    {
        *("user", "group", "link", "sysctl", "nftables", "sshd", "keyword"),
        *("unit file", "mount options"),
    }
)
"""Kinds whose state is wholly a role's. A package may have no earlier version any more, a file be its program's own,
and a folder be one that lies on another host's disk."""
OBSERVED_AS = {"unit file": "unit", "mount options": "mount"}
REMEDY = "undo by hand what somebody changed there, then deploy again"


def unlike(facts: HostFacts, managed: Managed) -> Diagnosis | None:
    """What is not as the modules said they wanted it."""
    return _told([f"{thing}: {words}" for thing, words in _differences(facts, managed)])


def still_adrift(
    facts: HostFacts, stage: str, managed: Managed, prepared: Prepared
) -> Diagnosis | None:
    """What differed from a receipt of the very same inputs, and does so still."""
    receipt = facts.receipts.get(stage)
    if receipt is None or receipt.fingerprint != prepared.fingerprint:
        return None
    return _told(
        [
            f"{d.kind} {d.name}: {d.found}, not {d.expected}"
            for d in receipt.drift
            if d.kind in SETTLED and (OBSERVED_AS.get(d.kind, d.kind), d.name) in managed
        ]
    )


def _told(differences: list[str]) -> Diagnosis | None:
    if not differences:
        return None
    return Diagnosis(f"not as it was wanted: {first_few(differences)}", REMEDY)


def _differences(facts: HostFacts, managed: Managed) -> Iterator[tuple[str, str]]:
    for state in facts.resources:
        key = str(state.get("kind")), str(state.get("name"))
        wanted = managed.get(key, {})
        # Where a host could not look, the receipt says so, and proves nothing.
        if "error" not in state:
            for field, value in wanted.items():
                if state.get(field) != value:
                    yield " ".join(key), f"{field} is {_word(state.get(field))}, not {_word(value)}"


def _word(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value)) or "none"
    text = "none" if value is None else str(value)
    return f"{text[:8]}…" if len(text) == 64 else text
