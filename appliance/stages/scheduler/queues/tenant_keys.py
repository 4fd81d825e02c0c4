"""Labels and annotations that KAI and NVIDIA's programs read. A project can set only those listed here.

This is an allow list, so new keys of a later KAI are refused.
"""

from appliance.stages.scheduler.queues.kai import POOL_LABEL
from appliance.stages.scheduler.queues.tenant_queues import QUEUE
from appliance.stages.scheduler.site import SchedulerOptions

READ = (
    r"^(runai.*|([a-z0-9.-]+[.])?(nvidia[.]com|kai[.]scheduler|run[.]ai|cdi[.]k8s[.]io)/.*"
    r"|gpu-(fraction|memory|group|device|index).*|mps|received-resource-type|pod-group-name"
    r"|kubernetes[.]io/config[.].*|io[.](kubernetes[.]cri|cilium|containerd|crun|katacontainers).*|run[.]oci[.].*"
    r"|([a-z0-9.-]+[.])?(nri[.]io|nri[.]containerd[.]io|noderesource[.]dev)/.*"
    r"|([a-z0-9.-]+[.])?(projectcalico[.]org|cilium[.]io|cni[.]cncf[.]io|multus-cni[.]io|ovn[.]org|ovn[.]kubernetes[.]io"
    r"|kube-router[.]io|metallb[.](io|universe[.]tf))/.*)$"
)
"""KAI v0.12 to main, NVIDIA's device plugin and container toolkit. nvidia.com/mig-* goes before a pod's request (KAI, legacy MIG).

NRI's plugins, which containerd 2 lets in, give a container devices and mounts of the host by annotations.
Kubelet and drains take a pod with kubernetes.io/config.mirror for one of the host's own. Calico, Multus and their like read a pod's
addresses, the sources it may forge and further networks from its annotations.
"""
BATCH = "kai.scheduler/batch-min-member"
PARTS = ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "gpu-fraction-container-name")
"""Annotations by which a pod requests a part of a GPU (KAI v0.12 to v0.18)."""
LABELS = (QUEUE, POOL_LABEL)
NOTES = (
    *(BATCH, "kai.scheduler/topology"),
    *("kai.scheduler/topology-preferred-placement", "kai.scheduler/topology-required-placement"),
    *PARTS,
)
FRACTIONS = r"^nvidia[.]com/container[.].+[.]gpu-memory[.](request|limit)$"
"""NVIDIA's own parts of GPUs (KAI v0.18)."""


def known(of: str, options: SchedulerOptions, *more: str, old: str = "") -> str:
    """CEL: all keys that KAI reads are allowed, or unchanged from ``old``. ``more``: annotations that are judged elsewhere."""
    fractions = f" || k.matches({FRACTIONS!r})" if options.sharing == "nvidia" else ""
    kinds = (("labels", LABELS, ""), ("annotations", (*NOTES, *more), fractions))
    told = (_known(of, old, kind, keys, also) for kind, keys, also in kinds)
    return f"(!has({of}.metadata) || ({' && '.join(told)}))"


def _known(of: str, old: str, kind: str, keys: tuple[str, ...], also: str) -> str:
    held = f"{of}.metadata.{kind}"
    before = f"{old}.metadata.{kind}"
    stood = (
        f" || ({old} != null && has({before}) && k in {before} && {before}[k] == {held}[k])"
        if old
        else ""
    )
    listed = ", ".join(f"'{key}'" for key in keys)
    return f"(!has({held}) || {held}.all(k, !k.matches({READ!r}) || k in [{listed}]{also}{stood}))"


def unchanged() -> str:
    """CEL: none of them came, went or changed."""
    both = ("object", "oldObject")
    told = (
        f"(!has({one}.metadata.{kind}) || {one}.metadata.{kind}.all(k, !k.matches({READ!r})"
        f" || (has({other}.metadata.{kind}) && k in {other}.metadata.{kind}"
        f" && {other}.metadata.{kind}[k] == {one}.metadata.{kind}[k])))"
        for kind in ("labels", "annotations")
        for one, other in (both, both[::-1])
    )
    return " && ".join(told)
