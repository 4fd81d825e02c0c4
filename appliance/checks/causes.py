"""Which failure explains which others: one broken part is one finding, and what follows from it stands under it.

Only a failure explains, never a warning or a gap; what is explained keeps its own status, so no verdict gets better.
"""

from collections.abc import Iterator, Sequence

from appliance.checks.consequence import (
    Consequence,
    Failures,
    Reach,
    alerts,
    both,
    counted_at_address,
    is_of,
    is_unknown,
    is_xid,
    named_by,
    names_check,
    names_only,
    names_part,
    no_driver,
    on,
    only_of,
    read_by,
    short_of_gpus,
    slowed_by_heat,
)
from appliance.models.result import CheckResult, Status

FELL_OFF = 79
"""The Xid a driver logs of a GPU that has fallen off the bus (NVIDIA, Xid catalog)."""
SLURM_STATE = ("slurm.controller", "slurm.nodes", "slurm.gres", "slurm.accounting")
DISCOVERED = (
    "fabric.sm",
    "fabric.topology",
    "fabric.cabling",
    "fabric.links",
    "fabric.firmware",
)
PROMETHEUS = ("observe.targets", "observe.rules", "observe.alerts")
KUBERNETES_STATE = (
    "kubernetes.nodes",
    "kubernetes.topology",
    "kubernetes.versions",
    "kubernetes.images",
    "scheduler.releases",
    "scheduler.pods",
    "scheduler.gpus",
    "scheduler.rdma",
    "workloads.releases",
    "workloads.pods",
    "workloads.storage_class",
    "workloads.policies",
    "workloads.network",
)
SPREADS = ("gpu.driver_spread", "gpu.vbios_spread", "base.clock_spread")

WATCHED = (
    *("gpu.count", "gpu.driver", "gpu.error", "gpu.ecc", "gpu.remap", "gpu.pcie", "gpu.nvlink"),
    *("gpu.xid", "gpu.fabric_manager", "fabric.ports", "fabric.state", "fabric.active"),
    *("fabric.rate", "storage.mount", "storage.scratch", "base.disk", "base.clock", "slurm.munge"),
    "slurm.watch",
)
"""Checks whose faults take a host out of Slurm by its own watch (appliance/watch/rules.py)."""

