"""Access to the cluster of the site: as its administrator, by pods, and through a queue of a project."""

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
from appliance.models.gpu_counts import gpu_count
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
    """The session in which ``benchmark`` runs: with pods of a queue where it wants them and the site has one, or with pods
    of the cluster's own scheduler where its hosts meet and Slurm owns none.
    """
    site = session.site
    pair = queue_of(site) if benchmark.through_queue else None
    of_kubernetes = frozenset(host.name for host in site.gpu_hosts_of(Owner.KUBERNETES))
    of_slurm = bool(site.slurm and site.gpu_hosts_of(Owner.SLURM))
    meets = benchmark.between and of_kubernetes and not of_slurm
    if site.kubernetes is None or isinstance(session.remote, PodRemote) or not (pair or meets):
        yield session
        return
    image = site.kubernetes.trial_image or PLAIN
    with own_cluster(session) as api:
        door = PodRemote(
            session.remote,
            api,
            frozenset(hosts_of(site)[DEFAULT_POOL]) if pair else of_kubernetes,
            PodTemplate(image, name_of(*pair) if pair else ""),
            {} if pair else whole_gpus(session),
            next_to_slurm=of_slurm,
            cancelled=session.cancelled.is_set,
        )
        yield replace(session, remote=door)


def whole_gpus(session: Session) -> dict[str, int]:
    """GPUs of each host of Kubernetes; none if it may offer fractions instead."""
    site = session.site
    pools = site.scheduler.node_pools if site.scheduler else ()
    divided = site.mig.declares or any(p.mig != "none" or p.mig_on_demand for p in pools)
    hosts = () if divided else site.gpu_hosts_of(Owner.KUBERNETES)
    return {host.name: gpu_count(session.profile_of(host.name), host) for host in hosts}
