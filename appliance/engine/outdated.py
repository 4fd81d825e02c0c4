"""Stages that another release of the program deployed: what is wrong there may be no more than what this one adds."""

from collections.abc import Collection, Iterable, Mapping

from appliance.engine.fingerprint import files_of
from appliance.engine.session import Session
from appliance.models.facts import HostFacts, Receipt
from appliance.models.result import COMPLAINTS, CheckResult
from appliance.stages.catalog import STAGES
from appliance.stages.stage import Stage


def outdated(
    session: Session, facts: Mapping[str, HostFacts], results: Iterable[CheckResult]
) -> tuple[str, ...]:
    """Stages that have a bad result, and on a host that it speaks of a receipt of other files than this program's."""
    bad: dict[str, set[str | None]] = {}
    for result in results:
        if result.status in COMPLAINTS:
            bad.setdefault(result.id, set()).add(result.host)
    return tuple(
        stage.name
        for stage in STAGES
        if (hosts := {h for i in (*stage.checks, *stage.symptoms) for h in bad.get(i, ())})
        and any(_differs(session, stage, receipt) for receipt in _receipts(stage, facts, hosts))
    )


def _receipts(
    stage: Stage, facts: Mapping[str, HostFacts], hosts: Collection[str | None]
) -> list[Receipt]:
    """Those of these hosts; None among them stands for the whole cluster."""
    return [
        receipt
        for name, found in facts.items()
        if (name in hosts or None in hosts) and (receipt := found.receipts.get(stage.name))
    ]


def _differs(session: Session, stage: Stage, receipt: Receipt) -> bool:
    files = files_of(stage, session.data)
    return any(receipt.inputs.get(name) != digest for name, digest in files.items())
