"""Checks the NFS server, the mounts of the site, and the size of scratch."""

import re
from collections.abc import Iterable

from appliance.checks.causes import Cause, Effect, Reach, is_unknown
from appliance.checks.check import (
    ALL_ROLES,
    GPU_HOSTS,
    Check,
    HostCheck,
    View,
    failed,
    not_assessed,
    passed,
)
from appliance.models.facts import HostFacts
from appliance.models.facts_host import Filesystem
from appliance.models.gap import Gap
from appliance.models.result import Judgement, Place, place
from appliance.models.site import Host, Role
from appliance.stages.base import ids as base_ids
from appliance.stages.base.causes import FULL_DISK, unit_failed
from appliance.stages.base.checks.neighbours import removal
from appliance.stages.base.checks.room import is_remote
from appliance.stages.storage import ids
from appliance.stages.storage.site import Export, NfsMount
from appliance.stages.storage.variables import mount_unit, server_host, source
from appliance.stages.units import revived

UNITS = ("nfs-server.service", "nfs-ganesha.service")
DEPLOY = "appliance deploy --stage storage"
DISK_ERRORS = "journalctl -k -p err on the host shows the disk; replace it, or run fsck and reboot"
LOST = (
    "on {1}: ls -d {2}* shows a renamed folder: mv FOLDER {0}; systemctl restart {3}. lsblk -f shows a disk that is "
    "not mounted: mount it. Only to begin with an empty one: mkdir -p {0}"
)
MISSING = "missing"
"""The probe's type of a missing resource."""
GIB = 1 << 30
MINIMUM_FREE_PERCENT = 5.0
WITHOUT_INODE_COUNT = frozenset({"btrfs"})


