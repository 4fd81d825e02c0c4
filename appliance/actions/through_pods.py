"""Benchmarks on hosts of Kubernetes through its own scheduler, in place of ssh."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from appliance.acceptance.sandbox import PLAIN
from appliance.actions.opening import NoSite, Target, locate
from appliance.adapters.kubernetes import KubernetesApi
from appliance.adapters.pods import PodRemote, Way
from appliance.engine.session import Session
from appliance.errors import ConfigError
from appliance.models.events import Observer
from appliance.models.gpus import gpu_count
from appliance.models.site import Owner

BENCHMARKS = ("gpt3", "nvbandwidth", "gemm", "nccl", "fio", "hpcc")
"""Those whose work on a host is one script, and gpt3, whose ranks meet over the network of pods."""


@dataclass(frozen=True)
class Pods:
    """By whose kubeconfig, and how pods are made."""

    kubeconfig: Path
    way: Way


def trial_image(target: Target, observer: Observer) -> str:
    """Of pods that try and measure: the site's own choice; where it made none, or none is named, busybox by its digest."""
    try:
        site = locate(target, raise_rack=False, observer=observer).site
    except NoSite:
        return PLAIN
    chosen = site.kubernetes.trial_image if site.kubernetes else None
    return chosen or PLAIN


@contextmanager
def through(session: Session, pods: Pods | None) -> Iterator[Session]:
    """The session whose hosts of Kubernetes are reached through it; None: as it is. Raises ConfigError."""
    if pods is None:
        yield session
        return
    hosts = frozenset(host.name for host in session.site.gpu_hosts_of(Owner.KUBERNETES))
    if not hosts:
        raise ConfigError(
            f"--through kubernetes: no GPU host of site {session.site.name} is Kubernetes'",
            "leave it out, or: appliance node assign HOST kubernetes",
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
    """GPUs of each host of Kubernetes; none where it may offer parts of GPUs in their place."""
    site, profile = session.site, session.profile
    pools = site.scheduler.node_pools if site.scheduler else ()
    divided = site.mig.declares or any(p.mig != "none" or p.mig_on_demand for p in pools)
    hosts = () if divided else site.gpu_hosts_of(Owner.KUBERNETES)
    return {host.name: gpu_count(profile, host) for host in hosts}
