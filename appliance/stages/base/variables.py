"""Variables of role ``base``: settings that all hosts of a site share."""

import re
from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from appliance.models.facts import HostFacts
from appliance.models.profile import Profile
from appliance.models.site import BMC_NETWORK, Host, Role, Site
from appliance.probe.bundle import executable
from appliance.stages.base import bundle
from appliance.stages.base.people import is_for_jobs
from appliance.stages.context import RoleContext, Variables

HPC_SYSCTL = {
    # Keep jobs in memory and on their NUMA node; Slurm binds tasks, so the kernel need not guess.
    "vm.swappiness": "1",
    "vm.zone_reclaim_mode": "0",
    "kernel.numa_balancing": "0",
    # Memory maps and watches of large Python and Java jobs.
    "vm.max_map_count": "1048576",
    "fs.inotify.max_user_instances": "8192",
    "fs.inotify.max_user_watches": "1048576",
    # Windows for 100 Gb/s over a few hundred microseconds.
    "net.core.rmem_max": "134217728",
    "net.core.wmem_max": "134217728",
    "net.ipv4.tcp_rmem": "4096 131072 134217728",
    "net.ipv4.tcp_wmem": "4096 65536 134217728",
    "net.core.somaxconn": "4096",
    # All hosts talk to all hosts when a job starts: the neighbour table must hold them.
    "net.ipv4.neigh.default.gc_thresh1": "4096",
    "net.ipv4.neigh.default.gc_thresh2": "8192",
    "net.ipv4.neigh.default.gc_thresh3": "16384",
    # Come back by itself after a kernel panic.
    "kernel.panic": "10",
}
NAMESPACED = ("net.", "fs.mqueue.", "kernel.shm", "kernel.msg", "kernel.sem")
"""Parameters with a separate value for each container (namespaces(7)); all others belong to its machine."""
MACHINE_WIDE = frozenset({"net.core.rmem_max", "net.core.wmem_max"})
"""Parameters visible in every network namespace since Linux 6.10, but set for the whole machine."""
SAFE_SYSCTL = {
    # Nobody on the network chooses a host's routes (CIS Debian Linux 12 Benchmark 3.3; lynis KRNL-6000).
    "net.ipv4.conf.all.accept_redirects": "0",
    "net.ipv4.conf.default.accept_redirects": "0",
    "net.ipv4.conf.all.send_redirects": "0",
    "net.ipv4.conf.default.send_redirects": "0",
    "net.ipv4.conf.all.accept_source_route": "0",
    "net.ipv4.conf.default.accept_source_route": "0",
    "net.ipv6.conf.all.accept_redirects": "0",
    "net.ipv6.conf.default.accept_redirects": "0",
    "net.ipv6.conf.all.accept_source_route": "0",
    "net.ipv6.conf.default.accept_source_route": "0",
    # Nobody opens a file or pipe of another's in a folder like /tmp by accident (kernel.org, admin-guide/sysctl/fs).
    "fs.protected_symlinks": "1",
    "fs.protected_hardlinks": "1",
    "fs.protected_fifos": "2",
    "fs.protected_regular": "2",
    # No module for an old line discipline, only because a program asks; no reboot by three keys of a console.
    "dev.tty.ldisc_autoload": "0",
    "kernel.ctrl-alt-del": "0",
    "kernel.core_uses_pid": "1",
}
STRICT_SYSCTL = {
    # Packets from where no answer can go are told (CIS Debian Linux 12 Benchmark 3.3); the kernel tells a few of many.
    "net.ipv4.conf.all.log_martians": "1",
    "net.ipv4.conf.default.log_martians": "1",
    # No core file of a program that has more rights than who started it.
    "fs.suid_dumpable": "0",
    "kernel.randomize_va_space": "2",
    "kernel.dmesg_restrict": "1",
}
PROFILING_SYSCTL = {
    # perf counts what one's own programs do in user and kernel mode, and knows the kernel's functions by name.
    "kernel.perf_event_paranoid": "1",
    "kernel.kptr_restrict": "0",
}
IPV6 = "net.ipv6."
"""Parameters that a kernel without IPv6 lacks and does not need."""
NOT_LOADED = ("cramfs", "freevxfs", "hfs", "hfsplus", "jffs2")
USB_STORAGE = ("uas", "usb-storage")
"""Modules that strict sites disable: rare file systems and USB storage (CIS 1.1.1)."""
OF_THE_SYSTEM = frozenset({"/", "/boot", "/boot/efi", "/usr", "/var"})
KERNEL_MODULES = ("ipmi_devintf",)
"""Modules for in-band access to the BMC; they also load without one."""
HELD_PACKAGES = (
    "^(lib)?nvidia-",
    "^cuda-",
    "^datacenter-gpu-manager",
    "^linux-(image|headers|modules)-",
    "^slurm",
    "^kube(adm|let|ctl)$",
    "^containerd",
)
"""Packages that stages install in a configured release."""


