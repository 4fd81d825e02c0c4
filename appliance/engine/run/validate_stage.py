"""Runs stage ``validate``: the benchmarks run if anything they depend on is new; else their results are recalled."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from appliance import __version__
from appliance.benchmarks import of_deployment
from appliance.benchmarks.benchmark import Outcome
from appliance.engine.look.fact_history import known_facts
from appliance.engine.look.gather import Round
from appliance.engine.look.survey import view_of
from appliance.engine.plan.prepare import prepare
from appliance.engine.run.benchmark_runs import run_benchmarks
from appliance.engine.run.cluster_stage_run import ClusterOutcome
from appliance.engine.session import Session
from appliance.journal import Entry
from appliance.models.plan import Plan
from appliance.models.result import CheckResult, Measurement, Status, lacking
from appliance.models.run import StageState, Table
from appliance.models.site import Site
from appliance.stages.catalog import STAGES


def minutes(site: Site) -> float:
    """Return the expected duration of this site's benchmarks."""
    return sum(benchmark.minutes for benchmark in of_deployment(site))


def proofs(site: Site) -> tuple[str, ...]:
    """Return the ids of their verdicts."""
    return tuple(check for benchmark in of_deployment(site) for check in benchmark.checks)


def why(session: Session, found: Round, plan: Plan, last: Entry | None, asked: bool) -> str:
    """Return why to run them: after every change, and once for each state of the site."""
    if plan.changes:
        return "after the changes"
    same = (
        last is not None
        and not _worked_since(session, last)
        and last.data["digest"] == _state_of(session, found)
    )
    return "" if same and not asked else "not validated in this state"


def run(session: Session, hosts: Sequence[str], look: Callable[[], Round]) -> ClusterOutcome:
    """Run them on the cluster as it is now. The next run repeats what could not be measured."""
    found = look()
    done = run_benchmarks(session, view_of(session, found), hosts, of_deployment(session.site))
    measured = done.measured
    bad = [r for r in measured.results if r.status in {Status.FAIL, Status.ERROR}]
    receipt = None
    if done.state is StageState.DONE and not lacking(measured.results):
        receipt = {
            "digest": _state_of(session, found),
            "results": [r.model_dump(mode="json") for r in measured.results],
            "measurements": [m.model_dump(mode="json") for m in measured.measurements],
            "tables": [t.model_dump(mode="json") for t in measured.tables],
        }
    return replace(
        done,
        why="interrupted" if done.state is StageState.NOT_RUN else "",
        cause=f"benchmarks failed: {', '.join(dict.fromkeys(r.id for r in bad))}" if bad else "",
        fix=next((r.fix for r in bad if r.fix), ""),
        receipt=receipt,
    )


def recall(last: Entry) -> Outcome:
    """Return what an earlier run measured on the same state, marked with that run."""
    mark = f"measured in run {last.run}; nothing has changed since"
    stored: dict[str, list[dict[str, object]]] = json.loads(json.dumps(last.data))
    results = map(CheckResult.model_validate, stored["results"])
    measurements = map(Measurement.model_validate, stored["measurements"])
    tables = map(Table.model_validate, stored["tables"])
    return Outcome(
        tuple(r.model_copy(update={"evidence": _marked(r.evidence, mark)}) for r in results),
        tuple(m.model_copy(update={"detail": m.detail | {"recalled": mark}}) for m in measurements),
        tuple(t.model_copy(update={"note": _marked(t.note, mark)}) for t in tables),
    )


def _marked(text: str, mark: str) -> str:
    return f"{text}; {mark}" if text else mark


def _worked_since(session: Session, validated: Entry) -> bool:
    """Return whether a stage ran after the benchmarks: a repair applies the same inputs, but the state is new."""
    last = session.journal.last("host_started")
    return last is not None and last.seq > validated.seq


def _state_of(session: Session, found: Round) -> str:
    """Return a digest of what the benchmarks depend on: applied inputs, limits, and the boot.

    The inputs are computed from current facts, because a run itself changes what is known of a site.
    """
    prepared = prepare(session, known_facts(session, found), STAGES)
    state = {
        "appliance": __version__,
        "profile": session.profile.model_dump_json(),
        **{
            f"class {p.name}": p.model_dump_json()
            for p in session.site.profiles(session.profile)[1:]
        },
        "container": str(
            session.site.slurm_options.containers
            and session.site.slurm_options.containers.benchmark
        ),
        "limits": {name: bound.model_dump_json() for name, bound in session.site.limits.items()},
        "stages": {f"{s}/{h}": p.fingerprint for (s, h), p in prepared.items()},
        "boots": {name: f.os.boot_id for name, f in found.facts.items()},
    }
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
