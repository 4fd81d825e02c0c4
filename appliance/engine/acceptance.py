"""The verdict on a whole site: its deployment is proved, and every gate has evidence that counts and is good."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from pydantic import ValidationError

from appliance.benchmarks import BENCHMARKS
from appliance.benchmarks.benchmark import Requirement
from appliance.checks.check import View
from appliance.engine.earlier import gpus_at, last_facts
from appliance.engine.session import Session
from appliance.journal import Entry, New
from appliance.models.acceptance import Acceptance, Accepted, Gate, GateState, gates_verdict
from appliance.models.evidence import LogEvidence
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult, Status, Verdict
from appliance.models.run import RunRecord
from appliance.models.site import Role
from appliance.report.wording import plural

DEPLOYMENT = "deployment"
EVIDENCE = "log_evidence"
OF_HOSTS = ("host_started", "host_done", "host_failed", "host_interrupted")
"""What the journal keeps of a host in a stage."""


@dataclass(frozen=True)
class Recorded:
    """Evidence as the journal keeps it: the run that recorded it, and its number in the journal."""

    run: str
    seq: int
    evidence: LogEvidence


def note_deployment(session: Session, record: RunRecord) -> None:
    """Keeps how a deployment ended and what was deployed, for the verdict on the site."""
    ended = {"verdict": record.verdict.value, "whole": not record.narrowed}
    session.journal.append_all(session.run, [New(DEPLOYMENT, ended | _what(session))])


def _what(session: Session) -> dict[str, object]:
    """What a deployment is of. Another site's journal, another class or another set of hosts proves nothing here."""
    return {
        "site": session.site.name,
        "profile": session.profile.name,
        "hosts": sorted(host.name for host in session.site.hosts),
    }


def keep_evidence(session: Session, evidence: LogEvidence) -> None:
    """Enters evidence into the site's record."""
    session.journal.append(session.run, EVIDENCE, evidence=evidence.model_dump(mode="json"))


def with_acceptance(session: Session, view: View, record: RunRecord) -> RunRecord:
    """``record`` with the verdict on the whole site."""
    found = acceptance_of(session, view, record.simulated)
    return record.model_copy(update={"acceptance": found})


def acceptance_of(session: Session, view: View, simulated: tuple[str, ...]) -> Acceptance:
    """What is known of each gate now. Nothing simulated is ever accepted."""
    view = replace(view, facts=_known(session, view))
    # A host that is silent now was no less simulated when it last answered.
    marks = (area for facts in view.facts.values() for area in facts.simulated)
    simulated = tuple(sorted({*simulated, *marks}))
    gates = tuple(_gate(session, view, wanted) for wanted in requirements(view))
    if simulated:
        why = f"simulated hardware ({', '.join(simulated)}) cannot be accepted"
        return Acceptance(verdict=Accepted.SIMULATED, gates=gates, why=why)
    if not gates:
        why = f"profile {view.profile.name} sets no limit for a measurement of acceptance"
        return Acceptance(verdict=Accepted.NO_GATES, why=why)
    verdict = gates_verdict(gates)
    if verdict is Verdict.FAILED:
        return Acceptance(verdict=Accepted.NO, gates=gates)
    undeployed = _undeployed(session)
    whole = verdict is Verdict.PASSED and not undeployed
    return Acceptance(
        verdict=Accepted.YES if whole else Accepted.NOT_YET, gates=gates, why=undeployed
    )


def requirements(view: View) -> tuple[Requirement, ...]:
    """Every gate of the site, as the benchmarks declare them."""
    return tuple(wanted for benchmark in BENCHMARKS for wanted in benchmark.gates(view))


def _known(session: Session, view: View) -> dict[str, HostFacts]:
    """The facts of this run; of a host it did not ask, those of its last answer."""
    known = {host.name: last_facts(session, host.name) for host in view.site.hosts}
    return {name: facts for name, facts in known.items() if facts} | dict(view.facts)