def variables(context: RoleContext) -> Variables:
    """The role's variables for one host."""
    site, host = context.site, context.host
    base = site.base
    container = in_container(site, context.own)
    bundled = bundle.address(site, context.own, "distribution")
    return {
        "base_hostname": host.name,
        "base_hosts": context.once(_names),
        "base_networks": networks(site),
        "base_pods": pods(site),
        "base_bmcs": context.once(_bmcs),
        "base_timezone": base.timezone,
        "base_container": container,
        "base_admins": [{"name": a.name, "keys": list(a.keys)} for a in base.admins],
        "base_groups": context.once(_groups),
        "base_users": context.once(_users),
        "base_homes_here": site.storage.mount_of(base.homes) is None,
        "base_crontabs": not is_for_jobs(host),
        "base_sudoers": [admin.name for admin in base.admins if admin.sudo],
        "base_root_login": site.access.user == "root",
        "base_account": site.access.user,
        "base_ssh_port": site.access.port,
        "base_ntp_servers": time_servers(site, host),
        "base_ntp_own": not site.base.ntp_servers,
        "base_ntp_clients": time_clients(site, host),
        "base_sysctl": sysctl(context.profile, site, host),
        "base_tuning": {} if container else tuning(context.profile, host),
        "base_open_files": 1048576,
        "base_kernel_modules": [] if container else list(KERNEL_MODULES),
        "base_banner": list(base.banner),
        "base_strict": base.strict,
        "base_tools": list(base.tools),
        "base_modules_off": _modules_off(context.own) if base.strict else [],
        "base_log_server": base.logs.to if base.logs else "",
        "base_log_port": base.logs.port if base.logs else 6514,
        "base_log_ca": (base.logs.ca or "") if base.logs else "",
        "base_firewall": base.firewall,
        "base_mirror": bundled or base.mirror or "",
        "base_security_mirror": bundled or base.security_mirror or base.mirror or "",
        "base_bundle": bool(bundled),
        "base_weekly_program": context.once(_weekly),
        "base_held_packages": list(HELD_PACKAGES),
    }


def _groups(context: RoleContext) -> list[Variables]:
    """Return the site's groups, and one for each user."""
    base = context.site.base
    known = [(g.name, g.gid) for g in base.groups] + [(u.name, u.uid) for u in base.users]
    return [{"name": name, "gid": gid} for name, gid in known]


def numbers(site: Site) -> dict[str, list[str]]:
    """Return uids and gids of the site with their names, so that the probe finds other accounts that have them."""
    base = site.base
    users = [f"{user.uid} {user.name}" for user in base.users]
    return {"uid": users, "gid": [*users, *(f"{group.gid} {group.name}" for group in base.groups)]}


def _users(context: RoleContext) -> list[Variables]:
    base = context.site.base
    return [
        {
            "name": user.name,
            "uid": user.uid,
            "group": user.name,
            "groups": list(user.groups),
            "home": f"{base.homes}/{user.name}",
            "shell": user.shell,
            "keys": list(user.keys),
        }
        for user in base.users
    ]


def _modules_off(facts: HostFacts | None) -> list[str]:
    """Return modules that a strict host does not load; USB storage stays if the system is on a USB disk."""
    return [*NOT_LOADED, *(() if facts and _may_lie_on_usb(facts) else USB_STORAGE)]


def _may_lie_on_usb(facts: HostFacts) -> bool:
    """Return whether the system may be on a USB disk: a volume or array does not show its disks."""
    if all(disk.transport != "usb" for disk in facts.disks):
        return False
    others = "|".join(re.escape(d.name) for d in facts.disks if d.transport != "usb")
    elsewhere = re.compile(rf"/dev/({others})(p?[0-9]+)?") if others else None
    system = [m.source for m in facts.filesystems if m.at in OF_THE_SYSTEM]
    return any(elsewhere is None or not elsewhere.fullmatch(source) for source in system)


def _weekly(context: RoleContext) -> str:
    del context
    return b64encode(executable("appliance.probe.weekly")).decode()


def _names(context: RoleContext) -> list[dict[str, str]]:
    return names(context.site)


def networks(site: Site) -> list[str]:
    """Return the networks that the hosts' firewall admits: the site's, and pods that connect to their own hosts."""
    return [*(str(network.cidr) for network in site.networks.values()), *pods(site)]


def pods(site: Site) -> list[str]:
    """Return pod networks, if the site has a cluster of its own."""
    if site.kubernetes is None or site.kubernetes.external is not None:
        return []
    return [str(site.kubernetes.pod_network)]


