"""Checks what all stages need of a host: operating system, clock, kernel parameters, units, free space, and size."""

import re
from collections.abc import Iterable, Mapping

from appliance.checks.causes import UNASKED, Cause, Reach, both, is_of, is_unknown
from appliance.checks.check import (
    ALL_ROLES,
    GPU_HOSTS,
    Check,
    ClusterCheck,
    HostCheck,
    Nature,
    View,
    failed,
    not_assessed,
    passed,
)
from appliance.models.bound import Bound
from appliance.models.facts import HostFacts, Unit
from appliance.models.result import CheckResult, Judgement, place
from appliance.models.site import Host
from appliance.stages.base import ids
from appliance.stages.base.causes import FULL_DISK, read_by
from appliance.stages.base.checks.access import judge_access
from appliance.stages.base.checks.advisories import judge_advisories
from appliance.stages.base.checks.boot import judge_boot, judge_start
from appliance.stages.base.checks.claims import judge_claims
from appliance.stages.base.checks.clock import judge_clock, judge_clock_spread
from appliance.stages.base.checks.drift import judge_drift
from appliance.stages.base.checks.foreign import judge_foreign, judge_purge
from appliance.stages.base.checks.kernel import judge_kernel_log
from appliance.stages.base.checks.memory_errors import judge_memory_errors
from appliance.stages.base.checks.neighbours import judge_neighbours
from appliance.stages.base.checks.nvme import LEAST, judge_nvme
from appliance.stages.base.checks.pcie_errors import judge_pcie_errors
from appliance.stages.base.checks.room import judge_disk, judge_memory
from appliance.stages.base.checks.size import judge_cpu, judge_memory_size, judge_numa
from appliance.stages.base.checks.tuning import (
    judge_pcie_firmware,
    judge_pcie_tuning,
    judge_tuning,
)
from appliance.stages.base.checks.weekly import judge_weekly
from appliance.stages.base.variables import judged
from appliance.stages.units import revived
from appliance.text import plural

DBUS, LOGIND = "dbus.service", "systemd-logind.service"
OF_THE_SYSTEM = (DBUS, "systemd-journald.service", LOGIND)
"""Units that logins and logs of every service need; judged only if present, because a small system may lack one."""
UNITS = (
    "ssh.service",
    "sshd.service",
    "chrony.service",
    "chronyd.service",
    "appliance-firewall.service",
    *OF_THE_SYSTEM,
)
"""All units that the probe reads; the operating system's family decides which of them are judged."""
OF_USERS = re.compile(
    r"user(-runtime-dir)?@[0-9]+\.service|session-c?[0-9]+\.scope|systemd-coredump@[0-9-]+\.service"
)
"""Units that any user can make fail: by killing their own service manager, by a process that outlives its session, or by a core dump that takes longer than systemd waits."""
ENABLED = frozenset({"enabled", "static", "alias", "indirect", "generated"})


