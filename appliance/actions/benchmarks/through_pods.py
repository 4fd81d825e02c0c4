"""Benchmarks on hosts of Kubernetes, run as pods by its scheduler instead of over SSH."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from appliance.acceptance.sandbox import PLAIN
from appliance.actions.sites.opening import NoSite, Target, locate
from appliance.adapters.kubernetes import KubernetesApi
from appliance.adapters.pods import PodRemote, PodTemplate
from appliance.engine.session import Session
from appliance.errors import ConfigError
from appliance.models.events import Observer
from appliance.models.gpu_counts import gpu_count
from appliance.models.site import Owner

BENCHMARKS = ("gpt3", "nvbandwidth", "gemm", "nccl", "fio", "hpcc")
"""Benchmarks whose work on a host is one script, and gpt3, whose ranks connect over the pod network."""


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
            _whole(session),
            cancelled=session.cancelled.is_set,
        )
        yield replace(session, remote=door)


def _whole(session: Session) -> dict[str, int]:
    """GPUs of each host of Kubernetes; none if it may offer fractions instead."""
    site = session.site
    pools = site.scheduler.node_pools if site.scheduler else ()
    divided = site.mig.declares or any(p.mig != "none" or p.mig_on_demand for p in pools)
    hosts = () if divided else site.gpu_hosts_of(Owner.KUBERNETES)
    return {host.name: gpu_count(session.profile_of(host.name), host) for host in hosts}
