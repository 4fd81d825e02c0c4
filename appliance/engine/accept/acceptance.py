"""The acceptance verdict on a site: the deployment is proved, and valid evidence closes every gate."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from appliance.benchmarks import BENCHMARKS
from appliance.benchmarks.benchmark import Requirement, Target
from appliance.checks.check import View
from appliance.engine.accept.deployment_state import deployment_state
from appliance.engine.accept.evidence import (
    Recorded,
    foreign_tables,
    recorded,
    results_of,
    speaking_of,
)
from appliance.engine.accept.stale_evidence import stale_reason
from appliance.engine.accept.waivers import active
from appliance.engine.look.fact_history import last_facts
from appliance.engine.session import Session
from appliance.models.acceptance import Acceptance, Accepted, Gate, GateState, gates_verdict
from appliance.models.facts import HostFacts
from appliance.models.result import (
    CLUSTER,
    SEVERITY,
    CheckResult,
    ResultKey,
    Status,
    Value,
    Verdict,
    worst_of_each,
)
from appliance.models.run import RunRecord
from appliance.models.waiver import Waiver
from appliance.report.formatting import fold
from appliance.text import plural

SHOWN = {"value", "unit", "limit", "limit_source"}
NAMED = 4
WAIVE = "appliance waive {} --reason WHY --until DATE"
"""Reason for a gate that no evidence could close."""


def with_acceptance(session: Session, view: View, record: RunRecord) -> RunRecord:
    """Return ``record`` with the verdict on the whole site and the results of external audits."""
    found = acceptance_of(session, view, record.simulated)
    tables = (*record.tables, *foreign_tables(session))
    return record.model_copy(
        update={"acceptance": found, "waivers": active(session), "tables": tables}
    )


def acceptance_of(session: Session, view: View, simulated: tuple[str, ...]) -> Acceptance:
    """Return the current state of each gate. Simulated hardware is never accepted."""
    view = replace(view, facts=_known(session, view))
    # A host that does not answer now was simulated if its last answer said so.
    marks = (area for facts in view.facts.values() for area in facts.simulated)
    simulated = tuple(sorted({*simulated, *marks}))
    gates = gates_of(session, view, requirements(view))
    if simulated:
        why = f"simulated hardware ({', '.join(simulated)}) cannot be accepted"
        return Acceptance(verdict=Accepted.SIMULATED, gates=gates, why=why)
    if not gates:
        names = [profile.name for profile in view.profiles]
        one = len(names) == 1
        said = f"profile {names[0]} sets" if one else f"profiles {' and '.join(names)} set"
        why = f"{said} no limit for a measurement of acceptance"
        return Acceptance(verdict=Accepted.NO_GATES, why=why)
    verdict = gates_verdict(gate for gate in gates if gate.holds_back)
    if verdict is Verdict.FAILED:
        return Acceptance(verdict=Accepted.NO, gates=gates)
    standing = deployment_state(session, active(session))
    if verdict is not Verdict.PASSED or standing.why:
        return Acceptance(verdict=Accepted.NOT_YET, gates=gates, why=standing.why)
    used = [waiver for gate in gates for waiver in gate.waivers]
    waivers = tuple(dict.fromkeys((*used, *standing.waivers)))
    return Acceptance(verdict=Accepted.YES, gates=gates, waivers=waivers)


def requirements(view: View) -> tuple[Requirement, ...]:
    """Yield every gate of the site, as the benchmarks declare them."""
    return tuple(wanted for benchmark in BENCHMARKS for wanted in benchmark.requirements(view))


def gates_of(session: Session, view: View, wanted: Iterable[Requirement]) -> tuple[Gate, ...]:
    """Return the state of these gates by the evidence in the site's journal."""
    known, waivers = list(recorded(session)), active(session)
    return tuple(_gate(session, view, one, known, waivers) for one in wanted)


def _known(session: Session, view: View) -> dict[str, HostFacts]:
    """Return the facts of this run; for a host that was not asked, its last answer."""
    silent = (host.name for host in view.site.hosts if host.name not in view.facts)
    known = {name: last_facts(session, name) for name in silent}
    return {name: facts for name, facts in known.items() if facts} | dict(view.facts)


