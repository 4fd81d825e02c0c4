"""Queues: those that the site declares, and what keeps them: a cluster, or Run:ai's control plane."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Protocol

from appliance.actions.kubernetes.kubeconfig import chosen
from appliance.actions.kubernetes.queue_tree import tree
from appliance.actions.sites.opening import Target, locate, open_session
from appliance.adapters.kubernetes import KubernetesApi
from appliance.adapters.runai import Account, Runai
from appliance.config.load import LoadedSite
from appliance.config.secrets import Redactor, resolve
from appliance.engine.run.lease import control_hosts, leased_by_run
from appliance.engine.session import Session
from appliance.errors import ConfigError
from appliance.hidden import hide
from appliance.models.events import Observer
from appliance.models.queue_plan import QueuePlan, QueueTree
from appliance.stages.queues import changes
from appliance.stages.queues.changes import Progress
from appliance.stages.queues.runai.apply import Applying
from appliance.stages.queues.runai.plan import Prepared, plan
from appliance.stages.scheduler.queues.rendered import Rendered, rendered
from appliance.stages.scheduler.rules.runai import SECRET
from appliance.stages.scheduler.site import RunaiOptions


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


class Keeper(Protocol):
    """What keeps the queues of a site."""

    server: str

    def plan(self) -> QueuePlan:
        """What applying would change; changes nothing. Raises ApplianceError."""
        ...

    def apply(self, made: QueuePlan, progress: Progress) -> int:
        """Carries out a plan that ``plan`` returned, and returns the number of steps. Raises ApplianceError."""
        ...


@contextmanager
def keeper_of(loaded: LoadedSite, kubeconfig: Path | None) -> Iterator[Keeper]:
    """The cluster, or the control plane that scheduler.runai names. Raises ConfigError without access to it."""
    options = loaded.site.scheduler
    if options is None or options.runai is None:
        with cluster_of(loaded, kubeconfig) as cluster:
            yield _InCluster(loaded, cluster)
        return
    # Hosts of node pools are labeled in the cluster; nothing else of it is read or changed.
    labeled = cluster_of(loaded, kubeconfig) if options.node_pools else nullcontext(None)
    with control_plane_of(loaded, options.runai) as client, labeled as cluster:
        yield _InRunai(loaded, client, cluster)


@contextmanager
def control_plane_of(loaded: LoadedSite, options: RunaiOptions) -> Iterator[Runai]:
    """Run:ai's control plane, with the site's service account. Raises ConfigError if the site names none."""
    if options.client is None or SECRET not in loaded.site.secrets:
        raise ConfigError(
            f"site {loaded.site.name} names no service account of Run:ai",
            f"create one in Run:ai, write its client ID in scheduler.runai.client and its secret in secrets.{SECRET} (docs/runai.md)",
        )
    secrets = resolve(loaded.site, loaded.folder)
    authority = loaded.folder / options.ca if options.ca else None
    account = Account(options.address, options.client, str(secrets[SECRET]), authority)

    def hide_token(token: str) -> None:
        hide([token], lambda known: Redactor(known).texts)

    with Runai(account, hide=hide_token) as client:
        yield client


class _InCluster:
    """KAI's queues, in the cluster."""

    def __init__(self, loaded: LoadedSite, cluster: KubernetesApi) -> None:
        self.server = cluster.server
        self._loaded = loaded
        self._cluster = cluster
        self._wanted: Rendered | None = None

    def plan(self) -> QueuePlan:
        """See Keeper."""
        own = self._loaded
        self._wanted = changes.for_cluster(own.site, own.profile, own.folder, self._cluster)
        return changes.plan(self._loaded.site, self._wanted, self._cluster, self.server)

    def apply(self, made: QueuePlan, progress: Progress) -> int:
        """See Keeper."""
        assert self._wanted is not None
        return changes.apply(made, self._wanted, self._cluster, progress)


class _InRunai:
    """Departments and projects, in Run:ai's control plane. ``cluster``: None if the site has no node pools."""

    def __init__(self, loaded: LoadedSite, client: Runai, cluster: KubernetesApi | None) -> None:
        self.server = client.server
        self._site = loaded.site
        self._rendered = rendered(loaded.site, loaded.profile)
        self._client = client
        self._cluster = cluster
        self._prepared: Prepared | None = None

    def plan(self) -> QueuePlan:
        """See Keeper."""
        self._prepared = plan(self._site, self._rendered, self._client, self._cluster)
        return self._prepared.plan

    def apply(self, made: QueuePlan, progress: Progress) -> int:
        """See Keeper."""
        assert self._prepared is not None
        assert self._prepared.plan is made
        return Applying(self._prepared, self._rendered, self._client, self._cluster).run(progress)


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
