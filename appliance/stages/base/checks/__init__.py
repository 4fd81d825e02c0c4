"""Is the host what all stages build on: system, clock, kernel parameters, units, room and size."""

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
from appliance.models.result import Judgement, place
from appliance.models.site import Host
from appliance.stages.base import ids
from appliance.stages.base.causes import FULL_DISK, read_by
from appliance.stages.base.checks.advisories import judge_advisories
from appliance.stages.base.checks.boot import judge_boot
from appliance.stages.base.checks.claims import judge_claims
from appliance.stages.base.checks.clock import judge_clock, judge_clock_spread
from appliance.stages.base.checks.drift import judge_drift
from appliance.stages.base.checks.foreign import judge_foreign, judge_purge
from appliance.stages.base.checks.memory_errors import judge_memory_errors
from appliance.stages.base.checks.nvme import LEAST, judge_nvme
from appliance.stages.base.checks.pcie_errors import judge_pcie_errors
from appliance.stages.base.checks.room import judge_disk, judge_memory
from appliance.stages.base.checks.size import judge_cpu, judge_memory_size, judge_numa
from appliance.stages.base.checks.weekly import judge_weekly
from appliance.stages.base.variables import judged
from appliance.text import plural

UNITS = (
    "ssh.service",
    "sshd.service",
    "chrony.service",
    "chronyd.service",
    "appliance-firewall.service",
)
"""All the probe must be asked for; which of them count depends on the family."""
OF_USERS = re.compile(
    r"user(-runtime-dir)?@[0-9]+\.service|session-c?[0-9]+\.scope|systemd-coredump@[0-9-]+\.service"
)
"""Any user can have these fail: by killing their own service manager, by a process that outstays the end of its session (logind
ends sessions as their users ask), by a core that takes longer to write than systemd waits."""
ENABLED = frozenset({"enabled", "static", "alias", "indirect", "generated"})


def judge_os(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """The release is one the profile supports."""
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
            f"{release} is not a system of this profile",
            f"install one of {', '.join(supported)}, or add {release} to software.operating_systems",
            value=release,
            **common,
        )
    ]