def _gate(
    session: Session,
    view: View,
    wanted: Requirement,
    known: Sequence[Recorded],
    waivers: Sequence[Waiver],
) -> Gate:
    whole = tuple(w for w in waivers if w.covers(ResultKey(wanted.id, "")))
    gate = Gate(
        id=wanted.id,
        title=wanted.title,
        level=wanted.level,
        state=GateState.OPEN,
        limit=wanted.limit.value if wanted.limit else None,
        unit=wanted.limit.unit if wanted.limit else "",
        limit_source=wanted.limit.source if wanted.limit else "",
        close=_close(wanted),
        why=wanted.blocked or "no measurement of this site",
        waivers=whole,
        profile=wanted.profile,
    )
    view = _of_class(view, wanted)
    speaking = {} if wanted.blocked else speaking_of(wanted, known)
    if not speaking:
        nothing_reached = not wanted.blocked and not any(map(wanted.reached, wanted.targets))
        if nothing_reached:
            return gate.model_copy(update=_unreachable_state(wanted, wanted.targets))
        return gate
    gate = gate.model_copy(update=_source(speaking, wanted))
    old = {
        host: why
        for host, one in speaking.items()
        if (why := _stale(session, view, wanted, host, one))
    }
    fresh = Fresh.of(wanted, {host: one for host, one in speaking.items() if host not in old})
    gate = gate.model_copy(update=_judged(wanted, fresh, old))
    if gate.state is GateState.PASSED:
        return gate.model_copy(update={"waivers": ()})
    return (
        gate
        if whole
        else gate.model_copy(update={"waivers": _excused(wanted, fresh, old, waivers)})
    )


def _of_class(view: View, wanted: Requirement) -> View:
    """Return the view that the gate is judged by: the site restricted to its class."""
    return next((v for v in view.by_class() if v.profile.name == wanted.profile), view)


def _close(wanted: Requirement) -> str:
    """Return the command that closes it; "" if something has to be repaired first, which its reason names."""
    if wanted.blocked:
        return WAIVE.format(wanted.id) if wanted.forever else ""
    return wanted.close


def _excused(
    wanted: Requirement, fresh: "Fresh", old: Mapping[str | None, str], waivers: Sequence[Waiver]
) -> tuple[Waiver, ...]:
    """Return the waivers that together cover every bad result; empty if they do not suffice."""
    used: list[Waiver] = []

    def excuses(result: ResultKey) -> bool:
        keys = (ResultKey(wanted.id, result.target), result)
        found = next((w for w in waivers if w.target and any(map(w.covers, keys))), None)
        used.extend([found] if found else [])
        return found is not None

    bad = {r.name for r in fresh.results if r.status is not Status.PASS and excuses(r.key)}
    gone = {host for host in old if host and excuses(ResultKey(wanted.check, host))}
    targets = tuple(
        target
        for target in wanted.targets
        if f"{wanted.check} {target.name}" not in bad
        and _host_of(target) not in gone
        and not (
            target.name not in fresh.of_targets and excuses(ResultKey(wanted.check, target.name))
        )
    )
    kept = tuple(result for result in fresh.results if result.name not in bad)
    rest = Fresh(kept, {name: r for name, r in fresh.of_targets.items() if r.name not in bad})
    left = {host: why for host, why in old.items() if host not in gone}
    judged = _judged(replace(wanted, targets=targets), rest, left)
    return tuple(dict.fromkeys(used)) if judged.get("state") is GateState.PASSED else ()


def _stale(
    session: Session, view: View, wanted: Requirement, host: str | None, one: Recorded
) -> str:
    of_host = [target for target in wanted.targets if _host_of(target) == host]
    known = {known.name for known in view.site.hosts}
    hosts = (host,) if host in known else tuple(h for t in wanted.targets for h in t.hosts)
    return stale_reason(session, view, wanted, one, of_host or [Target(host or CLUSTER, hosts)])


def _host_of(target: Target) -> str | None:
    return None if target.of_cluster else target.name.partition("/")[0]


def _source(speaking: Mapping[str | None, Recorded], wanted: Requirement) -> dict[str, object]:
    """Name where the evidence is: the newest of several runs, dated by the oldest."""
    runs = {one.seq: one for one in speaking.values()}
    newest = runs[max(runs)]
    dates = [found for one in runs.values() if (found := one.evidence.began_of(wanted.part))]
    first = min(dates, key=lambda date: date[0], default=None)
    more = f" and {plural(len(runs) - 1, 'earlier run')}" if len(runs) > 1 else ""
    return {
        "source": f"{newest.evidence.origin}{more}",
        "run": newest.run,
        "measured": first[0] if first else None,
        "dated_by": first[1] if first else "",
    }