def _undeployed(session: Session) -> str:
    """Why the deployment is not proved: the last of the whole site and all after it must be good; "" if they are."""
    open_since = "no deployment of the whole site is proved"
    for entry in session.journal.entries(DEPLOYMENT):
        if entry.data["verdict"] != Verdict.PASSED.value:
            open_since = f"the deployment of run {entry.run} did not pass ({entry.data['verdict']})"
        elif entry.data["whole"]:
            open_since = _differs(session, entry)
    return open_since and f"{open_since}: appliance deploy"


def _differs(session: Session, entry: Entry) -> str:
    """Why a deployment is not of this site as it is; "" where it is."""
    wanted = _what(session)
    if wanted.items() <= entry.data.items():
        return ""
    if not wanted.keys() <= entry.data.keys():
        return f"run {entry.run}, of an earlier version, did not record which hosts it deployed"
    return f"run {entry.run} deployed another site, class or hosts"


def _gate(session: Session, view: View, wanted: Requirement) -> Gate:
    gate = Gate(
        id=wanted.id,
        title=wanted.title,
        state=GateState.OPEN,
        limit=wanted.limit.value,
        unit=wanted.limit.unit,
        limit_source=wanted.limit.source,
        close="" if wanted.blocked else wanted.close,
        why=wanted.blocked or "no measurement of this site",
    )
    recorded = None if wanted.blocked else _newest(session, wanted)
    if recorded is None:
        return gate
    gate = gate.model_copy(update=_source(recorded, wanted))
    if stale := _stale(session, view, wanted, recorded):
        return gate.model_copy(update={"why": stale})
    return gate.model_copy(update=_judged(wanted, recorded.evidence))


def _newest(session: Session, wanted: Requirement) -> Recorded | None:
    """The evidence recorded last that speaks of this gate; one this program cannot read does not."""
    found = None
    for entry in session.journal.entries(EVIDENCE):
        try:
            evidence = LogEvidence.model_validate(entry.data["evidence"])
        except (KeyError, ValidationError):
            continue
        if evidence.benchmark == wanted.benchmark and _results(wanted, evidence):
            found = Recorded(entry.run, entry.seq, evidence)
    return found


def _results(wanted: Requirement, evidence: LogEvidence) -> list[CheckResult]:
    """All that the evidence says of the gate's part: ``cluster/5b bare-metal 2n`` of 5b."""
    return [r for r in evidence.results if r.target.startswith(f"cluster/{wanted.part} ")]


def _source(recorded: Recorded, wanted: Requirement) -> dict[str, object]:
    files = [f for f in recorded.evidence.files if f.model == wanted.part]
    first = min(files, key=lambda f: f.began, default=None)
    return {
        "source": f"logs in {recorded.evidence.folder}",
        "run": recorded.run,
        "measured": first.began if first else None,
        "dated_by": first.dated_by if first else "",
    }


def _stale(session: Session, view: View, wanted: Requirement, recorded: Recorded) -> str:
    """Why the evidence does not speak of the site as it is; "" where it does."""
    evidence, hosts = recorded.evidence, [h.name for h in view.site.with_role(Role.GPU)]
    if (evidence.site, evidence.profile) != (view.site.name, view.profile.name):
        return f"the evidence is of site {evidence.site} with profile {evidence.profile}"
    if wanted.gpus and wanted.gpus != {evidence.gpu}:
        return f"the evidence is of {evidence.gpu}, the site has {', '.join(sorted(wanted.gpus))}"
    if evidence.gpus_per_node != view.profile.hardware.gpu.count:
        return f"the evidence is of {evidence.gpus_per_node} GPUs a host"
    if evidence.hosts != len(hosts):
        then = plural(evidence.hosts, "GPU host")
        return f"the evidence is of a site with {then}, this one has {len(hosts)}"
    if evidence.limit != wanted.limit:
        was, now = evidence.limit, wanted.limit
        return (
            f"the limit has changed since: {was.value} {was.unit} then, {now.value} {now.unit} now"
        )
    began = min((f.began for f in evidence.files if f.model == wanted.part), default=None)
    if began is None:
        return "no log of the evidence could be read"
    changes = (_changed(session, view, wanted, host, recorded, began) for host in hosts)
    return next((why for each in changes for why in each), "")


