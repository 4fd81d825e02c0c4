"""What a host is asked for: programs and files, in the order in which they get room in the bundle."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    Program = tuple[str, tuple[str, ...]]

KUBECTL = ("kubectl", "--kubeconfig=/etc/kubernetes/admin.conf", "--request-timeout=10s")
JOURNAL = ("journalctl", "--no-pager", "--output=short-iso-precise", "--since={since}")
PROGRAMS: tuple[Program, ...] = (
    ("journal/units.log", (*JOURNAL, "{units}")),
    ("journal/kernel.log", (*JOURNAL, "--dmesg")),
    ("journal/warnings.log", (*JOURNAL, "--priority=warning")),
    ("kernel/dmesg.txt", ("dmesg", "--time-format=iso")),
    ("slurm/sinfo.txt", ("sinfo", "-N", "-o", "%N %P %t %E %H %G %C %m %w")),
    ("slurm/nodes.txt", ("scontrol", "show", "node")),
    ("slurm/partitions.txt", ("scontrol", "show", "partition")),
    ("slurm/reservations.txt", ("scontrol", "show", "reservation")),
    ("slurm/config.txt", ("scontrol", "show", "config")),
    ("slurm/squeue.txt", ("squeue", "--all", "--states=all", "-o", "%i %u %a %P %t %M %D %r %N")),
    ("slurm/sdiag.txt", ("sdiag",)),
    ("gpu/nvidia-smi.txt", ("nvidia-smi", "-q")),
    ("gpu/topology.txt", ("nvidia-smi", "topo", "-m")),
    ("gpu/nvlink.txt", ("nvidia-smi", "nvlink", "-s")),
    ("gpu/dcgmi-discovery.txt", ("dcgmi", "discovery", "-l")),
    ("gpu/dcgmi-health.txt", ("dcgmi", "health", "-g", "0", "-c")),
    ("fabric/ibstat.txt", ("ibstat",)),
    ("fabric/devices.txt", ("ibv_devinfo", "-v")),
    ("fabric/mst.txt", ("mst", "status", "-v")),
    ("system/failed-units.txt", ("systemctl", "--no-pager", "--full", "list-units", "--failed")),
    ("system/units.txt", ("systemctl", "--no-pager", "--full", "list-units", "--all")),
    (
        "system/processes.txt",
        ("ps", "-eo", "pid,ppid,user,stat,lstart,pcpu,pmem,rss,wchan:24,comm"),
    ),
    ("system/disks.txt", ("df", "--local", "-hT")),
    ("system/inodes.txt", ("df", "--local", "-hi")),
    ("system/blocks.txt", ("lsblk", "-o", "NAME,TYPE,SIZE,FSTYPE,MOUNTPOINTS,MODEL,STATE")),
    ("system/memory.txt", ("free", "-w")),
    ("system/pci.txt", ("lspci", "-vvnn")),
    ("system/modules.txt", ("lsmod",)),
    ("system/hardware.txt", ("dmidecode", "-t", "system,baseboard,bios,memory")),
    ("system/boots.txt", ("last", "-x", "-n", "50", "reboot", "shutdown")),
    ("system/packages-deb.txt", ("dpkg-query", "-W")),
    ("system/packages-rpm.txt", ("rpm", "-qa")),
    ("network/addresses.txt", ("ip", "-s", "address")),
    ("network/routes.txt", ("ip", "route", "show", "table", "all")),
    ("network/neighbours.txt", ("ip", "neighbour")),
    ("network/sockets.txt", ("ss", "-tulnp")),
    ("network/firewall.txt", ("nft", "list", "ruleset")),
    ("clock/sources.txt", ("chronyc", "-n", "sources")),
    ("clock/tracking.txt", ("chronyc", "-n", "tracking")),
    ("kubernetes/containers.txt", ("crictl", "ps", "-a")),
)
OF_CONTROL: tuple[Program, ...] = (
    (
        "slurm/accounting.txt",
        (
            "sacct",
            "-aXP",
            "-S",
            "{since}",
            "-o",
            "jobid,user,account,partition,state,exitcode,start,end,nodelist",
        ),
    ),
    ("slurm/limits.txt", ("sacctmgr", "-nP", "show", "assoc", "tree")),
    ("fabric/links.txt", ("iblinkinfo", "--line")),
    ("fabric/subnet-manager.txt", ("sminfo",)),
)
"""Those that read the whole cluster or send packets to all of the fabric; the first control host runs them."""
OF_CLUSTER: tuple[Program, ...] = (
    ("kubernetes/nodes.txt", (*KUBECTL, "get", "nodes", "-o", "wide")),
    ("kubernetes/nodes-described.txt", (*KUBECTL, "describe", "nodes")),
    ("kubernetes/pods.txt", (*KUBECTL, "get", "pods", "-A", "-o", "wide")),
    ("kubernetes/storage.txt", (*KUBECTL, "get", "pv,storageclass,csidriver")),
)
OF_NAMESPACE: tuple[Program, ...] = (
    (
        "kubernetes/{namespace}/state.txt",
        (*KUBECTL, "--namespace={namespace}", "get", "all", "-o", "wide"),
    ),
    (
        "kubernetes/{namespace}/events.txt",
        (*KUBECTL, "--namespace={namespace}", "get", "events", "--sort-by=.lastTimestamp"),
    ),
    ("kubernetes/{namespace}/pods.txt", (*KUBECTL, "--namespace={namespace}", "describe", "pods")),
)
"""Of the platform's namespaces only: descriptions of pods hold the environment of their containers."""
REPORTS: tuple[Program, ...] = (
    (
        "vendor/nvidia-bug-report.txt",
        ("nvidia-bug-report.sh", "--safe-mode", "--output-file", "{file}"),
    ),
    ("vendor/mstdump/{adapter}.txt", ("mstdump", "{adapter}")),
)
"""Reports of vendors. ``{file}``: the program writes it there, followed by ``.gz``; ``{adapter}``: once for each."""
OF_FABRIC: tuple[Program, ...] = (
    ("vendor/ibdiagnet.txt", ("ibdiagnet", "--output_path", "{folder}")),
)
LOGS = (
    "/var/log/slurm",
    "/var/log/munge",
    "/var/log/mysql",
    "/var/log/mariadb",
    "/var/log/ganesha",
    "/var/log/nvidia-dcgm",
    "/var/log/apt",
    "/var/log/unattended-upgrades",
)
"""Folders whose files ``*.log`` are read, with their subfolders left alone."""
NAMED_LOGS = ("opensm", "fabricmanager", "nvidia-installer", "dpkg", "dnf", "cloud-init")
"""Files /var/log/NAME*.log."""
CONTAINER_LOGS = "/var/log/pods"
