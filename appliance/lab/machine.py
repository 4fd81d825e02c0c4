"""A host as a container: started in its own session, restarted when it reboots, ended for good."""

import os
from contextlib import suppress

from appliance.adapters.process import run, spawn
from appliance.lab import cgroups, mounts, processes
from appliance.lab.spec import Rack, RackHost

# systemd-nspawn ends with 133 when the container reboots under --keep-unit.
SUPERVISOR = """
for group in $LAB_GROUPS; do echo $$ > "$group" || exit 1; done
while :; do
  "$@"
  [ $? = 133 ] || exit 0
done
"""


def is_running(host: RackHost) -> bool:
    """Whether the host's supervisor lives; a frozen host runs too."""
    return pid(host) is not None


def pid(host: RackHost) -> int | None:
    """The supervisor's process id."""
    return processes.recall(host.folder / "pid.json")


def start(rack: Rack, host: RackHost) -> None:
    """Mount and boot the host; returns before it has booted."""
    cgroups.kill_all(host)
    # A machine's control groups end with its power. Of each that is left, kubelet asks for its container for three seconds at its start.
    cgroups.remove(host)
    mounts.mount_host(rack, host)
    cluster = rack.spec.kubernetes
    groups = " ".join(str(file) for file in cgroups.create(host, every=cluster))
    argv = ("sh", "-c", SUPERVISOR, "appliance-lab", *mounts.own_view(host), *nspawn(rack, host))
    started = spawn(
        argv,
        env={
            processes.MARK: str(rack.state_dir),
            "LAB_GROUPS": groups,
            # The kubelet of a rack's cluster knows control groups of version 1 only.
            "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "0" if cluster else "1",
        },
        log=host.folder / "console.log",
    )
    processes.remember(started, host.folder / "pid.json")


def nspawn(rack: Rack, host: RackHost) -> tuple[str, ...]:
    """The container's command line.

    The clock is the machine's, so no host may set it. The data folders are on the disk itself,
    because an overlay has no file handles and an NFS server needs them. systemd-nspawn forbids
    opening by handle, whatever the capabilities are.
    """
    data = (f"--bind={host.disk / name}:/{name}" for name in mounts.DATA_FOLDERS)
    return (
        "systemd-nspawn",
        "--quiet",
        f"--directory={host.root}",
        f"--machine={host.machine}",
        f"--hostname={host.name}",
        "--keep-unit",
        "--register=no",
        "--link-journal=no",
        "--resolv-conf=off",
        "--timezone=off",
        "--console=pipe",
        f"--network-bridge={rack.bridge}",
        "--capability=all",
        "--drop-capability=CAP_SYS_TIME",
        "--system-call-filter=open_by_handle_at",
        *data,
        *(_of_cluster(host) if rack.spec.kubernetes else ()),
        "--boot",
    )


def _of_cluster(host: RackHost) -> tuple[str, ...]:
    """Options that a container runtime and kubelet need on their host."""
    return (
        "--system-call-filter=@keyring @mount @module bpf",
        "--bind=/dev/kmsg",
        *(f"--bind={host.disk / name}:/{name}" for name in mounts.CLUSTER_FOLDERS),
    )


def stop(host: RackHost) -> None:
    """End every process of the host at once, as if its power were cut."""
    # The network of killed processes lives on for a while: it refuses connections, where a machine without power is silent, and its
    # interface keeps the host from starting again.
    run(("ip", "link", "delete", "dev", f"vb-{host.machine}"), check=False)
    supervisor = pid(host)
    if supervisor is not None:
        processes.kill(supervisor)
    cgroups.kill_all(host)
    if supervisor is not None:
        # Only a child of this very process is left as a zombie.
        with suppress(ChildProcessError):
            os.waitpid(supervisor, 0)
    (host.folder / "pid.json").unlink(missing_ok=True)


def discard(host: RackHost) -> None:
    """Stop the host and remove its control groups and mounts."""
    stop(host)
    cgroups.remove(host)
    mounts.unmount(host.folder)