@dataclass(frozen=True)
class Fresh:
    """Return the results of valid evidence; for each target the one of the gate's own check."""

    results: tuple[CheckResult, ...]
    of_targets: Mapping[str, CheckResult]

    @classmethod
    def of(cls, wanted: Requirement, speaking: dict[str | None, Recorded]) -> "Fresh":
        """Return what this evidence reports about the gate."""
        results = tuple(result for result, _ in results_of(wanted, speaking))
        own = worst_of_each(r for r in results if r.id == wanted.check)
        ranked = sorted(own.values(), key=lambda r: SEVERITY.index(r.status))
        return cls(results, {r.target: r for r in ranked})


def _judged(wanted: Requirement, fresh: Fresh, old: Mapping[str | None, str]) -> dict[str, object]:
    """Return the gate's state by its results: any failure fails it, and each of its targets must pass."""
    for bad in fresh.results:
        if bad.status is Status.FAIL:
            return {
                "state": GateState.FAILED,
                "why": _of(wanted, bad),
                **bad.model_dump(include=SHOWN),
            }
    names = [target.name for target in wanted.targets]
    best = next((fresh.of_targets[name] for name in names if name in fresh.of_targets), None)
    shown = best.model_dump(include=SHOWN) if best else {}
    if old:
        return {"why": next(iter(old.values()))}
    if any(result.simulated for result in fresh.results):
        return {
            "why": "it was measured on simulated hardware, or in a container that shares its machine"
        }
    if left := [target for target in wanted.targets if target.name not in fresh.of_targets]:
        return _unmeasured(wanted, left)
    for result in fresh.results:
        if result.status is not Status.PASS and (result.required or result.target in names):
            return shown | {"why": _of(wanted, result)}
    for name in names:
        if why := _unfit(wanted, fresh.of_targets[name]):
            return {"why": f"{_named(wanted, name)}: {why}"}
    return shown | {"state": GateState.PASSED, "why": "", "close": ""}


def _unmeasured(wanted: Requirement, left: Sequence[Target]) -> dict[str, object]:
    """Return the state of a gate without results for these targets: name what a run of the benchmark would measure."""
    if near := [target.name for target in left if wanted.reached(target)]:
        return {"why": f"not measured: {_listed(wanted, near)}"}
    return _unreachable_state(wanted, left)


def _unreachable_state(wanted: Requirement, left: Iterable[Target]) -> dict[str, object]:
    """Return the state if the remaining targets are on unreachable hosts: which hosts, and how to reach them."""
    hosts = dict.fromkeys(h for target in left for h in target.hosts if h in wanted.beyond)
    verb = "is" if len(hosts) == 1 else "are"
    why = f"not measured: it runs as a Slurm job, but {fold(hosts)} {verb} not owned by Slurm"
    return {"why": why, "close": f"appliance node assign {next(iter(hosts))} slurm"}


def _unfit(wanted: Requirement, good: CheckResult) -> str:
    """Return why a pass does not count: no measurement, no number, or a unit other than the gate's; "" if it counts."""
    if wanted.limit and good.value is None:
        return "it passed without a value"
    if wanted.limit and not _is_measured(good.value):
        return f"it passed with {good.value}, which is not a measurement"
    if good.value is not None and good.unit != wanted.expected_unit:
        return f"it was measured in {good.unit or 'no unit'}, but the gate uses {wanted.expected_unit or 'no unit'}"
    return ""


def _is_measured(value: Value) -> bool:
    """Return whether a measurement can have this value: finite and not negative."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < inf


def _of(wanted: Requirement, result: CheckResult) -> str:
    return f"{_named(wanted, result.target)}: {result.cause}"


def _listed(wanted: Requirement, targets: Sequence[str]) -> str:
    more = f" and {len(targets) - NAMED} more" if len(targets) > NAMED else ""
    return f"{fold(_named(wanted, target) for target in targets[:NAMED])}{more}"


def _named(wanted: Requirement, target: str) -> str:
    """Remove from a target what the gate's name already contains: ``bare-metal 2n`` of "cluster/5b bare-metal 2n"."""
    return target.removeprefix(f"{CLUSTER}/").removeprefix(f"{wanted.part} ")