def _changed(
    session: Session,
    view: View,
    wanted: Requirement,
    host: str,
    recorded: Recorded,
    began: datetime,
) -> Iterator[str]:
    """What has changed on a GPU host since the training began, or cannot be known to have stayed."""
    facts = view.facts.get(host)
    for stage in wanted.stages:
        last = _last_change(session, stage, host, facts)
        # The order of the journal tells what a clock that was set back would hide.
        if last and (last.time > began or last.seq > recorded.seq):
            yield (
                f"the evidence, of {_day(began)}, is older than the last change of stage {stage} on {host}"
                f" ({_day(last.time)})"
            )
    now = frozenset(gpu.uuid for gpu in facts.gpus.devices) if facts and facts.gpus else None
    then = gpus_at(session, host, began)
    if not now:
        yield f"which GPUs {host} has is not known: appliance health"
    elif then is None:
        yield f"which GPUs {host} had on {_day(began)} is not recorded: train on the site as it is deployed"
    elif now != then:
        yield f"the evidence, of {_day(began)}, is older than {plural(len(now - then), 'GPU')} of {host}"


@dataclass(frozen=True)
class Change:
    """When a stage changed a host, and as which entry of the journal; 0 where another journal has it."""

    time: datetime
    seq: int = 0


def _last_change(session: Session, stage: str, host: str, facts: HostFacts | None) -> Change | None:
    """The stage's last change of the host; a run without an end, or of another journal, may have."""
    last: Change | None = None
    begun: Change | None = None
    for entry in session.journal.entries(*OF_HOSTS, stage=stage, host=host):
        this = Change(entry.time, entry.seq)
        if entry.kind == "host_started":
            last, begun = (begun or last), this
        elif entry.kind == "host_done" and not entry.data.get("changes"):
            begun = None
        else:
            last, begun = this, None
    last = begun or last
    receipt = facts.receipts.get(stage) if facts else None
    if receipt and not session.journal.knows(receipt.run):
        with suppress(ValueError):
            written = Change(datetime.fromisoformat(receipt.written).astimezone())
            return max(written, last or written, key=lambda change: change.time)
    return last


def _day(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M}"


def _judged(wanted: Requirement, evidence: LogEvidence) -> dict[str, object]:
    """The gate's state by its results: any failure fails it, and each of its targets must be good."""
    results = _results(wanted, evidence)
    of_targets = {r.target: r for r in results if r.id == wanted.check}
    best = of_targets.get(wanted.targets[0]) or next(iter(of_targets.values()), None)
    shown = best.model_dump(include={"value", "unit", "limit", "limit_source"}) if best else {}
    for bad in results:
        if bad.status is Status.FAIL:
            state = {"state": GateState.FAILED, "why": f"{_part(bad.target)}: {bad.cause}"}
            return bad.model_dump(include={"value", "unit", "limit", "limit_source"}) | state
    if any(r.simulated for r in results):
        return {"why": "it was measured on simulated hardware"}
    missing = [t for t in wanted.targets if t not in of_targets]
    if missing:
        return {"why": f"not measured: {', '.join(map(_part, missing))}"}
    for result in results:
        if result.status is not Status.PASS and (
            result.required or result.target in wanted.targets
        ):
            return shown | {"why": f"{_part(result.target)}: {result.cause}"}
    return shown | {"state": GateState.PASSED, "why": "", "close": ""}


def _part(target: str) -> str:
    return target.partition(" ")[2]
