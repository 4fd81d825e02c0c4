"""The way into the cluster that the site makes: as its administrator, and through a queue of a project."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from appliance.acceptance.sandbox import PLAIN
from appliance.adapters import leftovers
from appliance.adapters.kubernetes import KubernetesApi
from appliance.adapters.pods import PodRemote, PodTemplate
from appliance.benchmarks.benchmark import Benchmark
from appliance.benchmarks.project_queue import name_of, queue_of
from appliance.engine.run import kubeconfig
from appliance.engine.session import Session
from appliance.models.site import Owner
from appliance.stages.scheduler.queues.tree import hosts_of
from appliance.stages.scheduler.site import DEFAULT_POOL


@contextmanager
def own_cluster(session: Session) -> Iterator[KubernetesApi]:
    """The cluster, by a certificate for this run that is not kept: if a run is killed, the next one removes the folder."""
    folder = leftovers.private_folder(leftovers.mark(session.folder_of_run))
    try:
        made = kubeconfig.issue(session.remote, session.site, folder, 1)
        with KubernetesApi(made.file, keys_in=folder) as api:
            yield api
    finally:
        leftovers.discard(folder)


@contextmanager
def at_its_door(session: Session, benchmark: Benchmark) -> Iterator[Session]:
    """The session in which ``benchmark`` runs: with pods of a queue where it wants them and the site has one."""
    pair = queue_of(session.site)
    if not benchmark.through_queue or pair is None or isinstance(session.remote, PodRemote):
        yield session
        return
    site = session.site
    assert site.kubernetes is not None
    hosts = frozenset(hosts_of(site)[DEFAULT_POOL])
    template = PodTemplate(site.kubernetes.trial_image or PLAIN, name_of(*pair))
    with own_cluster(session) as api:
        door = PodRemote(
            session.remote,
            api,
            hosts,
            template,
            next_to_slurm=bool(site.slurm and site.gpu_hosts_of(Owner.SLURM)),
            cancelled=session.cancelled.is_set,
        )
        yield replace(session, remote=door)
