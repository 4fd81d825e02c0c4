"""Stages that another release of the program deployed: a failure there may come from checks that this release adds."""

from collections.abc import Collection, Iterable, Mapping

from appliance.engine.plan.fingerprint import files_of
from appliance.engine.session import Session
from appliance.models.facts import HostFacts, Receipt
from appliance.models.result import COMPLAINTS, CheckResult
from appliance.stages.catalog import STAGES
from appliance.stages.stage import Stage


def stages_of_other_release(
    session: Session, facts: Mapping[str, HostFacts], results: Iterable[CheckResult]
) -> tuple[str, ...]:
    """Return stages with a bad result on a host whose receipt names files of another release."""
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
    """Return the releases of these hosts; None among the hosts stands for the whole cluster."""
    return [
        receipt
        for name, found in facts.items()
        if (name in hosts or None in hosts) and (receipt := found.receipts.get(stage.name))
    ]


def _differs(session: Session, stage: Stage, receipt: Receipt) -> bool:
    files = files_of(stage, session.data)
    return any(receipt.inputs.get(name) != digest for name, digest in files.items())
