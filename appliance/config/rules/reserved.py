"""Names, numbers and paths that Slurm, the operating system or a service owns."""

import re
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network

from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case

SLURM_WORDS = frozenset({"all", "default", "infinite", "none", "unlimited"})
"""In any case: NodeName=DEFAULT and PartitionName=DEFAULT are templates, Nodes=ALL all nodes, the others values (slurm.conf(5))."""

SYSTEM_FOLDERS = (
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/lost+found",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/sys",
    "/tmp",
    "/usr",
    "/var",
)
"""Folders of the operating system: a mount would hide them, an export would expose them."""
SHARED_FOLDERS = frozenset({"/home", "/media", "/mnt", "/opt", "/srv"})
"""Shared parents of other folders (FHS 3.0)."""
STATE_FOLDERS = ("/var/lib", "/var/backups", "/var/cache", "/var/opt", "/var/spool")
"""Where a program may have its own folder."""
STATE_OF_OTHERS = frozenset(
    f"/var/lib/{name}"
    for name in (
        [
            "apt",
            "containerd",
            "dbus",
            "dhcp",
            "dnf",
            "dpkg",
            "etcd",
            "grafana",
            "kubelet",
            "mysql",
            "nfs",
            "pcp",
            "prometheus",
            "rpm",
            "slurm",
            "slurm-llnl",
            "sudo",
            "systemd",
            "ucf",
            "update-notifier",
        ]
    )
) | {"/var/spool/cron", "/var/spool/mail", "/var/spool/slurmd", "/var/cache/apt", "/var/cache/dnf"}

ACCOUNTS = frozenset(
    [
        "adm",
        "avahi",
        "backup",
        "bin",
        "chrony",
        "colord",
        "daemon",
        "dbus",
        "dhcpcd",
        "dnsmasq",
        "fwupd-refresh",
        "ftp",
        "games",
        "gdm",
        "gnats",
        "grafana",
        "halt",
        "irc",
        "kube",
        "kubelet",
        "landscape",
        "libstoragemgmt",
        "list",
        "lp",
        "mail",
        "man",
        "messagebus",
        "mlflow",
        "munge",
        "mysql",
        "named",
        "news",
        "nobody",
        "nogroup",
        "node_exporter",
        "ntp",
        "ntpsec",
        "nvidia-persistenced",
        "nvpd",
        "nvdcgm",
        "operator",
        "opensm",
        "polkitd",
        "pollinate",
        "postfix",
        "prometheus",
        "prometheus-node-exporter",
        "proxy",
        "root",
        "rpc",
        "rpcuser",
        "rtkit",
        "saned",
        "setroubleshoot",
        "shutdown",
        "slurm",
        "slurmdbd",
        "sshd",
        "sssd",
        "statd",
        "sync",
        "sys",
        "syslog",
        "tcpdump",
        "tss",
        "unbound",
        "uucp",
        "uuidd",
        "whoopsie",
        "www-data",
    ]
)
ACCOUNT_PREFIXES = ("systemd-", "appliance-", "_")
GROUPS = frozenset(
    [
        "audio",
        "cdrom",
        "crontab",
        "dialout",
        "dip",
        "disk",
        "docker",
        "fax",
        "floppy",
        "input",
        "kmem",
        "kvm",
        "lxd",
        "netdev",
        "plugdev",
        "render",
        "sasl",
        "sgx",
        "shadow",
        "src",
        "ssh_keys",
        "staff",
        "sudo",
        "tape",
        "tty",
        "users",
        "utmp",
        "video",
        "voice",
        "wheel",
    ]
)
"""Groups of Debian's and RHEL's base systems, and groups whose members can become root, in addition to those of accounts."""
NOBODY = range(60_001, 65_536)
"""Numbers of systemd's own users, of nobody, and of values that are equal to it in 16 bits (systemd.io, UIDS-GIDS)."""

NO_HOSTS = tuple(
    IPv4Network(cidr)
    for cidr in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4")
)
"""Not for hosts: this network, loopback, link-local, multicast and reserved (RFC 6890)."""


def is_system_account(name: str) -> bool:
    """Whether a service or the system uses that account name."""
    return name in ACCOUNTS or name.startswith(ACCOUNT_PREFIXES)


def is_system_group(name: str) -> bool:
    """Whether the system, a service or the appliance uses that group name."""
    return name in GROUPS or is_system_account(name)


def inside(path: str, folder: str) -> bool:
    """Whether ``path`` is ``folder`` or inside it."""
    return path == folder or path.startswith(folder + "/")


def is_system_folder(path: str) -> bool:
    """Whether it belongs to the operating system."""
    return any(inside(path, folder) for folder in SYSTEM_FOLDERS)


def is_state_of_ours(path: str) -> bool:
    """Whether a program may own a folder there: it sets owner and mode, and removes old files."""
    if path in SHARED_FOLDERS or path.count("/") < 2:
        return False
    if any(inside(path, folder) and path != folder for folder in STATE_FOLDERS):
        return not any(inside(path, other) for other in STATE_OF_OTHERS)
    return not is_system_folder(path)


def is_for_hosts(found: IPv4Address | IPv4Network) -> bool:
    """Whether hosts can have that address, or all of that network."""
    network = IPv4Network(found) if isinstance(found, IPv4Address) else found
    return not any(network.overlaps(special) for special in NO_HOSTS)


def server(case: Case, path: KeyPath, name: str) -> Iterator[Finding]:
    """Names match the schema; a name whose last part is a number would be read as an address (RFC 1123)."""
    if not re.search(r"(^|\.)(0x[0-9a-f]*|[0-9]+)\Z", name, re.IGNORECASE):
        return
    try:
        usable = is_for_hosts(IPv4Address(name))
    except ValueError:
        usable = False
    if not usable:
        yield case.problem(
            path, f'"{name}" is not a host name or address', "such as ntp1.example.org or 10.0.0.1"
        )