def judge_sysctl(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Every kernel parameter of the stage is live; a container is asked only for its own."""
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
        fix = f"appliance deploy sets it; grep -rs {wrong[0]} /etc/sysctl.d /run/sysctl.d /usr/lib/sysctl.d shows who else does"
        value = len(own) - len(wrong) - len(unread)
        return [failed(host.name, live, fix, value=value, **common)]
    if unread or not own:
        why = facts.gap("sysctl", f"not read: {', '.join(unread) or 'any'}")
        return [not_assessed(host.name, why, **common)]
    return [passed(host.name, len(own), **common)]


def judge_units(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """ssh, time and firewall run, and will after a boot."""
    for name in units(view, facts):
        unit = facts.units.get(name)
        target = place(host.name, name)
        if unit is None or unit.active == "unknown":
            yield not_assessed(target, facts.gap("units"))
        elif complaint := _complaint(unit):
            fix = f"journalctl -u {name} on the host says why; appliance deploy --stage base --limit {host.name} starts it"
            yield failed(target, complaint, fix, value=unit.active)
        else:
            yield passed(target, unit.active)


def units(view: View, facts: HostFacts) -> tuple[str, ...]:
    """What must run on a host of this family."""
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
    """systemd has given up on nothing, but for what users can have fail."""
    failures = tuple(f for f in facts.os.failed_units if not OF_USERS.fullmatch(f))
    if failures:
        cause = f"failed: {', '.join(failures)}"
        fix = f"journalctl -u {failures[0]} on the host says why; systemctl reset-failed once it is mended"
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
        why = facts.gap("os", f"systemd is {facts.os.state or 'silent'}")
        return [not_assessed(host.name, why)]
    return [passed(host.name, 0, unit="units", limit=0)]


CHECKS: tuple[Check, ...] = (
    HostCheck(
        ids.OS,
        "Operating system",
        ALL_ROLES,
        judge_os,
        "Distribution and release from os-release against the systems the profile supports. "
        "Other releases carry other package names and versions, which were never tried.",
        limit="software.operating_systems of the profile",
    ),
    HostCheck(
        ids.CLOCK,
        "Clock",
        ALL_ROLES,
        judge_clock,
        "Whether chronyd follows a source and how far the clock is off it; a source that has said nothing for 3 h warns. Munge, TLS and job logs need clocks that "
        "agree. Usual faults: a time server that a firewall hides, a host that was never synchronised.",
        limit="0.1 s off its source (own choice)",
        bound=Bound("s", most=60),
        causes=(
            Cause(
                ids.UNITS,
                "nothing keeps the clock, or says how far it is off",
                when=both(is_of("chrony.service", "chronyd.service"), is_unknown),
            ),
        ),
    ),
    ClusterCheck(
        ids.CLOCK_SPREAD,
        "Clocks agree",
        judge_clock_spread,
        "The distance between the two hosts whose offsets from their source differ most. It takes for granted that all "
        "hosts follow the same source. Munge refuses messages of hosts minutes apart; logs cannot be read long before.",
        limit="1 s between any two hosts (own choice)",
        bound=Bound("s", most=60),
        nature=Nature.SYMPTOM,
        causes=(
            UNASKED,
            Cause(
                ids.UNITS,
                "nothing says how far that host's clock is off",
                Reach.NAMED,
                both(is_of("chrony.service", "chronyd.service"), is_unknown),
            ),
            Cause(ids.CLOCK, "that host's clock is the one that is off", Reach.NAMED),
        ),
    ),
    HostCheck(
        ids.SYSCTL,
        "Kernel parameters",
        ALL_ROLES,
        judge_sysctl,
        "The live values under /proc/sys against those the stage sets. Usual faults: another file in sysctl.d, or a tuning "
        "daemon. A container shares its machine's kernel, so most values cannot be its own.",
        limit="the values of role base and of stages.sysctl in the profile",
        by_container=True,
    ),
    HostCheck(
        ids.SYSCTL_BOOT,
        "Kernel parameters after a boot",
        ALL_ROLES,
        judge_boot,
        "Which file of sysctl.d has the last word on each parameter of the stage. A file that sorts later wins at the next boot, though today's value is right. "
        "No deployment mends it: the stage's own file is as it should be, and the other is somebody's.",
        limit="the values of role base and of stages.sysctl in the profile",
        nature=Nature.SYMPTOM,
        by_container=True,
    ),
    HostCheck(
        ids.UNITS,
        "ssh, time and firewall",
        ALL_ROLES,
        judge_units,
        "Whether these services run now and are enabled for the next boot.",
        limit="active, and enabled at boot",
    ),
    HostCheck(
        ids.FAILED_UNITS,
        "No failed units",
        ALL_ROLES,
        judge_failed_units,
        "Units systemd calls failed. One failed service is often the only trace of a broken disk, module or configuration.",
        limit="0 failed units",
        nature=Nature.SYMPTOM,
        causes=(FULL_DISK,),
    ),
    HostCheck(
        ids.DRIFT,
        "As it was deployed",
        ALL_ROLES,
        judge_drift,
        "Files, folders, links, accounts, unit files with their drop-ins, the host's name, the firewall as it is loaded and sshd's settings as they "
        "count, against what the stages left; packages that are gone, older, or held and of another version. Usual faults: a change by hand, and somebody who means harm.",
        limit="as the receipts of the stages say",
        nature=Nature.SYMPTOM,
        causes=(
            Cause(
                ids.FOREIGN,
                "sshd goes by what it reads first",
                when=read_by("etc/ssh/", "sshd "),
            ),
            Cause(
                ids.FOREIGN,
                "systemd puts it beside the unit's own file",
                when=read_by("etc/systemd/system/", "unit file "),
            ),
        ),
    ),
    HostCheck(
        ids.FOREIGN,
        "Nothing of strangers",
        ALL_ROLES,
        judge_foreign,
        "Files beside the stages' own where sshd, sudo, cron, PAM, apt, systemd, Slurm and Prometheus read all there is; keys of root's; accounts with root's number or "
        "no password; accounts of the system with a password or in a group that is like root (sudo, wheel, shadow, disk, docker, lxd), those of the stages' daemons also "
        "with a shell; on hosts that users come to for GPUs alone, their crontabs and whatever else runs without a job. What packages bring is theirs while it is unchanged. No deployment takes it away: a person must say whether it may stay.",
        limit="the receipts of the stages, and base.keep of the site",
        nature=Nature.SYMPTOM,
    ),
    HostCheck(
        ids.PURGE,
        "Strangers' files taken away",
        ALL_ROLES,
        judge_purge,
        "The same files where the site says base.purge: the next deployment moves them away. Keys, accounts and changed files of packages stay with base.foreign.",
        limit="the receipts of the stages, and base.keep of the site",
    ),
    HostCheck(
        ids.WEEKLY,
        "Every file, once a week",
        ALL_ROLES,
        judge_weekly,
        "Each host looks at every file by itself once a week, when nothing else wants its processor and its disk (appliance-weekly.timer), and compares with its "
        "first look: files of packages by the package manager's digests, setuid files, file capabilities, programs and files of /etc that no package brought, modes. "
        "A changed program, setuid file or capability fails, all else warns, as does a look that is too old. What was accepted since (appliance baseline accept) is not told.",
        limit="9 days; nothing that is another than at the first look or accepted since",
        nature=Nature.SYMPTOM,
    ),
    HostCheck(
        ids.ADVISORIES,
        "Mends of known holes",
        ALL_ROLES,
        judge_advisories,
        "The driver, NVIDIA's container toolkit, DCGM and its exporter, containerd, runc and the kernel that runs, against the versions in which their makers' "
        "bulletins call holes closed. Packages of a distribution are held against that distribution's own, for it mends older versions; what came from elsewhere, what no row "
        "speaks of, and what nobody has looked at for long is not known. It warns. Firmware of adapters has its own check, fabric.firmware.",
        limit="appliance/stages/base/advisories.yml and base.advisories of the site, the row that was looked at last; rows count for 90 days (own choice)",
        bound=Bound("days", most=3650),
        nature=Nature.SYMPTOM,
        causes=(
            Cause(
                ids.DRIFT,
                "somebody changed the package",
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
        "Free space and free inodes of each local file system. A full one stops package installations, logs and jobs in "
        "ways that seldom say so. A root file system that can only be read fails, too, and any other that the kernel turned "
        "read-only or that gives errors: its disk has errors. NFS is judged on its server.",
        limit="5 % free, 10 % warns; on ext file systems 1,024 free inodes (own choice)",
        bound=Bound("% free", below=100),
        nature=Nature.SYMPTOM,
    ),
    HostCheck(
        ids.MEMORY,
        "Memory available",
        ALL_ROLES,
        judge_memory,
        "Memory the kernel could give out now. Little of it on an idle host means a leak or left-over processes of a job.",
        limit="5 % available warns (own choice)",
        nature=Nature.SYMPTOM,
    ),
    HostCheck(
        ids.MEMORY_ERRORS,
        "Memory without errors",
        ALL_ROLES,
        judge_memory_errors,
        "Errors of the host's memory as the kernel's EDAC drivers count them. One that could not be corrected has ended a process, or the host: it fails, "
        "and Slurm and Kubernetes give the host no more work. Corrected ones warn where a module has more than sound ones do. Without a driver nothing is counted: load "
        "the one of the processor. Usual fault: a module, or a slot that is dirty.",
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
        "Errors on the links of GPUs, adapters and NVMe drives and of the bridges above them, as the kernel counts them (AER); the far end of a link often "
        "counts what its device does not. Fatal ones fail, and Slurm and Kubernetes give the host no more work. Others warn, and only what is new of them counts, so that "
        "two looks more than a minute apart are needed. Usual faults: a board or riser that sits badly, a cable.",
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
        "What each NVMe drive says of itself: warnings, spare blocks, how much of its life is used, data it could not give back. All of it warns; one that can only be read, "
        "calls itself unreliable or is dead fails, and Slurm and Kubernetes give the host no more work. Asking needs root.",
        limit="no warning of the drive's own (NVM Express); 90 % of its life used (10 below the limit); 0 losses of data (own choice)",
        bound=Bound("% of its life", least=LEAST, most=255),
        nature=Nature.SYMPTOM,
        by_container=True,
    ),
    HostCheck(
        ids.CPU,
        "Processors",
        GPU_HOSTS,
        judge_cpu,
        "Sockets and cores against the profile's lower bounds. Too few: a processor that did not come up, or a wrong host.",
        limit="hardware.host.sockets and cores of the profile",
        nature=Nature.SYMPTOM,
        of_machine=True,
        by_container=True,
    ),
    HostCheck(
        ids.MEMORY_SIZE,
        "Memory installed",
        GPU_HOSTS,
        judge_memory_size,
        "Memory the kernel found against the profile's lower bound. Too little: a module that was disabled at power-on.",
        limit="hardware.host.memory_gib of the profile",
        nature=Nature.SYMPTOM,
        of_machine=True,
        by_container=True,
    ),
    HostCheck(
        ids.NUMA,
        "NUMA nodes",
        GPU_HOSTS,
        judge_numa,
        "NUMA nodes against the profile. Too few: node interleaving is on in the firmware, which costs every GPU its nearest "
        "memory.",
        limit="hardware.host.numa_nodes of the profile",
        nature=Nature.SYMPTOM,
        of_machine=True,
        by_container=True,
    ),
    HostCheck(
        ids.FACTS,
        "Hardware as it was accepted",
        ALL_ROLES,
        judge_claims,
        "What a host reports of its processors, memory, GPUs and InfiniBand ports reaches files of all hosts. It must agree with what was accepted "
        "when the host last came through a deployment; for a new host, with its class and with most GPU hosts; and no other host may have its GUIDs. "
        "Files of other hosts keep what was accepted, and a deployment drains the host in Slurm. "
        "Usual causes: a module or processor that was lost, parts that were changed, a host that was taken over.",
        limit="what was accepted, memory within 3 %; for a new host an eighth to eight times the class, half to twice most GPU hosts (own choice)",
        nature=Nature.SYMPTOM,
    ),
)