CONSEQUENCES: tuple[Consequence, ...] = (
    Consequence(
        "host.reachable",
        (
            *("slurm.nodes", "slurm.gres", "kubernetes.nodes", "observe.targets"),
            *("fabric.topology", "fabric.cabling"),
        ),
        "its daemons and ports are silent too",
    ),
    Consequence(
        "host.reachable",
        (*SPREADS, *SLURM_STATE, *KUBERNETES_STATE, *DISCOVERED, *PROMETHEUS),
        "what is asked from there, or compared with it, cannot be had",
        Reach.NAMED,
        is_unknown,
    ),
    Consequence(
        "host.reachable",
        ("observe.alerts",),
        "the alert says the same",
        Reach.SITE,
        alerts("HostDown"),
    ),
    Consequence(
        "gpu.driver",
        ("gpu.*",),
        "without a driver no GPU can be asked",
        when=no_driver,
    ),
    Consequence(
        "gpu.driver",
        ("gpu.fabric_manager",),
        "the fabric manager works with its own driver only",
    ),
    Consequence(
        "gpu.driver",
        ("gpu.driver_spread",),
        "that host is the one that differs",
        Reach.NAMED,
    ),
    Consequence(
        "gpu.driver",
        ("slurm.gres",),
        "without a driver there are no device nodes to offer",
        when=lambda cause, effect: cause.value is None,
    ),
    Consequence(
        "gpu.error",
        ("gpu.*",),
        "a GPU that does not answer tells nothing of itself",
        Reach.PART,
        is_unknown,
    ),
    Consequence(
        "gpu.error",
        ("gpu.count",),
        "the GPU that is missing from the count is the one that does not answer",
        when=counted_at_address,
    ),
    Consequence(
        "gpu.error",
        ("gpu.vbios_spread",),
        "its firmware cannot be read",
        Reach.SITE,
        both(is_unknown, named_by),
    ),
    Consequence(
        "gpu.error",
        ("gpu.xid",),
        "the driver logs that it has lost the GPU",
        when=is_xid(FELL_OFF),
    ),
    Consequence(
        "gpu.count",
        ("gpu.xid",),
        "the driver logs that the GPU has fallen off the bus",
        when=is_xid(FELL_OFF),
    ),
    Consequence(
        "gpu.count",
        ("slurm.gres",),
        "Slurm offers what device nodes there are",
    ),
    Consequence(
        "gpu.count",
        ("slurm.nodes",),
        "Slurm takes a node out that registers with too few GPUs",
        when=short_of_gpus,
    ),
    Consequence(
        "slurm.gres",
        ("slurm.nodes",),
        "Slurm takes a node out that registers with too few GPUs",
        when=short_of_gpus,
    ),
    Consequence(
        "gpu.temperature",
        ("gpu.clocks",),
        "the hardware slows down what is too hot",
        Reach.PART,
        slowed_by_heat,
    ),
    Consequence(
        "gpu.fabric_manager",
        ("gpu.nvlink",),
        "without a fabric manager no NVLink comes up",
    ),
    Consequence(
        "fabric.ports",
        ("fabric.topology", "fabric.cabling", "fabric.state", "fabric.errors"),
        "the adapter that is missing is the one they speak of",
        when=names_part,
    ),
    Consequence(
        "fabric.ports",
        ("fabric.state", "fabric.active", "fabric.rate", "fabric.errors", "fabric.firmware"),
        "without a port there is nothing to judge",
        when=is_unknown,
    ),
    Consequence(
        "fabric.sm",
        ("fabric.active",),
        "without a subnet manager no port leaves INIT",
        Reach.SITE,
        lambda cause, effect: cause.host is None and "INIT" in str(effect.value).upper(),
    ),
    Consequence(
        "fabric.sm",
        ("fabric.active", "fabric.topology", "fabric.cabling"),
        "its ports hang on another fabric",
    ),
    Consequence(
        "fabric.state",
        ("fabric.sm",),
        "a port without a link hears nobody",
    ),
    Consequence(
        "fabric.state",
        ("fabric.topology", "fabric.cabling", "fabric.links", "fabric.rate", "fabric.errors"),
        "the port's link is down",
        Reach.PART,
    ),
    Consequence(
        "fabric.state",
        ("fabric.active", "fabric.rate"),
        "a port without a link is not configured and has no rate",
        when=is_unknown,
    ),
    Consequence(
        "fabric.active",
        ("fabric.rate",),
        "a port that is not active has no rate",
        when=is_unknown,
    ),
    Consequence(
        "fabric.active",
        ("fabric.topology",),
        "a port nobody configured may not be met",
        Reach.PART,
    ),
    Consequence(
        "fabric.topology",
        ("fabric.cabling",),
        "the port hangs on another fabric",
        Reach.PART,
    ),
    Consequence(
        "fabric.rate",
        ("fabric.links",),
        "the port runs at the rate of its cable",
        Reach.PART,
    ),
    Consequence(
        "base.disk",
        ("slurm.daemons", "slurm.munge", "base.failed_units", "storage.export", "storage.scratch"),
        "nothing that writes works on a full disk",
    ),
    Consequence(
        "base.foreign",
        ("base.drift",),
        "sshd goes by what it reads first",
        when=read_by("etc/ssh/", "sshd "),
    ),
    Consequence(
        "base.foreign",
        ("base.drift",),
        "systemd puts it beside the unit's own file",
        when=read_by("etc/systemd/system/", "unit file "),
    ),
    Consequence(
        "base.disk",
        ("observe.alerts",),
        "the alert says the same",
        Reach.SITE,
        alerts("FilesystemFull", "FilesystemFilling", "InodesGone"),
    ),
    Consequence(
        "base.units",
        ("base.clock",),
        "nobody keeps the clock, or tells how far it is off",
        when=both(is_of("chrony.service", "chronyd.service"), is_unknown),
    ),
    Consequence(
        "base.units",
        ("base.clock_spread",),
        "nobody tells how far that host's clock is off",
        Reach.NAMED,
        both(is_of("chrony.service", "chronyd.service"), is_unknown),
    ),
    Consequence(
        "base.clock",
        ("base.clock_spread",),
        "that host's clock is the one that is off",
        Reach.NAMED,
    ),
    Consequence(
        "base.clock",
        ("observe.alerts",),
        "the alert says the same",
        Reach.SITE,
        alerts("ClockOff"),
    ),
    *(
        Consequence(
            check,
            ("slurm.nodes", "slurm.watch"),
            "its own watch finds the host unfit for it",
            when=names_check,
        )
        for check in WATCHED
    ),
    Consequence(
        "slurm.return",
        ("slurm.nodes",),
        "the fault it was drained for is gone, the drain is not",
        when=lambda cause, effect: bool(effect.names),
    ),
    Consequence(
        "slurm.watch",
        ("slurm.return",),
        "what does not look cannot say whether it is fit",
        when=is_unknown,
    ),
    Consequence(
        "slurm.daemons",
        ("slurm.watch",),
        "Slurm's daemons have the host look at itself",
        when=is_of("slurmd"),
    ),
    Consequence(
        "slurm.daemons",
        ("slurm.watch",),
        "Slurm's daemons have hosts look at themselves",
        Reach.SITE,
        is_of("slurmctld"),
    ),
    Consequence(
        "slurm.watch",
        ("observe.alerts",),
        "the alert says the same",
        Reach.SITE,
        alerts("HostUnfitAndKept"),
    ),
    Consequence(
        "slurm.munge",
        ("slurm.daemons", "slurm.nodes", "slurm.watch"),
        "Slurm's daemons speak through munge",
    ),
    Consequence(
        "slurm.munge",
        ("base.drift",),
        "the key is the file that changed",
        when=names_only("file /etc/munge/munge.key"),
    ),
    Consequence(
        "slurm.munge",
        ("base.failed_units",),
        "it is the unit that failed",
        when=only_of("munge", "slurmd", "slurmctld", "slurmdbd"),
    ),
    Consequence(
        "slurm.daemons",
        ("base.failed_units",),
        "it is the unit that failed",
        when=only_of("slurmd", "slurmctld", "slurmdbd", "mariadb"),
    ),
    Consequence(
        "slurm.daemons",
        ("slurm.nodes",),
        "without slurmd the host takes no jobs",
        when=is_of("slurmd"),
    ),
    Consequence(
        "slurm.daemons",
        ("slurm.daemons",),
        "slurmdbd keeps its records in the database",
        when=both(is_of("mariadb"), on("slurmdbd")),
    ),
    Consequence(
        "slurm.daemons",
        ("slurm.controller",),
        "slurmctld is the controller",
        Reach.SITE,
        is_of("slurmctld"),
    ),
    Consequence(
        "slurm.daemons",
        ("slurm.accounting",),
        "accounting is slurmdbd and its database",
        Reach.SITE,
        is_of("slurmdbd", "mariadb"),
    ),
    Consequence(
        "slurm.controller",
        ("slurm.nodes", "slurm.gres", "slurm.accounting"),
        "only the controller knows them",
        Reach.SITE,
        is_unknown,
    ),
    Consequence(
        "kubernetes.api",
        KUBERNETES_STATE,
        "only the API knows them",
        Reach.SITE,
        is_unknown,
    ),
    Consequence(
        "kubernetes.services",
        ("kubernetes.kubelet", "kubernetes.nodes"),
        "kubelet does everything through it",
        when=lambda cause, effect: (
            is_of("containerd")(cause, effect) and effect.value != "cordoned"
        ),
    ),
    Consequence(
        "kubernetes.services",
        ("base.failed_units",),
        "it is the unit that failed",
        when=both(is_of("containerd"), only_of("containerd")),
    ),
    Consequence(
        "kubernetes.api",
        ("kubernetes.services",),
        "they end where they cannot renew their lease in the API",
        when=on("kube-scheduler", "kube-controller-manager"),
    ),
    Consequence(
        "kubernetes.swap",
        ("kubernetes.kubelet",),
        "kubelet does not start beside swap",
    ),
    Consequence(
        "kubernetes.ground",
        ("kubernetes.kubelet",),
        "kubelet does not start on control groups of version 1",
        when=is_of("cgroups"),
    ),
    Consequence(
        "kubernetes.kubelet",
        ("kubernetes.nodes",),
        "a node is ready while its kubelet says so",
        when=lambda cause, effect: effect.value == "not ready",
    ),
    Consequence(
        "fabric.sm",
        ("kubernetes.topology",),
        "without a subnet manager discovery meets nobody",
        Reach.SITE,
        lambda cause, effect: cause.host is None and is_unknown(cause, effect),
    ),
    Consequence(
        "fabric.topology",
        ("kubernetes.topology",),
        "the tree is not whole without that host",
        Reach.NAMED,
        is_unknown,
    ),
    Consequence(
        "kubernetes.nodes",
        ("scheduler.gpus", "scheduler.rdma"),
        "a host that is not ready gives out nothing",
    ),
    Consequence(
        "gpu.count",
        ("scheduler.gpus",),
        "the device plugin offers what GPUs there were",
    ),
    Consequence(
        "gpu.error",
        ("scheduler.gpus",),
        "the device plugin offers no GPU the driver has lost",
    ),
    Consequence(
        "gpu.driver",
        ("scheduler.gpus",),
        "without a driver the device plugin finds no GPU",
        when=lambda cause, effect: cause.value is None,
    ),
    Consequence(
        "scheduler.releases",
        ("scheduler.pods",),
        "what is not installed has no pods",
        Reach.PART,
    ),
    Consequence(
        "scheduler.releases",
        ("scheduler.gpus",),
        "the GPU Operator brings the device plugin",
        Reach.SITE,
        is_of("gpu-operator"),
    ),
    Consequence(
        "scheduler.pods",
        ("scheduler.gpus",),
        "the device plugin is a pod of the GPU Operator",
        Reach.SITE,
        is_of("gpu-operator"),
    ),
    Consequence(
        "scheduler.releases",
        ("scheduler.rdma",),
        "the Network Operator brings the device plugin",
        Reach.SITE,
        is_of("network-operator"),
    ),
    Consequence(
        "scheduler.pods",
        ("scheduler.rdma",),
        "the device plugin is a pod of the Network Operator",
        Reach.SITE,
        is_of("network-operator"),
    ),
    Consequence(
        "workloads.releases",
        ("workloads.pods",),
        "what is not installed has no pods",
        Reach.PART,
    ),
    Consequence(
        "workloads.releases",
        ("workloads.storage_class",),
        "the chart brings the StorageClass",
        Reach.SITE,
        is_of("csi-driver-nfs", "local-path-provisioner"),
    ),
    Consequence(
        "kubernetes.nodes",
        ("workloads.network",),
        "on a host that is not ready the pod network is not either",
        Reach.SITE,
        lambda cause, effect: cause.value == "not ready" and isinstance(effect.value, int),
    ),
    Consequence(
        "storage.server",
        ("storage.mount",),
        "nothing can be mounted from a server that does not run",
        Reach.SITE,
    ),
    Consequence(
        "storage.server",
        ("base.failed_units",),
        "it is the unit that failed",
        when=only_of("nfs-server", "nfs-ganesha"),
    ),
    Consequence(
        "storage.scratch",
        ("storage.scratch_size",),
        "what is not mounted has no size",
        when=lambda cause, effect: is_unknown(cause, effect) and effect.value is None,
    ),
    Consequence(
        "storage.scratch",
        ("slurm.container_room",),
        "the folder lies on the scratch",
        when=is_unknown,
    ),
    Consequence(
        "observe.exporter",
        ("observe.targets",),
        "without an exporter there is nothing to scrape",
    ),
    Consequence(
        "observe.exporter",
        ("base.failed_units",),
        "it is the unit that failed",
        when=only_of("prometheus-node-exporter"),
    ),
    Consequence(
        "observe.server",
        PROMETHEUS,
        "only Prometheus knows them",
        Reach.SITE,
        both(is_unknown, is_of("prometheus")),
    ),
    Consequence(
        "observe.server",
        ("base.failed_units",),
        "it is the unit that failed",
        when=only_of("prometheus"),
    ),
    Consequence(
        "observe.targets",
        ("observe.alerts",),
        "the alert says the same",
        Reach.SITE,
        alerts("HostDown"),
    ),
    Consequence(
        "kubernetes.api",
        ("limits.cluster",),
        "the program asks this API",
        Reach.SITE,
    ),
    Consequence(
        "limits.running",
        ("limits.cluster", "limits.metrics"),
        "what does not run looks at nothing",
        Reach.SITE,
    ),
    Consequence(
        "limits.running",
        ("base.failed_units",),
        "it is the unit that failed",
        when=only_of("appliance-limits"),
    ),
    Consequence(
        "kubernetes.api",
        ("mig.on_demand",),
        "who divides GPUs asks this API",
        Reach.SITE,
    ),
    Consequence(
        "limits.running",
        ("mig.on_demand",),
        "what does not run sees no pod that waits",
        Reach.SITE,
        is_unknown,
    ),
    Consequence(
        "gpu.driver",
        ("mig.on_demand",),
        "without its driver no GPU is divided",
    ),
    Consequence(
        "mig.on_demand",
        ("base.failed_units",),
        "it is the unit that failed",
        when=only_of("appliance-mig-demand"),
    ),
    Consequence(
        "observe.targets",
        ("limits.metrics",),
        "what is not scraped has no metrics",
        Reach.SITE,
    ),
    Consequence(
        "base.failed_units",
        ("observe.alerts",),
        "the alert says the same",
        Reach.SITE,
        alerts("UnitFailed"),
    ),
)
"""In order: the first row that fits names the cause."""


def explain(results: Sequence[CheckResult]) -> list[CheckResult]:
    """The same results; those that follow from another failure say from which."""
    failures = Failures(r for r in results if r.status is Status.FAIL)
    rows = {
        check: [row for row in CONSEQUENCES if row.concerns(check)]
        for check in {r.id for r in results if r.status is not Status.PASS}
    }
    return [_explained(result, rows.get(result.id, ()), failures) for result in results]


def _explained(result: CheckResult, rows: Sequence[Consequence], failures: Failures) -> CheckResult:
    if result.status is Status.PASS:
        return result
    found = next(_causes_of(result, rows, failures), None)
    return result.model_copy(update={"explained_by": found.name}) if found else result


def _causes_of(
    effect: CheckResult, rows: Sequence[Consequence], failures: Failures
) -> Iterator[CheckResult]:
    for row in rows:
        yield from (c for c in failures.within(row, effect) if row.leads_to(c, effect))
