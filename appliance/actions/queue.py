"""Queues: what the site describes, and the cluster that is to have them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appliance.actions.bounds import check_ids
from appliance.actions.kubeconfig import chosen
from appliance.actions.opening import Target, open_session
from appliance.actions.queue_tree import tree
from appliance.adapters.kubernetes import KubernetesApi
from appliance.config.load import LoadedSite, load_site
from appliance.engine.lease import control_hosts, leased_by_run
from appliance.engine.session import Session
from appliance.errors import ConfigError
from appliance.models.events import Observer
from appliance.models.queue_plan import QueueTree
from appliance.stages.scheduler.queues.rendered import Rendered, rendered


def describe(target: Target) -> tuple[LoadedSite, Rendered]:
    """The site's queues, judged and rendered; no cluster is contacted. Raises InvalidConfig, ConfigError."""
    if target.inventory is None:
        raise ConfigError(
            "queues belong to a site", "name it with --inventory DIR, or change to its folder"
        )
    loaded = load_site(target.inventory, target.profile, check_ids=check_ids())
    return loaded, rendered(loaded.site, loaded.profile)


def tree_of(loaded: LoadedSite) -> QueueTree:
    """The site's queues as people read them."""
    assert loaded.site.scheduler is not None
    return tree(loaded.site, loaded.profile, loaded.site.scheduler)


@contextmanager
def cluster_of(loaded: LoadedSite, kubeconfig: Path | None) -> Iterator[KubernetesApi]:
    """The site's cluster."""
    with KubernetesApi(chosen(kubeconfig, loaded)) as api:
        yield api


@contextmanager
def changing(target: Target, observer: Observer) -> Iterator[Session]:
    """The site held on this machine, for who changes its queues. Raises LockedError where another run has it."""
    with open_session(target, "queue apply", observer, changes=True, by_ssh=False) as session:
        yield session


@contextmanager
def alone(session: Session) -> Iterator[None]:
    """The cluster held for all control machines, by notes on its control hosts. Raises LeaseHeld, as a deployment does."""
    session.journal.append(session.run, "run_started", verb=session.verb)
    with leased_by_run(session, control_hosts(session)):
        try:
            yield
        except BaseException:
            session.journal.append(session.run, "run_finished", exit=1)
            raise
    session.journal.append(session.run, "run_finished", exit=0)
