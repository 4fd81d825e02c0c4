"""Benchmarks on hosts of Kubernetes, run as pods by its scheduler instead of over SSH."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from appliance.acceptance.sandbox import PLAIN
from appliance.actions.sites.opening import NoSite, Target, locate
from appliance.adapters.kubernetes import KubernetesApi
from appliance.adapters.pods import PodRemote, PodTemplate
from appliance.engine.run.own_cluster import whole_gpus
from appliance.engine.session import Session
from appliance.errors import ConfigError
from appliance.models.events import Observer
from appliance.models.site import Owner

BENCHMARKS = ("gpt3", "dcgm", "nvbandwidth", "gemm", "nccl", "perftest", "fio", "hpcc", "burnin")
"""Benchmarks whose work on a host is one script, and those whose hosts meet: gpt3 over the pod network, others over the hosts' own."""


@dataclass(frozen=True)
class Pods:
    """The kubeconfig, and the settings of pods."""

    kubeconfig: Path
    way: PodTemplate


def trial_image(target: Target, observer: Observer) -> str:
    """Image of trial pods: the site's choice; without one, or without a site, busybox by its digest."""
    try:
        site = locate(target, raise_rack=False, observer=observer).site
    except NoSite:
        return PLAIN
    chosen = site.kubernetes.trial_image if site.kubernetes else None
    return chosen or PLAIN


@contextmanager
def through(session: Session, pods: Pods | None) -> Iterator[Session]:
    """The session that reaches hosts of Kubernetes through pods; unchanged for None. Raises ConfigError."""
    if pods is None:
        yield session
        return
    hosts = frozenset(host.name for host in session.site.gpu_hosts_of(Owner.KUBERNETES))
    if not hosts:
        raise ConfigError(
            f"--through kubernetes: site {session.site.name} has no GPU host that Kubernetes owns",
            "remove --through, or: appliance node assign HOST kubernetes",
        )
    with KubernetesApi(pods.kubeconfig) as api:
        door = PodRemote(
            session.remote,
            api,
            hosts,
            pods.way,
            whole_gpus(session),
            cancelled=session.cancelled.is_set,
        )
        yield replace(session, remote=door)
