"""Stage ``queues`` at work: the site's own cluster gets the site's queues once its scheduler is there."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from appliance.adapters import leftovers
from appliance.adapters.kubernetes import KubernetesApi
from appliance.engine import kubeconfig
from appliance.engine.gather import Round
from appliance.engine.session import Session
from appliance.engine.turn import Done, turn
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
"""What looks every two minutes whether there is an account for it by now (role limits)."""


def why(session: Session, _: Round, plan: Plan, last: Entry | None, asked: bool) -> str:
    """They are brought if others than those brought last are wanted, or the cluster or its scheduler may be new."""
    if last is None:
        return "not brought yet"
    if last.data.get("digest") != rendered(session.site, session.profile).digest:
        return "others than those brought last: appliance queue plan"
    if last.data.get("secrets", "") != _secrets(session):
        return "the site's secrets are others"
    anew = [s for s in STAGE.after if any(c.action.changes for c in plan.by_stage(s))]
    if anew or _worked_since(session, last.seq):
        return f"after stage {anew[-1] if anew else STAGE.after[-1]}"
    return "asked for" if asked else ""


def run(session: Session, hosts: Sequence[str], _: Callable[[], Round]) -> Done:
    """Brings them."""

    def work() -> Done:
        try:
            return _brought(session, hosts[0])
        except ApplianceError as error:
            cause = session.redact(error.message)
            return Done(StageState.FAILED, cause=cause, fix=error.hint)

    return turn(session, STAGE.name, hosts, MINUTES, work)


def _brought(session: Session, host: str) -> Done:
    """Raises ApplianceError, before any change where something stands in their way."""
    site = session.site
    plain = rendered(site, session.profile)
    wanted = changes.with_secrets(site, session.folder, plain)
    with _cluster(session) as cluster:
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
    return Done(changes=done, receipt=receipt)


@contextmanager
def _cluster(session: Session) -> Iterator[KubernetesApi]:
    """The cluster, by a certificate for this run that nobody keeps: of a killed one the next run finds the folder."""
    folder = leftovers.private_folder(leftovers.mark(session.folder_of_run))
    try:
        made = kubeconfig.issue(session.remote, session.site, folder, 1)
        with KubernetesApi(made.file, keys_in=folder) as api:
            yield api
    finally:
        leftovers.discard(folder)


def _in_the_way(refused: tuple[Change, ...]) -> ConfigError:
    first, *others = refused
    more = f"; and {plural(len(others), 'more')}" if others else ""
    return ConfigError(
        f"{first.kind} {first.title}: {'; '.join(first.details)}{more}",
        first.remedy or "appliance queue plan names all that stands in the way",
    )


def _secrets(session: Session) -> str:
    """Tells one key of a registry from the next, and nothing of it; "" where the site has none.

    The salt is made of other secrets, too: where one of those changed, the queues are brought once more and nothing changes.
    """
    key = session.secrets.get(NGC_KEY)
    if key is None:
        return ""
    return hashlib.blake2b(str(key).encode(), key=session.salt, digest_size=12).hexdigest()


def _worked_since(session: Session, seq: int) -> bool:
    """Whether the cluster or its scheduler was deployed after the queues were brought, in whatever run."""
    last = (session.journal.last("host_started", stage=stage) for stage in STAGE.after)
    return any(entry is not None and entry.seq > seq for entry in last)
