"""Runs stage ``queues``: applies the site's queues to its own cluster once the scheduler is deployed."""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress

from appliance.engine.look.gather import Round
from appliance.engine.run.cluster_stage_run import ClusterOutcome, run_reported
from appliance.engine.run.own_cluster import own_cluster
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.journal import Entry
from appliance.models.events import HostTask
from appliance.models.plan import Plan
from appliance.models.queue_plan import Change
from appliance.models.run import StageState
from appliance.models.site import Role
from appliance.stages.queues import changes
from appliance.stages.queues.stage import STAGE
from appliance.stages.scheduler.queues.namespaces import NGC_KEY
from appliance.stages.scheduler.queues.rendered import rendered
from appliance.text import plural

MINUTES = 0.1
TOKEN = ("systemctl", "start", "appliance-limits-token.service")
"""Its timer checks every two minutes whether its account exists (role limits)."""


def why(session: Session, _: Round, plan: Plan, last: Entry | None, asked: bool) -> str:
    """Return why to apply them: they differ from those applied last, or the cluster or its scheduler may be new."""
    if last is None:
        return "not brought yet"
    if last.data.get("digest") != rendered(session.site, session.profile).digest:
        return "queues changed since the last apply: appliance queue plan"
    if last.data.get("secrets", "") != _secrets(session):
        return "the site's secrets have changed"
    anew = [s for s in STAGE.after if any(c.action.changes for c in plan.by_stage(s))]
    if anew or _worked_since(session, last.seq):
        return f"after stage {anew[-1] if anew else STAGE.after[-1]}"
    return "asked for" if asked else ""


def run(session: Session, hosts: Sequence[str], _: Callable[[], Round]) -> ClusterOutcome:
    """Apply them."""

    def work() -> ClusterOutcome:
        try:
            return _brought(session, hosts[0])
        except ApplianceError as error:
            cause = session.redact(error.message)
            return ClusterOutcome(StageState.FAILED, cause=cause, fix=error.hint)

    return run_reported(session, STAGE.name, hosts, MINUTES, work)


def _brought(session: Session, host: str) -> ClusterOutcome:
    """Raises ApplianceError before any change if something prevents it."""
    site = session.site
    plain = rendered(site, session.profile)
    with own_cluster(session) as cluster:
        wanted = changes.for_cluster(site, session.profile, session.folder, cluster)
        made = changes.plan(site, wanted, cluster, cluster.server)
        if made.refused:
            raise _in_the_way(made.refused)
        done = changes.apply(
            made,
            wanted,
            cluster,
            lambda said: session.tell(HostTask(stage=STAGE.name, host=host, task=said)),
        )
    if done:
        for control in site.with_role(Role.CONTROL):
            with suppress(ApplianceError):
                session.remote.run(control.name, TOKEN, timeout=90)
    receipt = {"digest": plain.digest, "secrets": _secrets(session)}
    return ClusterOutcome(changes=done, receipt=receipt)


def _in_the_way(refused: tuple[Change, ...]) -> ConfigError:
    first, *others = refused
    more = f"; and {plural(len(others), 'more')}" if others else ""
    return ConfigError(
        f"{first.kind} {first.title}: {'; '.join(first.details)}{more}",
        first.remedy or "appliance queue plan lists everything that blocks the change",
    )


def _secrets(session: Session) -> str:
    """Identify a registry key without revealing it; "" if the site has none.

    The salt includes other secrets, too: if one of those changed, the queues are applied again and nothing changes.
    """
    key = session.secrets.get(NGC_KEY)
    if key is None:
        return ""
    return hashlib.blake2b(str(key).encode(), key=session.salt, digest_size=12).hexdigest()


def _worked_since(session: Session, seq: int) -> bool:
    """Return whether the cluster or its scheduler was deployed after the queues were applied, in any run."""
    last = (session.journal.last("host_started", stage=stage) for stage in STAGE.after)
    return any(entry is not None and entry.seq > seq for entry in last)
