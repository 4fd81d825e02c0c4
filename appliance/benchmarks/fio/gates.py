"""The gates of storage: each value of scratch and of every shared directory that has a limit."""

from dataclasses import replace

from appliance.benchmarks.benchmark import Requirement, of_cluster, per_host
from appliance.benchmarks.gating import gate, gpu_hosts
from appliance.checks.check import View
from appliance.models.acceptance import Level
from appliance.models.bound import Bound

UNITS = {
    "seq_write": (1e9, "GB/s", "write"),
    "seq_read": (1e9, "GB/s", "read"),
    "rand_write": (1, "IOPS", "random_write"),
    "rand_read": (1, "IOPS", "random_read"),
    "create": (1, "files/s", "create"),
}
TOTALS = ("seq_write", "seq_read")
DECAY, VISIBLE, LOCKS = "fio.decay", "fio.visible", "fio.locks"
CHECKS = (
    *(f"fio.{kind}_{name}" for kind in ("scratch", "shared") for _, _, name in UNITS.values()),
    *(f"fio.total_{UNITS[part][2]}" for part in TOTALS),
    DECAY,
    VISIBLE,
    LOCKS,
)
BOUNDS = {check: Bound("GB/s") for check in CHECKS}
BOUNDS |= {check: Bound("IOPS") for check in CHECKS if "random" in check}
BOUNDS |= {check: Bound("files/s") for check in CHECKS if check.endswith("create")}
BOUNDS |= {DECAY: Bound("%", least=0, below=100), VISIBLE: Bound("s", above=0)}
del BOUNDS[LOCKS]


def gates(view: View) -> tuple[Requirement, ...]:
    """Each value of scratch and of every shared directory.

    If a site sets a limit for the visibility of others' files, locks between hosts are required, too; they have no limit to set.
    """
    storage, hosts = view.site.storage, gpu_hosts(view)
    mounts = [mount.at.removeprefix("/") for mount in storage.mounts]
    places = {
        "scratch": [storage.scratch.at.removeprefix("/")] if storage.scratch else [],
        "shared": mounts,
    }
    found: tuple[Requirement, ...] = ()
    for check in CHECKS:
        kind = check.partition(".")[2].partition("_")[0]
        parts = places.get(kind, [f"{mount} {len(hosts)} hosts" for mount in mounts])
        targets = per_host(hosts, *parts) if kind in places else of_cluster(hosts, *parts)
        # Hosts that meet are two at least.
        if parts and (check != VISIBLE or len(hosts) > 1):
            title = f"fio: {check.partition('.')[2].replace('_', ' ')}"
            bound = view.limit(check)
            found += gate(
                view, check, title, Level.STORAGE, targets, bound, ("storage",), of_gpus=False
            )
    locks = (
        replace(one, id=LOCKS, check=LOCKS, title="fio: locks", limit=None, unit="additions")
        for one in found
        if one.id == VISIBLE
    )
    return (*found, *locks)
