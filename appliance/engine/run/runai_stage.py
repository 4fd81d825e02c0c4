"""Runs stage ``runai``: Helm through role scheduler on the first control host, the registration from this machine."""

import hashlib
import json
from collections.abc import Callable, Sequence

from appliance.adapters.ansible import HostPlay, TaskEvent, play
from appliance.config.bounded_files import read_bytes
from appliance.engine.look.gather import Round
from appliance.engine.plan.prepare import Prepared
from appliance.engine.run import runai_client
from appliance.engine.run.cluster_stage_run import ClusterOutcome, run_reported
from appliance.engine.run.own_cluster import own_cluster
from appliance.engine.run.runai_install import Installing, install, read_files
from appliance.engine.run.stage_run import play_of
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ClusterFailed
from appliance.journal import Entry
from appliance.models.events import HostTask
from appliance.models.plan import Action, HostStage, Plan
from appliance.models.run import StageState
from appliance.stages.context import Variables
from appliance.stages.kubernetes.variables.releases import options
from appliance.stages.runai import objects, releases
from appliance.stages.runai.stage import STAGE
from appliance.stages.scheduler.queues.manifest import digest
from appliance.stages.scheduler.stage import STAGE as SCHEDULER

MINUTES = 40.0
STEPS = 6


def why(session: Session, _: Round, plan: Plan, last: Entry | None, asked: bool) -> str:
    """Return why to install: nothing was installed yet, or its values, certificates or secrets have changed."""
    if last is None:
        return "not installed yet"
    if last.data.get("digest") != _digest(session):
        return "its values or certificates have changed"
    if last.data.get("secrets") != _secrets(session):
        return "the site's secrets have changed"
    before = [s for s in STAGE.after[:1] if any(c.action.changes for c in plan.by_stage(s))]
    if before:
        return f"after stage {before[-1]}"
    return "asked for" if asked else ""


def run(session: Session, hosts: Sequence[str], _: Callable[[], Round]) -> ClusterOutcome:
    """Install, register, connect."""

    def work() -> ClusterOutcome:
        try:
            return _installed(session, hosts[0])
        except ApplianceError as error:
            cause, fix = session.redact(error.message), session.redact(error.hint)
            return ClusterOutcome(StageState.FAILED, cause=cause, fix=fix)

    return run_reported(session, STAGE.name, hosts, MINUTES, work)


def _installed(session: Session, host: str) -> ClusterOutcome:
    with own_cluster(session) as cluster:
        done = install(
            Installing(
                site=session.site,
                profile=session.profile,
                secrets=session.secrets,
                files=_files(session),
                cluster=cluster,
                attempt=lambda release, seconds: _helm(session, host, release, seconds),
                connect=lambda: runai_client.connect(session),
                before=_before(session),
                keep=runai_client.keep(session),
                progress=lambda said: session.tell(
                    HostTask(stage=STAGE.name, host=host, task=said)
                ),
            )
        )
    receipt = {
        "digest": _digest(session),
        "secrets": _secrets(session),
        "cluster": done.cluster,
        "version": done.version,
    }
    return ClusterOutcome(changes=STEPS, receipt=receipt)


def _before(session: Session) -> str:
    """The version that this machine installed last; "" before the first installation."""
    last = session.journal.last(STAGE.receipt)
    return str(last.data.get("version", "")) if last else ""


def _helm(session: Session, host: str, release: Variables, seconds: int) -> None:
    """One release by role scheduler. Raises ClusterFailed with Helm's cause."""
    variables: Variables = {
        "scheduler_first": True,
        "scheduler_releases": [release],
        "scheduler_source": options(session.site).offline("charts"),
        "scheduler_wait_s": seconds,
    }
    cell = HostStage(stage=SCHEDULER.name, host=host, action=Action.RUN)
    prepared = {(SCHEDULER.name, host): Prepared(variables, {}, "")}

    def follow(event: TaskEvent) -> None:
        session.tell(HostTask(stage=STAGE.name, host=host, task=event.task))

    def through(_: HostPlay) -> None:
        """The result comes at the end."""

    request = play_of(session, SCHEDULER, [cell], prepared, {})
    done = play(request, follow, through, session.cancelled.is_set)[host]
    if not done.ok:
        cause = session.redact(done.message or "its playbook did not end")
        raise ClusterFailed(
            cause, done.remedy or "correct it, then run appliance deploy --stage runai"
        )


def _files(session: Session) -> objects.Files:
    return read_files(
        session.site, lambda name: read_bytes(session.folder / name).decode("utf-8", "replace")
    )


def _digest(session: Session) -> str:
    """Of all that is installed, without secrets."""
    site, profile = session.site, session.profile
    made = (releases.control_plane(site, profile), releases.cluster(site, profile))
    charts = [(r.repository, r.version, r.values) for r in made]
    return digest([charts, list(objects.namespaces(site)), _files(session)])


def _secrets(session: Session) -> str:
    """Identify the secrets without revealing them."""
    known = {name: str(value) for name, value in sorted(session.secrets.items())}
    text = json.dumps({name: known[name] for name in known if name in session.site.secrets})
    return hashlib.blake2b(text.encode(), key=session.salt, digest_size=12).hexdigest()