def judge_os(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if the profile supports the release."""
    supported = view.profile.software.operating_systems
    release = facts.os.release
    common = {"limit": ", ".join(supported), "limit_source": f"profile {view.profile.name}"}
    if "os" in facts.errors:
        return [not_assessed(host.name, facts.gap("os"), **common)]
    if release in supported:
        return [passed(host.name, release, **common)]
    return [
        failed(
            host.name,
            f"{release} is not supported by this profile",
            f"install one of {', '.join(supported)}, or add {release} to software.operating_systems",
            value=release,
            **common,
        )
    ]


def judge_sysctl(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if every kernel parameter of the stage is set; in a container, only its own are checked."""
    own, others = judged(view.profile, view.site, host, facts)
    shared = sorted(others)
    # The kernel shows some of net. only to the machine's own network namespace, so a container lacks them.
    if facts.os.container:
        shared += [key for key in own if key not in facts.sysctl]
        own = {key: value for key, value in own.items() if key in facts.sysctl}
    yield from _judge_own(host, facts, own)
    if shared:
        yield not_assessed(
            place(host.name, "machine's kernel"),
            f"{plural(len(shared), 'parameter belongs', 'parameters belong')} to the container's machine",
            required=False,
            evidence=", ".join(shared),
        )


def _judge_own(host: Host, facts: HostFacts, own: Mapping[str, str]) -> Iterable[Judgement]:
    unlike = [key for key, value in own.items() if facts.sysctl.get(key) != value]
    unread = [key for key in unlike if key not in facts.sysctl]
    wrong = [key for key in unlike if " ".join(facts.sysctl.get(key, own[key]).split()) != own[key]]
    common = {"unit": "parameters", "limit": len(own), "limit_source": "role base and profile"}
    if wrong:
        live = ", ".join(f"{key} is {facts.sysctl[key]}, not {own[key]}" for key in wrong)
        fix = f"appliance deploy --stage base --hosts {host.name} sets it; grep -rs {wrong[0]} /etc/sysctl.d /run/sysctl.d /usr/lib/sysctl.d shows other files that set it"
        value = len(own) - len(wrong) - len(unread)
        return [failed(host.name, live, fix, value=value, **common)]
    if unread or not own:
        why = facts.gap("sysctl", f"not read: {', '.join(unread) or 'any'}")
        return [not_assessed(host.name, why, **common)]
    return [passed(host.name, len(own), **common)]


def judge_units(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if ssh, time service and firewall run and are enabled at boot."""
    for name in units(view, facts):
        unit = facts.units.get(name)
        target = place(host.name, name)
        if unit is None or unit.active == "unknown":
            yield not_assessed(target, facts.gap("units"))
        elif complaint := _complaint(unit):
            fix = f"journalctl -u {name} on the host shows why; appliance deploy --stage base --hosts {host.name} starts it"
            fix = revived(unit, name, host.name, fix)
            yield failed(target, complaint, fix, value=unit.active)
        else:
            yield passed(target, unit.active)
    yield from judge_start(host, facts)
    yield from _of_the_system(host, facts)


def _of_the_system(host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Return existing ones that do not run. logind stops with dbus, but does not start with it."""
    down = {
        name: complaint
        for name in OF_THE_SYSTEM
        if (unit := facts.units.get(name)) and unit.load in {"loaded", "masked"}
        if (complaint := _complaint(unit))
    }
    for name, complaint in down.items():
        unit = facts.units[name]
        if name == LOGIND and DBUS in down and unit.load == "loaded":
            continue
        names = f"{name} {LOGIND}" if name == DBUS and LOGIND in down else name
        unmask = f"systemctl unmask {name}; " if unit.load == "masked" else ""
        start = f"on {host.name}: {unmask}systemctl start {names}"
        fix = revived(unit, name, host.name, start)
        yield failed(place(host.name, name), complaint, fix, value=unit.active)


def _is_its_home(cause: CheckResult, effect: CheckResult) -> bool:
    """Of the storage host the exported folder is the home that users see through the mount."""
    user = cause.target.rpartition("/")[2]
    return bool(effect.names) and all(
        name.startswith("home /") and name.rpartition("/")[2] == user for name in effect.names
    )


def units(view: View, facts: HostFacts) -> tuple[str, ...]:
    """Return the units that must run on a host of this family."""
    debian = facts.os.id in {"debian", "ubuntu"} or "debian" in facts.os.like
    names = ("ssh.service", "chrony.service") if debian else ("sshd.service", "chronyd.service")
    return (*names, "appliance-firewall.service") if view.site.base.firewall else names


def _complaint(unit: Unit) -> str:
    if unit.load != "loaded":
        return f"the unit is {unit.load}"
    if unit.active != "active":
        return f"the unit is {unit.active} ({unit.sub})"
    return (
        ""
        if unit.enabled in ENABLED
        else f"it runs, but is {unit.enabled or 'not enabled'} at boot"
    )


def judge_failed_units(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if no unit has failed, except those that users can make fail."""
    failures = tuple(f for f in facts.os.failed_units if not OF_USERS.fullmatch(f))
    if failures:
        cause = f"failed: {', '.join(failures)}"
        fix = f"journalctl -u {failures[0]} on the host shows why; then: systemctl restart {failures[0]}; if it is no longer needed: systemctl reset-failed {failures[0]}"
        return [
            failed(
                host.name,
                cause,
                fix,
                value=len(failures),
                unit="units",
                limit=0,
                names=failures,
            )
        ]
    # "degraded" says that a unit has failed; without its name nobody knows which.
    known = {"running", "degraded"} if facts.os.failed_units else {"running"}
    if facts.os.state not in known:
        why = facts.gap("os", f"the state of systemd is {facts.os.state or 'unknown'}")
        return [not_assessed(host.name, why)]
    return [passed(host.name, 0, unit="units", limit=0)]


def _lies_below(cause: CheckResult, effect: CheckResult) -> bool:
    """Return whether all changes are files below the folder of the cause, or keys read from there."""
    folder = f"/{cause.target.partition('/')[2]}/"
    rest = [name for name in effect.names if folder not in name]
    return len(rest) < len(effect.names) and all(name.startswith("keys of user ") for name in rest)


def _is_drop_in(cause: CheckResult, effect: CheckResult) -> bool:
    """Return whether the file is a drop-in of the daemon whose limits or processors are judged."""
    file, of = cause.target.partition("/")[2], effect.target.partition("/")[2]
    return bool(of) and file.startswith(f"etc/systemd/system/{of.partition(',')[0]}.service.d/")


def _of_packages(cause: CheckResult, effect: CheckResult) -> bool:
    """Return whether all changes are packages whose installation was interrupted."""
    changed = {name.removeprefix("package ") for name in effect.names}
    return bool(changed) and changed <= {*cause.names}


CHECKS: tuple[Check, ...] = (
    HostCheck(
        ids.OS,
        "Operating system",
        ALL_ROLES,
        judge_os,
        "Distribution and release from os-release, compared with the systems that the profile supports. Other releases have other package "
        "names and versions, which are untested.",
        limit="software.operating_systems of the profile",
    ),
    HostCheck(
        ids.CLOCK,
        "Clock",
        ALL_ROLES,
        judge_clock,
        "Whether chronyd has servers and follows one, and how far the clock is off. A source without an update for 3 h is a warning, and so "
        "are 3 queries in a row that no server answered; 8 fail. Munge, TLS and job logs need synchronised clocks. Usual causes: a firewall blocks the time server, or the host was never synchronised.",
        limit="0.1 s off its source (own choice)",
        bound=Bound("s", most=60),
        causes=(
            Cause("host.reachable", "its time server is that host", Reach.NAMED),
            Cause(
                ids.UNITS,
                "no daemon synchronises the clock or reports its offset",
                when=both(is_of("chrony.service", "chronyd.service"), is_unknown),
            ),
        ),
    ),
    ClusterCheck(
        ids.CLOCK_SPREAD,
        "Clocks agree",
        judge_clock_spread,
        "The largest difference between the clocks of two hosts that follow the same source, by their offsets from it. In addition, the "
        "difference between the hosts' own times, whatever they follow, which fails above 90 s. Munge rejects messages from hosts that are "
        "minutes apart. Logs become unreadable long before that.",
        limit="1 s between any two hosts (own choice)",
        bound=Bound("s", most=60),
        nature=Nature.SYMPTOM,
        causes=(
            UNASKED,
            Cause(
                ids.UNITS,
                "the offset of that host's clock is unknown",
                Reach.NAMED,
                both(is_of("chrony.service", "chronyd.service"), is_unknown),
            ),
            Cause(ids.CLOCK, "that host's clock is wrong", Reach.NAMED),
        ),
    ),
    HostCheck(
        ids.ACCESS,
        "Users can work on the host",
        ALL_ROLES,
        judge_access,
        "Everything that users' programs need: writable /tmp, /var/tmp and /dev/shm with free space, device files of the system, GPUs and "
        "adapters that users can open, a device file for each GPU, readable files and executable commands, homes of base.users owned by "
        "their users, and no file that prevents logins. It also reports variables that a file sets for every login and that hide GPUs, more "
        "than 2,000 processes of a unit or session outside jobs, ssh logins that do not end, and login scripts that print. It fails where sshd "
        "refuses the keys of an admin because others can write there, and where PAM refuses everybody or accepts everybody. An interrupted package "
        "manager fails, and so do limits, priority and processors of sshd and slurmd that logins and jobs inherit. It also judges the loopback "
        "interface, ports and rules of routing, Slurm's folders and plugins, and login scripts that break a shell. "
        "A login script with a syntax error fails, and so does a second account or group with a number of the site. Processes outside jobs that use "
        "a quarter of a GPU host's processors are a warning. Programs that "
        "exchange data through /dev/shm (NCCL, PyTorch's data loaders) end at once if it is full.",
        limit="mode 1777; 5 % free, 10 % warns (own choice); devices as the driver and the distribution make them",
        bound=Bound("% free", most=100),
        nature=Nature.SYMPTOM,
        causes=(
            FULL_DISK,
            Cause(ids.FOREIGN, "a drop-in sets what the daemon runs with", when=_is_drop_in),
        ),
    ),
    HostCheck(
        ids.KERNEL_LOG,
        "The kernel reports no failure",
        ALL_ROLES,
        judge_kernel_log,
        "Kernel messages since boot: errors of disks and file systems, lockups, hung tasks, machine checks, out of memory, PCIe, adapters, "
        "and file servers that do not answer. Only the beginning of a message is compared, because many messages contain program names. Xid "
        "messages of GPUs have their own check, gpu.xid. A message stays in the log after the fault is fixed, until the host reboots or the "
        "time limit has passed.",
        limit="0 messages of kernel_log.yml in 24 h (own choice)",
        bound=Bound("h", most=720),
        nature=Nature.SYMPTOM,
        by_container=True,
    ),
    ClusterCheck(
        ids.NEIGHBOURS,
        "Hosts reach each other",
        judge_neighbours,
        "Each host tests at most four other hosts with a small packet, a packet of the interface's full MTU, the ports of NFS and of the scheduler, "
        "name resolution, and the MAC address that answers for the address. It also tests the name servers in its resolv.conf. A queueing "
        "discipline that limits a rate or delays packets is reported, too. If no name server answers, the default route is compared with the "
        "site's gateway. Fixed ARP entries are compared with the MAC addresses of the hosts. So are traffic filters, and firewall rules that drop a part of the packets. Usual causes: a different MTU on a host or switch port, an added firewall rule or route, a hung file server, or an address that two "
        "machines have.",
        limit="an answer within 1.2 s, to packets of both sizes; one MTU on the management network (own choice)",
        nature=Nature.SYMPTOM,
        causes=(
            UNASKED,
            Cause("host.reachable", "the host is down", Reach.NAMED),
        ),
    ),
    HostCheck(
        ids.SYSCTL,
        "Kernel parameters",
        ALL_ROLES,
        judge_sysctl,
        "The values under /proc/sys, compared with those that the stage sets. Usual causes: another file in sysctl.d, or a tuning daemon. A "
        "container shares the kernel of its machine, so most values cannot be set there.",
        limit="the values of role base and of stages.sysctl in the profile",
        by_container=True,
    ),
    HostCheck(
        ids.SYSCTL_BOOT,
        "Kernel parameters after a boot",
        ALL_ROLES,
        judge_boot,
        "The last file in sysctl.d that sets each parameter of the stage. A file that sorts later wins at the next boot, even if the "
        "current value is right. A deployment does not fix it: the stage's own file is correct, and the other file is not managed.",
        limit="the values of role base and of stages.sysctl in the profile",
        nature=Nature.SYMPTOM,
        by_container=True,
    ),
    HostCheck(
        ids.UNITS,
        "ssh, time, firewall and the system's own services",
        ALL_ROLES,
        judge_units,
        "Whether these services run now and are enabled for the next boot. dbus, journald and logind are reported only if they do not run: "
        "without them logins hang and services leave no records. Also reported: a default target without services, and a line of fstab "
        "whose device is missing, because the next boot would end in a shell.",
        limit="active, and enabled at boot",
    ),
    HostCheck(
        ids.FAILED_UNITS,
        "No failed units",
        ALL_ROLES,
        judge_failed_units,
        "Units in the systemd state failed. A failed service is often the only sign of a broken disk, module or configuration.",
        limit="0 failed units",
        nature=Nature.SYMPTOM,
        causes=(FULL_DISK,),
    ),
    HostCheck(
        ids.DRIFT,
        "As it was deployed",
        ALL_ROLES,
        judge_drift,
        "Files, folders, links, accounts, unit files with their drop-ins, the host name, the loaded firewall and sshd's effective settings, "
        "compared with what the stages left. Also packages that are missing, older, or held at another version. Usual causes: a change by "
        "hand, or an attack.",
        limit="the receipts of the stages",
        nature=Nature.SYMPTOM,
        causes=(
            Cause(
                ids.FOREIGN,
                "sshd uses the first value that it reads",
                when=read_by("etc/ssh/", "sshd "),
            ),
            Cause(
                ids.FOREIGN,
                "systemd stores it as a drop-in of the unit",
                when=read_by("etc/systemd/system/", "unit file "),
            ),
            Cause(
                ids.ACCESS,
                "health reads nothing in a folder of another account",
                when=_lies_below,
            ),
            Cause(ids.ACCESS, "the package manager was interrupted", when=_of_packages),
            Cause(ids.ACCESS, "a deployment makes an empty home only", when=_is_its_home),
            Cause(
                ids.NEIGHBOURS,
                "name lookups read the changed file",
                when=lambda cause, effect: (
                    effect.names == ("file /etc/hosts",) and len(cause.names) == 1
                ),
            ),
        ),
    ),
    HostCheck(
        ids.FOREIGN,
        "No unmanaged files or accounts",
        ALL_ROLES,
        judge_foreign,
        "Files that no stage manages, in folders that sshd, sudo, cron, PAM, apt, systemd and the services of the stages read completely. Also: "
        "root's SSH keys; accounts with uid 0 or without a password; system accounts with a password or in a privileged group (sudo, wheel, "
        "shadow, disk, docker, lxd), and daemon accounts of the stages with a shell; on GPU hosts, users' crontabs and everything else that "
        "runs without a job. Unchanged files of packages are accepted. A deployment removes nothing: an operator must decide whether it may "
        "stay.",
        limit="the receipts of the stages, and base.keep of the site",
        nature=Nature.SYMPTOM,
        causes=(
            Cause(
                ids.ACCESS,
                "it is the same file, or health reads nothing in a folder of another account",
                when=lambda cause, effect: f"{effect.target}/".startswith(f"{cause.target}/"),
            ),
        ),
    ),
    HostCheck(
        ids.PURGE,
        "Unmanaged files removed",
        ALL_ROLES,
        judge_purge,
        "The same files if the site sets base.purge: the next deployment moves them away. Keys, accounts and changed files of packages are "
        "reported by base.foreign.",
        limit="the receipts of the stages, and base.keep of the site",
    ),
    HostCheck(
        ids.WEEKLY,
        "Every file, once a week",
        ALL_ROLES,
        judge_weekly,
        "Once a week, when the host is idle, appliance-weekly.timer reads every file and compares it with the first run: files of packages "
        "by the package manager's digests, setuid files, file capabilities, programs and files of /etc that belong to no package, and "
        "modes. A changed program, setuid file or capability fails. Other changes, and an outdated run, are warnings. Changes that were "
        "accepted (appliance baseline accept) are not reported.",
        limit="9 days; no change since the first run that was not accepted",
        nature=Nature.SYMPTOM,
    ),
    HostCheck(
        ids.ADVISORIES,
        "No known vulnerabilities",
        ALL_ROLES,
        judge_advisories,
        "Versions of the driver, NVIDIA's container toolkit, DCGM and its exporter, containerd, runc and the running kernel, compared with "
        "the fixed versions in the vendors' security bulletins. Packages of a distribution are compared with that distribution's bulletins, "
        "because it fixes older versions. Software from elsewhere, software without a row, and rows that were not reviewed for long are "
        "reported as unknown. Vulnerable versions are a warning. Firmware of adapters has its own check, fabric.firmware.",
        limit="appliance/stages/base/advisories.yml and base.advisories of the site, the row that was reviewed last; rows are valid for 90 days (own choice)",
        bound=Bound("days", most=3650),
        nature=Nature.SYMPTOM,
        causes=(
            Cause(
                ids.DRIFT,
                "the package was changed by hand",
                when=lambda cause, effect: (
                    not {f"package {p}" for p in effect.parts}.isdisjoint(cause.names)
                ),
            ),
        ),
    ),
    HostCheck(
        ids.DISK,
        "Room on disk",
        ALL_ROLES,
        judge_disk,
        "Free space and free inodes of each local file system. A full file system stops package installations, logs and jobs, often without "
        "a clear message. A read-only root file system fails, and so does any other file system with errors or that the kernel remounted "
        "read-only: its disk has errors. NFS is checked on its server.",
        limit="5 % free, 10 % warns; on ext file systems 1,024 free inodes (own choice)",
        bound=Bound("% free", below=100),
        nature=Nature.SYMPTOM,
    ),
    HostCheck(
        ids.MEMORY,
        "Memory available",
        ALL_ROLES,
        judge_memory,
        "Available memory. Little available memory on an idle host indicates a leak or processes left over from a job.",
        limit="5 % available warns (own choice)",
        nature=Nature.SYMPTOM,
    ),
    HostCheck(
        ids.MEMORY_ERRORS,
        "Memory without errors",
        ALL_ROLES,
        judge_memory_errors,
        "Memory errors counted by the kernel's EDAC drivers. An uncorrectable error has ended a process or the host: it fails, and the schedulers "
        "stop giving work to the host. Corrected errors are a warning if a module has more than usual. Without a driver, "
        "nothing is counted: load the driver of the processor. Usual causes: a memory module, or a dirty slot.",
        limit="0 uncorrected since the host was started; 10 corrected of a module in 24 h (mcelog's own limits)",
        bound=Bound("corrected errors of a module a day", most=1e6, whole=True),
        nature=Nature.SYMPTOM,
        by_container=True,
    ),
    HostCheck(
        ids.PCIE_ERRORS,
        "PCIe without errors",
        ALL_ROLES,
        judge_pcie_errors,
        "PCIe errors (AER) of GPUs, adapters, NVMe drives and the bridges above them, as counted by the kernel. The far end of a link often "
        "counts errors that its device does not. Fatal errors fail, and the schedulers stop giving work to the host. Other errors are "
        "a warning, and only new ones count, so two runs more than a minute apart are needed. Usual causes: a badly seated board or riser, "
        "or a cable.",
        limit="0 fatal since the device came up, 0 new non-fatal ones (own choice); 8 corrected a minute (NVIDIA DCGM's limit of replays)",
        bound=Bound("corrected errors of a device a minute", most=1e6),
        nature=Nature.SYMPTOM,
        by_container=True,
    ),
    HostCheck(
        ids.NVME,
        "NVMe drives",
        ALL_ROLES,
        judge_nvme,
        "Health of each NVMe drive: warnings, spare blocks, used lifetime, unreadable data. All of these are warnings. A read-only, "
        "unreliable or dead drive fails, and the schedulers stop giving work to the host. Reading the data needs root.",
        limit="no warning of the drive's own (NVM Express); 90 % of its life used (10 below the limit); 0 losses of data (own choice)",
        bound=Bound("% of its life", least=LEAST, most=255),
        nature=Nature.SYMPTOM,
        by_container=True,
    ),
    HostCheck(
        ids.CPU,
        "Processors",
        ALL_ROLES,
        judge_cpu,
        "Sockets and cores, compared with the profile's minimum. Too few: a processor did not start, or it is the wrong host.",
        limit="hardware.host.sockets and cores of the profile",
        nature=Nature.SYMPTOM,
        of_machine=True,
        by_container=True,
    ),
    HostCheck(
        ids.MEMORY_SIZE,
        "Memory installed",
        ALL_ROLES,
        judge_memory_size,
        "Memory size, compared with the profile's minimum. Too little: a module was disabled at power-on.",
        limit="hardware.host.memory_gib of the profile",
        nature=Nature.SYMPTOM,
        of_machine=True,
        by_container=True,
    ),
    HostCheck(
        ids.NUMA,
        "NUMA nodes",
        ALL_ROLES,
        judge_numa,
        "NUMA nodes, compared with the profile. Too few: node interleaving is enabled in the firmware, so no GPU has local memory.",
        limit="hardware.host.numa_nodes of the profile",
        nature=Nature.SYMPTOM,
        of_machine=True,
        by_container=True,
    ),
    HostCheck(
        ids.TUNING,
        "Processors and memory as tuned",
        GPU_HOSTS,
        judge_tuning,
        "Frequency governor of all processors, transparent huge pages, and the exit latency of the deepest idle state that processors may "
        "enter. Idle states and low frequencies delay the processors that start GPU work. Usual causes: a tuning daemon (tuned, "
        "power-profiles-daemon), a change by hand, or a setting of the firmware.",
        limit="stages.tuning of the profile: governor, transparent_huge_pages, idle_latency_us",
        of_machine=True,
        by_container=True,
    ),
    HostCheck(
        ids.PCIE_TUNING,
        "PCIe between GPUs and adapters as tuned",
        GPU_HOSTS,
        judge_pcie_tuning,
        "ACS of the bridges above GPUs and adapters, and the size of the adapters' read requests. With ACS, traffic between a GPU and an "
        "adapter takes the way through the processor, which costs bandwidth or lets NCCL hang. Usual causes: a firmware setting, an IOMMU "
        "that the kernel enabled, or a reset of the adapter.",
        limit="stages.tuning of the profile: acs_disabled, read_request",
        of_machine=True,
        by_container=True,
    ),
    HostCheck(
        ids.PCIE_FIRMWARE,
        "IOMMU and relaxed ordering",
        GPU_HOSTS,
        judge_pcie_firmware,
        "Whether the IOMMU translates addresses of GPUs and adapters, and whether they may relax the order of their writes. A deployment does "
        "not change them: the kernel command line and the firmware decide at boot.",
        limit="stages.tuning of the profile: iommu_passthrough, relaxed_ordering",
        nature=Nature.SYMPTOM,
        of_machine=True,
        by_container=True,
    ),
    HostCheck(
        ids.FACTS,
        "Hardware as it was accepted",
        ALL_ROLES,
        judge_claims,
        "Processors, memory, GPUs and InfiniBand ports that a host reports are used in files of all hosts. They must agree with what was "
        "accepted at the host's last deployment; for a new host, with its class and most GPU hosts. No other host may have its GUIDs. On a "
        "contradiction, files of other hosts keep the accepted values, and a deployment drains the host. Usual causes: a lost "
        "module or processor, replaced parts, or a compromised host.",
        limit="what was accepted, memory within 3 %; for a new host an eighth to eight times the class, half to twice most GPU hosts (own choice)",
        nature=Nature.SYMPTOM,
    ),
)