def _bmcs(context: RoleContext) -> list[str]:
    return bmcs(context.site)


def bmcs(site: Site) -> list[str]:
    """Return addresses of BMCs: network bmc, unless hosts have addresses in it, and BMCs outside it."""
    network = site.networks.get(BMC_NETWORK)
    own = [a for host in site.hosts for a in (host.address, *host.addresses.values())]
    apart = network and not any(address in network.cidr for address in own)
    found = [str(network.cidr)] if network and apart else []
    addresses = {host.bmc.address for host in site.hosts if host.bmc}
    return [
        *found,
        *(str(a) for a in sorted(addresses) if not (apart and network and a in network.cidr)),
    ]


def in_container(site: Site, facts: HostFacts | None) -> bool:
    """Return whether the host is a container; before the first facts, as the site declares."""
    return bool(facts.os.container) if facts else bool(site.simulated)


Parameters = Mapping[str, str]


class Chosen(NamedTuple):
    """Inputs of the kernel parameters; hosts have few different ones."""

    strict: bool
    profiling: bool
    hugepages: int
    own: tuple[tuple[str, str], ...]


def sysctl(profile: Profile, site: Site, host: Host) -> Parameters:
    """Return kernel parameters of a host; the profile overrides the defaults."""
    return _sysctl(_chosen(profile, site, host))


def _chosen(profile: Profile, site: Site, host: Host) -> Chosen:
    pages = profile.stages.hugepages_2m if Role.GPU in host.roles else 0
    own = tuple(profile.stages.sysctl.items())
    return Chosen(site.base.strict, site.base.profiling, pages, own)


def tuning(profile: Profile, host: Host) -> dict[str, str]:
    """Return what appliance-tuning sets on a GPU host, by the names in its settings."""
    wanted = profile.stages.tuning
    if Role.GPU not in host.roles:
        return {}
    found = {
        "governor": wanted.governor,
        "huge_pages": wanted.transparent_huge_pages,
        "idle_latency": wanted.idle_latency_us,
        "read_request": wanted.read_request,
        "acs": "off" if wanted.acs_disabled else None,
    }
    return {name: str(value) for name, value in found.items() if value is not None}


@lru_cache(64)
def _sysctl(chosen: Chosen) -> Parameters:
    strict = STRICT_SYSCTL if chosen.strict else {}
    profiling = PROFILING_SYSCTL if chosen.profiling else {}
    huge = {"vm.nr_hugepages": str(chosen.hugepages)} if chosen.hugepages else {}
    return {**HPC_SYSCTL, **SAFE_SYSCTL, **strict, **profiling, **huge, **dict(chosen.own)}


def judged(
    profile: Profile, site: Site, host: Host, facts: HostFacts
) -> tuple[Parameters, Parameters]:
    """Return all kernel parameters of a host, also those that a container shares, with blanks as the kernel writes them."""
    has_ipv6 = not facts.sysctl or any(key.startswith(IPV6) for key in facts.sysctl)
    return _judged(_chosen(profile, site, host), has_ipv6, bool(facts.os.container))


@lru_cache(64)
def _judged(chosen: Chosen, has_ipv6: bool, container: bool) -> tuple[Parameters, Parameters]:
    wanted = {
        key: " ".join(value.split())
        for key, value in _sysctl(chosen).items()
        if has_ipv6 or not key.startswith(IPV6)
    }
    shared = {key: value for key, value in wanted.items() if container and not _has_own(key)}
    return {key: value for key, value in wanted.items() if key not in shared}, shared


def _has_own(key: str) -> bool:
    """Return whether a container has its own value of this kernel parameter."""
    return key.startswith(NAMESPACED) and key not in MACHINE_WIDE


def names(site: Site) -> list[dict[str, str]]:
    """Return every name of the site with its address; ``gpu-1-ib`` is gpu-1 in the network "ib"."""
    found = [{"name": host.name, "address": str(host.address)} for host in site.hosts]
    for host in site.hosts:
        for network, address in host.addresses.items():
            found.append({"name": f"{host.name}-{network}", "address": str(address)})
    return found


def time_servers(site: Site, host: Host) -> list[str]:
    """Return the time servers of a host; none for the site's own reference."""
    if site.base.ntp_servers:
        return list(site.base.ntp_servers)
    reference = _reference(site)
    return [] if host.name == reference.name else [str(reference.address)]


def time_clients(site: Site, host: Host) -> list[str]:
    """Return networks that a host serves time to."""
    if site.base.ntp_servers or host.name != _reference(site).name:
        return []
    return [str(network.cidr) for network in site.networks.values()]


def _reference(site: Site) -> Host:
    return next(iter(site.with_role(Role.CONTROL)), site.hosts[0])
