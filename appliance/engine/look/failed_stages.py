"""Stages that failed on a host and have not been proved there since. An older receipt does not count."""

from collections.abc import Mapping
from datetime import datetime

from appliance.engine.session import Session
from appliance.journal import Entry
from appliance.models.facts import HostFacts, Receipt

Unproved = Mapping[tuple[str, str], str]
"""Reason of the failure by stage and host."""


def failed_stages(session: Session, facts: Mapping[str, HostFacts]) -> Unproved:
    """Return what this journal knows; a receipt younger than the failure was written by another checkout."""
    return {
        (entry.stage, entry.host): str(entry.data.get("cause") or "no cause was reported")
        for entry in session.journal.last_of_each("host_done", "host_failed")
        if entry.kind == "host_failed" and _stands(entry, facts.get(entry.host))
    }


def _stands(entry: Entry, facts: HostFacts | None) -> bool:
    receipt = facts.receipts.get(entry.stage) if facts else None
    return receipt is not None and not _is_younger(receipt, entry.time)


def _is_younger(receipt: Receipt, than: datetime) -> bool:
    try:
        return datetime.fromisoformat(receipt.written) > than
    except (ValueError, TypeError):
        return False
