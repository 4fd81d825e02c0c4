"""Queues: those that the site declares, and the cluster they are applied to."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appliance.actions.kubernetes.kubeconfig import chosen
from appliance.actions.kubernetes.queue_tree import tree
from appliance.actions.sites.opening import Target, locate, open_session
from appliance.adapters.kubernetes import KubernetesApi
from appliance.config.load import LoadedSite
from appliance.engine.run.lease import control_hosts, leased_by_run
from appliance.engine.session import Session
from appliance.models.events import Observer
from appliance.models.queue_plan import QueueTree
from appliance.stages.scheduler.queues.rendered import Rendered, rendered


def describe(target: Target) -> tuple[LoadedSite, Rendered]:
    """The site's queues, judged and rendered; no cluster is contacted. Raises InvalidConfig, ConfigError."""
    loaded = locate(target)
    return loaded, rendered(loaded.site, loaded.profile)


def tree_of(loaded: LoadedSite) -> QueueTree:
    """The site's queues for people."""
    assert loaded.site.scheduler is not None
    return tree(loaded.site, loaded.profile, loaded.site.scheduler)


@contextmanager
def cluster_of(loaded: LoadedSite, kubeconfig: Path | None) -> Iterator[KubernetesApi]:
    """The site's cluster."""
    with KubernetesApi(chosen(kubeconfig, loaded)) as api:
        yield api


@contextmanager
def changing(target: Target, observer: Observer) -> Iterator[Session]:
    """The site locked on this machine while its queues are changed. Raises LockedError if another run has locked it."""
    with open_session(target, "queue apply", observer, changes=True, by_ssh=False) as session:
        yield session


@contextmanager
def alone(session: Session) -> Iterator[None]:
    """The cluster locked for all control machines, by leases on its control hosts. Raises LeaseHeld, as a deployment does."""
    session.journal.append(session.run, "run_started", verb=session.verb)
    with leased_by_run(session, control_hosts(session)):
        try:
            yield
        except BaseException:
            session.journal.append(session.run, "run_finished", exit=1)
            raise
    session.journal.append(session.run, "run_finished", exit=0)
