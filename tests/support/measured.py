"""A site of two GPU hosts with evidence of GPT-3 and a deployment in its record."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from appliance.checks.check import View
from appliance.config import data
from appliance.engine.accept.acceptance import acceptance_of
from appliance.engine.accept.deployment_state import record_deployment
from appliance.engine.accept.evidence import keep_evidence
from appliance.engine.look.fact_history import store_facts
from appliance.engine.look.gather import Round
from appliance.engine.session import Session
from appliance.models.acceptance import Acceptance, Gate
from appliance.models.evidence import Evidence, EvidenceFile, Source
from appliance.models.facts import HostFacts
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Status, Verdict
from appliance.models.run import RunRecord
from tests.support.facts import facts_of, gpus_of

NOW = datetime.now(UTC)
GPU = "NVIDIA A100-SXM4-80GB"


HALF = Limit(value=50, unit="%", source="x")


def view_of(session: Session, **facts: HostFacts) -> View:
    return View(session.profile, session.site, facts)


def seen(session: Session, view: View | None = None, simulated: tuple[str, ...] = ()) -> Acceptance:
    return acceptance_of(session, view or view_of(session), simulated)


def gate_of(acceptance: Acceptance, name: str = "gpt3.5b") -> Gate:
    return next(g for g in acceptance.gates if g.id == name)


def deployed(
    session: Session,
    verdict: Verdict = Verdict.PASSED,
    narrowed: str = "",
    results: Sequence[CheckResult] = (),
) -> None:
    record = RunRecord.model_validate(
        {
            **dict.fromkeys(("run", "verb", "site", "profile", "user", "appliance"), "x"),
            **dict.fromkeys(("started", "finished"), NOW),
            "control_host": "x",
            "verdict": verdict,
            "narrowed": narrowed,
            "results": tuple(results),
        }
    )
    record_deployment(session, record)


def evidence_of(session: Session, *models: str, **changes: object) -> Evidence:
    results = tuple(
        CheckResult(
            id="gpt3.throughput",
            target=f"cluster/{model} bare-metal 2n",
            status=Status.PASS,
            value=97_541,
            unit="tokens/s",
            limit=92_664,
        )
        for model in models
    )
    began = datetime.now(UTC)
    files = tuple(
        EvidenceFile(
            path=f"/logs/{m}", sha256="0" * 64, size=1, part=m, began=began, dated_by="time stamps"
        )
        for m in models
    )
    limit = session.profile.limits["gpt3.throughput"]
    made = Evidence(
        benchmark="gpt3",
        source=Source.LOGS,
        origin="logs in /logs",
        files=files,
        began=began,
        dated_by="time stamps",
        site="acme",
        profile="hpc",
        gpu="A100-SXM4-80GB",
        gpus_per_host=8,
        hosts=("gpu-1", "gpu-2"),
        size=2,
        limits={f"gpt3.{m}": limit for m in models},
        results=results,
    )
    return made.model_copy(update=changes)


def measured(session: Session, **changes: object) -> None:
    keep_evidence(session, evidence_of(session, "5b", "126m", **changes))


def with_result(session: Session, **changes: object) -> None:
    evidence = evidence_of(session, "5b", "126m")
    first = evidence.results[0].model_copy(update=changes)
    keep_evidence(session, evidence.model_copy(update={"results": (first, evidence.results[1])}))


def of_real_roles(session: Session) -> Session:
    """The session with the roles that the program ships, both of whose GPU hosts have told which GPUs they have."""
    hosts = ("gpu-1", "gpu-2")
    store_facts(session, Round({h: facts_of(h, gpus=gpus_of(GPU, 8)) for h in hosts}, {}))
    return replace(session, data=data.root())