def judge_server(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if one of the two NFS servers runs on the serving host."""
    if not _serves(view, host):
        return []
    known = {name: facts.units[name] for name in UNITS if name in facts.units}
    if not known or any(unit.active == "unknown" for unit in known.values()):
        why = facts.gap("units", "the NFS server's units were not read")
        return [not_assessed(host.name, why)]
    active = [name for name, unit in known.items() if unit.active == "active"]
    if active and (hung := _unheard(host, facts, active[0])):
        return [hung]
    if active:
        return [passed(host.name, active[0])]
    there = {name: unit for name, unit in known.items() if unit.load != "not-found"}
    if not there:
        cause = "no NFS server is installed"
        return [failed(host.name, cause, DEPLOY, value="absent")]
    said = ", ".join(
        f"{name} is {unit.active if unit.load == 'loaded' else unit.load}"
        for name, unit in there.items()
    )
    units = " ".join(f"-u {name}" for name in there)
    fix = f"journalctl {units} on {host.name} shows why; then {DEPLOY}"
    for name, unit in there.items():
        fix = revived(unit, name, host.name, fix)
    return [failed(host.name, said, fix, value=said)]


NFS_PORT = 2049


def _unheard(host: Host, facts: HostFacts, unit: str) -> Judgement | None:
    """Report a server whose unit is active but which does not answer its own host."""
    own = [p for p in facts.neighbours.peers if p.own] if facts.neighbours else []
    states = [port.state for peer in own for port in peer.ports if port.port == NFS_PORT]
    if not states or states[0] == "open":
        return None
    if states[0] in {"silent", "unreachable"}:
        cause = f"{unit} is active, but nothing reaches its port {NFS_PORT}: a firewall of {host.name} drops it"
        fix = (
            removal(host.name, facts, NFS_PORT)
            or f"nft list ruleset on {host.name} shows the rule that drops port {NFS_PORT}"
        )
    else:
        cause = f"{unit} is active, but does not answer ({states[0]}): every client waits"
        fix = f"on {host.name}: systemctl kill -s KILL {unit}; systemctl restart {unit}"
    return failed(host.name, cause, fix, value=states[0], limit="an answer within 5 s")


def judge_export(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    "The file system of each export: writable, with free space and inodes. The kernel remounts a file system read-only when its disk"
    "fails."
    if not _serves(view, host):
        return []
    return [_judge_export(view, host, facts, export) for export in view.site.storage.exports]


def judge_client(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if a host with mounts has an NFS client: the kernel's, or in a container libnfs's tools."""
    if not view.site.storage.mounts or _serves(view, host):
        return []
    if facts.nfs_client == "kernel" or (facts.nfs_client and facts.os.container):
        return [passed(host.name, facts.nfs_client)]
    if "nfs" in facts.errors:
        return [not_assessed(host.name, facts.gap("nfs"))]
    found = facts.nfs_client or "none"
    return [
        failed(
            host.name,
            f"the kernel has no NFS client (found: {found})",
            f"{DEPLOY}; if it persists, the running kernel lacks the module nfs: boot the distribution's kernel",
            value=found,
            limit="kernel",
        )
    ]


def judge_mount(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if every mount of the site is present, from the right server."""
    return [_judge_mount(view, host, facts, wanted) for wanted in view.site.storage.mounts]


def judge_scratch(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Pass if scratch is mounted and writable."""
    scratch = view.site.storage.scratch
    if scratch is None:
        return []
    found = _at(facts, scratch.at)
    if found is None and (said := _silence(facts, scratch.at)):
        return [failed(host.name, said, DISK_ERRORS)]
    if found is None:
        if why := _unread(facts):
            return [not_assessed(host.name, why)]
        cause, fix = f"nothing is mounted at {scratch.at}", _unit_fix(scratch.at)
        return [failed(host.name, cause, fix)]
    if found.read_only:
        cause = f"{scratch.at} is read-only"
        return [failed(host.name, cause, DISK_ERRORS, value="read-only")]
    if is_remote(found) and not facts.os.container:
        cause = f"{scratch.at} is {found.source} ({found.type}), not a disk of this host"
        fix = f"umount {scratch.at} on the host, then {DEPLOY}"
        return [failed(host.name, cause, fix, value=found.type)]
    evidence = f"{found.source} ({found.type}) at {scratch.at}"
    return [_room(host.name, found, evidence)]


def judge_scratch_size(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Compare the size of scratch with the class; a container uses its machine's disk."""
    scratch = view.site.storage.scratch
    if scratch is None:
        return []
    wanted = view.profile.hardware.host.scratch_disk_gib
    common = {"unit": "GiB", "limit": wanted, "limit_source": f"profile {view.profile.name}"}
    found = _at(facts, scratch.at)
    if found is None:
        why = _unread(facts) or Gap(f"nothing can be measured at {scratch.at}")
        return [not_assessed(host.name, why, **common)]
    size = found.size // GIB
    if facts.os.container:
        cause = "a container has no disk of its own: its size is not assessed"
        return [not_assessed(host.name, cause, value=size, required=False, **common)]
    if "host" in facts.simulated:
        cause = "the host is simulated: the size of its disks is not assessed"
        return [not_assessed(host.name, cause, value=size, required=False, **common)]
    root = _at(facts, "/")
    shared = bool(wanted and root and root.source == found.source)
    if size >= wanted and not shared and not is_remote(found):
        return [passed(host.name, size, **common)]
    cause = f"{scratch.at} has {size} GiB, the class has {wanted}"
    if shared:
        cause = f"{scratch.at} is on the system disk, the class has {wanted} GiB of separate disks"
    elif is_remote(found):
        cause = f"{scratch.at} is {found.type}, the class has {wanted} GiB of local disks for it"
    fix = "list all scratch disks in storage.scratch.devices; lsblk shows whether one is missing"
    return [failed(host.name, cause, fix, value=size, **common)]


def lost_folders(view: View, host: Host, facts: HostFacts) -> list[str]:
    """Return deployed folders of exports that no longer exist: an empty one instead would hide that users' data is missing."""
    receipt = facts.receipts.get("storage")
    if receipt is None or not _serves(view, host):
        return []
    exports = tuple(f"{export.path}/" for export in view.site.storage.exports)
    gone = [d.name for d in receipt.drift if d.kind == "directory" and d.found == MISSING]
    return [name for name in gone if f"{name}/".startswith(exports)]


def lost_fix(facts: HostFacts, name: str, export: str) -> str:
    """Return how to find the folder ``name`` of an export again."""
    there = [unit for unit in UNITS if unit in facts.units and facts.units[unit].load == "loaded"]
    return LOST.format(name, facts.host, export, there[0] if there else UNITS[0])


def _judge_export(view: View, host: Host, facts: HostFacts, export: Export) -> Judgement:
    target = place(host.name, export.path.removeprefix("/"))
    for name in lost_folders(view, host, facts):
        if f"{name}/".startswith(f"{export.path}/"):
            cause = f"{name} no longer exists, and with it the data of users"
            fix = lost_fix(facts, name, export.path)
            return failed(target, cause, fix, value=MISSING, limit="the folder that was deployed")
    holder = _holding(facts, export.path)
    if holder is None:
        why = facts.gap("filesystems", f"no file system is known to hold {export.path}")
        return not_assessed(target, why)
    if holder.read_only and not export.read_only:
        cause = f"{holder.at}, which holds {export.path}, is read-only"
        return failed(target, cause, DISK_ERRORS, value="read-only")
    return _room(target, holder, f"{holder.source} at {holder.at}")


def _room(target: Place | str, found: Filesystem, evidence: str) -> Judgement:
    if not found.size:
        return not_assessed(target, f"{found.at} does not report its size")
    percent = round(100 * found.free / found.size, 1)
    common = {
        "unit": "% free",
        "limit": MINIMUM_FREE_PERCENT,
        "limit_source": "own choice: nearly full file systems are slow",
        "evidence": evidence,
    }
    full = found.inodes_free == 0 and found.type not in WITHOUT_INODE_COUNT
    if percent >= MINIMUM_FREE_PERCENT and not full:
        return passed(target, percent, **common)
    short = "no inodes" if full else f"{found.free // GIB} GiB"
    cause = f"{found.at} has {short} left"
    fix = f"free space there: du {'--inodes' if full else '-h'} -x -d2 {found.at} | sort {'-n' if full else '-h'} shows the largest directories"
    return failed(target, cause, fix, value=percent, **common)


def _judge_mount(view: View, host: Host, facts: HostFacts, wanted: NfsMount) -> Judgement:
    target = place(host.name, wanted.at.removeprefix("/"))
    local = _serves(view, host) and any(e.path == wanted.export for e in view.site.storage.exports)
    if local and wanted.at == wanted.export:
        return passed(target, "local", evidence="the exported directory itself")
    if not local and facts.os.container and facts.nfs_client != "kernel":
        cause = "this container's kernel mounts no NFS; storage.roundtrip proves the data path"
        return not_assessed(target, cause, required=False)
    found = _at(facts, wanted.at)
    origin = ":".join(source(view.site, host, wanted))
    if found is None:
        return _unmounted(facts, target, wanted, "" if local else f" from {origin}")
    if local:
        holder = _holding(facts, wanted.export)
        if holder is None:
            cause = f"no file system is known to hold {wanted.export}"
            return not_assessed(target, cause)
        origin = holder.source
    if found.source == origin:
        return passed(target, found.source, evidence=found.type)
    cause = f"{wanted.at} comes from {found.source}, the site has {origin}"
    fix = f"when it is not used: systemctl restart '{mount_unit(wanted.at)}' on {host.name}"
    return failed(target, cause, fix, value=found.source, limit=origin)


def _unmounted(facts: HostFacts, target: Place, wanted: NfsMount, origin: str) -> Judgement:
    silent = _silence(facts, wanted.at)
    if not silent and (why := _unread(facts)):
        return not_assessed(target, why)
    cause = f"{wanted.at} is not mounted{origin}" + (f": {silent}" if silent else "")
    return failed(target, cause, _unit_fix(wanted.at))


def _silence(facts: HostFacts, at: str) -> str:
    """Return the probe's error for a mount point whose file system does not answer."""
    said = (p.text for p in facts.problems if p.area == "filesystems" and p.at == at)
    return next(said, "")


def _unread(facts: HostFacts) -> Gap | None:
    """Return why the mount table is unknown; None if it is known, even if single file systems do not answer."""
    if facts.filesystems:
        return None
    return facts.gap("filesystems", "no file system was read")


def _unit_fix(at: str) -> str:
    unit = mount_unit(at)
    return f"systemctl restart '{unit}', then journalctl -u '{unit}' shows the reason"


def _serves(view: View, host: Host) -> bool:
    return bool(view.site.storage.exports) and server_host(view.site) == host


def _at(facts: HostFacts, at: str) -> Filesystem | None:
    return next((f for f in facts.filesystems if f.at == at), None)


def _holding(facts: HostFacts, path: str) -> Filesystem | None:
    """Return the file system with the longest mount point above ``path``."""
    above = [f for f in facts.filesystems if f"{path}/".startswith(f"{f.at.rstrip('/')}/")]
    return max(above, key=lambda f: len(f.at), default=None)


CHECKS: tuple[Check, ...] = (
    HostCheck(
        id=ids.SERVER,
        title="The NFS server runs",
        roles=frozenset({Role.STORAGE}),
        judge=judge_server,
        explain="The kernel's NFS server, or nfs-ganesha in a container. Without it, every host that mounts it waits, because hard mounts hang "
        "instead of losing data.",
        limit="active, and an NFS answer within 5 s",
        explains=(
            unit_failed("nfs-server", "nfs-ganesha"),
            Effect(
                base_ids.NEIGHBOURS,
                "this file server does not answer",
                when=lambda cause, effect: f"port {NFS_PORT}" in effect.parts,
            ),
        ),
    ),
    HostCheck(
        id=ids.EXPORT,
        title="Exports can be written and have room",
        roles=frozenset({Role.STORAGE}),
        judge=judge_export,
        explain="The folder of each export, as it was deployed, and its file system: writable, with free space and inodes. The kernel remounts a "
        "file system read-only when its disk fails. A deployment is refused while the folder is missing, because it would create an empty one.",
        limit="writable, 5 % free (own choice)",
        causes=(FULL_DISK,),
        explains=(
            Effect(
                base_ids.DRIFT,
                "the missing folder",
                when=lambda cause, effect: (
                    cause.value == MISSING
                    and all(
                        re.fullmatch(rf"(directory|home) /{re.escape(cause.parts[0])}(/.*)?", name)
                        for name in effect.names
                    )
                ),
            ),
        ),
    ),
    HostCheck(
        id=ids.CLIENT,
        title="Hosts have an NFS client",
        roles=ALL_ROLES,
        judge=judge_client,
        explain="Mounting needs the kernel's NFS client. Containers of the virtual rack share a kernel that may lack it; then libnfs's tools "
        "replace it.",
        limit="the kernel's client; libnfs in a container",
        by_container=True,
    ),
    HostCheck(
        id=ids.MOUNT,
        title="Shared directories are mounted",
        roles=ALL_ROLES,
        judge=judge_mount,
        explain="Each mount of the site, by mount point and source. If it is not mounted, the server is down, the export is refused (the client's "
        "address is not in the export's networks), or the network fails. A wrong source is a mount of an older site.",
        limit="storage.mounts of the site",
        causes=(
            Cause(
                ids.SERVER,
                "nothing can be mounted from a server that does not run",
                Reach.SITE,
            ),
        ),
        explains=(
            Effect(
                base_ids.ACCESS,
                "the home is on this mount",
                when=lambda cause, effect: "".join(effect.parts).startswith(
                    f"{''.join(cause.parts)}/"
                ),
            ),
        ),
        by_container=True,
    ),
    HostCheck(
        id=ids.SCRATCH,
        title="Scratch is mounted and has room",
        roles=GPU_HOSTS,
        judge=judge_scratch,
        explain="Local scratch for files of jobs. Without it, jobs fill the system disk.",
        limit="mounted, 5 % free (own choice)",
        causes=(FULL_DISK,),
        by_container=True,
    ),
    HostCheck(
        id=ids.SCRATCH_SIZE,
        title="Scratch has the size of the class",
        roles=GPU_HOSTS,
        judge=judge_scratch_size,
        explain="The size of scratch. If it is too small, a disk is missing from the array, or was never named in the site.",
        limit="hardware.host.scratch_disk_gib of the profile",
        causes=(
            Cause(
                ids.SCRATCH,
                "a missing mount has no size",
                when=lambda cause, effect: is_unknown(cause, effect) and effect.value is None,
            ),
        ),
        of_machine=True,
        by_container=True,
    ),
)
