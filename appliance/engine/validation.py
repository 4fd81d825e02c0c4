"""Stage ``validate`` at work: the benchmarks, run when anything they rest on is new, else recalled."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from appliance import __version__
from appliance.benchmarks import OF_DEPLOYMENT
from appliance.benchmarks.benchmark import Outcome
from appliance.engine.benchmarking import run_benchmarks
from appliance.engine.earlier import known_facts
from appliance.engine.gather import Round
from appliance.engine.prepare import prepare
from appliance.engine.session import Session
from appliance.engine.survey import view_of
from appliance.engine.turn import Done
from appliance.journal import Entry
from appliance.models.plan import Plan
from appliance.models.result import CheckResult, Measurement, Status, lacking
from appliance.models.run import StageState, Table
from appliance.stages.catalog import STAGES

MINUTES = sum(benchmark.minutes for benchmark in OF_DEPLOYMENT)
PROOFS = tuple(check for benchmark in OF_DEPLOYMENT for check in benchmark.checks)


def why(session: Session, found: Round, plan: Plan, last: Entry | None, asked: bool) -> str:
    """The benchmarks run after every change, and once for each state of the site."""
    if plan.changes:
        return "after the changes"
    same = (
        last is not None
        and not _worked_since(session, last)
        and last.data["digest"] == _state_of(session, found)
    )
    return "" if same and not asked else "not validated in this state"


def run(session: Session, hosts: Sequence[str], look: Callable[[], Round]) -> Done:
    """Runs them on the cluster as it is now. What could not be measured is tried again by the next run."""
    found = look()
    done = run_benchmarks(session, view_of(session, found), hosts)
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
    """What an earlier run measured on the very same state, marked with which run it was."""
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
    """Whether some stage ran after the benchmarks: a repair leaves what is applied the same, and yet it is another state."""
    last = session.journal.last("host_started")
    return last is not None and last.seq > validated.seq


def _state_of(session: Session, found: Round) -> str:
    """A digest of all that the benchmarks rest on: what is applied where, what they must reach, and which boot it is.

    What is applied is made anew from the facts of this moment: a run itself changes what is known of a site.
    """
    prepared = prepare(session, known_facts(session, found), STAGES)
    state = {
        "appliance": __version__,
        "profile": session.profile.model_dump_json(),
        "container": str(session.site.slurm.containers and session.site.slurm.containers.benchmark),
        "limits": {name: bound.model_dump_json() for name, bound in session.site.limits.items()},
        "stages": {f"{s}/{h}": p.fingerprint for (s, h), p in prepared.items()},
        "boots": {name: f.os.boot_id for name, f in found.facts.items()},
    }
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
