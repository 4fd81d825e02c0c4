"""Rules for exports, mounts and scratch."""

from collections.abc import Iterator
from itertools import combinations, product

from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, Rule, nearest, repeated
from appliance.config.rules.reserved import (
    inside,
    is_for_hosts,
    is_state_of_ours,
    is_system_folder,
    server,
)
from appliance.stages.storage.variables import meeting, mount_unit, server_host

UNIT_NAME = 255
"""Characters of a unit's name (systemd.unit(5))."""
ALONE = "use a dedicated folder, such as /srv/appliance/NAME"
ELSEWHERE = "use a folder below /data, /home, /mnt or /srv"


def exports(case: Case) -> Iterator[Finding]:
    """Each path is exported once."""
    for path, value, first in repeated(_exports(case)):
        yield case.problem(path, f"{value} is also {case.also(first)}", "export it once")
    for i, export in enumerate(case.site.storage.exports):
        if is_system_folder(export.path):
            message = f"{export.path} belongs to the operating system"
            yield case.problem(("storage", "exports", i, "path"), message, ELSEWHERE)


def mounts(case: Case) -> Iterator[Finding]:
    """A mount has an export."""
    known = [value for _, value in _exports(case)]
    if not (
        case.checked.listed("storage", "exports") and case.checked.listed("storage", "external")
    ):
        return
    for i, mount in enumerate(case.site.storage.mounts):
        if mount.export not in known:
            path: KeyPath = ("storage", "mounts", i, "export")
            yield case.problem(
                path,
                f"{mount.export} is not exported by any host",
                nearest(mount.export, known, "exports"),
            )


def mount_points(case: Case) -> Iterator[Finding]:
    """Mount points do not overlap each other, scratch and the system's own folders."""
    points = list(_points(case))
    for path, at in points:
        if is_system_folder(at):
            yield case.problem(
                path,
                f"{at} belongs to the operating system",
                "mount below /data, /home, /mnt or /srv",
            )
        elif len(mount_unit(at)) > UNIT_NAME:
            message = (
                f"{at} is too long for a systemd unit name, where each - counts as four characters"
            )
            yield case.problem(path, message, "use a shorter path")
    exported: list[tuple[KeyPath, str]] = [
        (("storage", "exports", i, "path"), e.path) for i, e in enumerate(case.site.storage.exports)
    ]
    for (path, at), (first, export) in product(points, exported):
        if at != export and (inside(export, at) or inside(at, export)):
            how = "would hide" if inside(export, at) else "is inside"
            message = f"{at} {how} {export} of {case.also(first)}, which a host serves"
            yield case.problem(path, message, "use separate folders")
    for (first, a), (path, b) in combinations(points, 2):
        if a == b:
            yield case.problem(path, f"{b} is also {case.also(first)}", "use another folder")
        elif inside(a, b) or inside(b, a):
            how = "is inside" if inside(b, a) else "holds"
            message = f"{b} {how} {a} of {case.also(first)}"
            yield case.problem(
                path, message, "use separate folders: the second mount hides the first"
            )


def scratch_devices(case: Case) -> Iterator[Finding]:
    """A disk is used once."""
    scratch = case.site.storage.scratch
    given: list[tuple[KeyPath, str]] = [
        (("storage", "scratch", "devices", i), device)
        for i, device in enumerate(scratch.devices if scratch else ())
    ]
    for path, device, first in repeated(given):
        yield case.problem(path, f"{device} is also {case.also(first)}", "keep one")


def client_networks(case: Case) -> Iterator[Finding]:
    """Clients are networks of hosts, not the whole Internet."""
    for i, export in enumerate(case.site.storage.exports):
        for j, network in enumerate(export.clients):
            if not is_for_hosts(network):
                message = f"{network} cannot contain hosts"
                remedy = "name the networks that mount it, such as 10.0.0.0/24"
                yield case.problem(("storage", "exports", i, "clients", j), message, remedy)


def kept_folders(case: Case) -> Iterator[Finding]:
    """A folder with a managed owner and mode is not shared with others."""
    containers, cluster, tools = (
        case.site.slurm_options.containers,
        case.site.kubernetes,
        case.site.workloads,
    )
    given: list[tuple[KeyPath, str | None]] = [
        (("slurm", "containers", "at"), containers.at if containers else None),
        (("kubernetes", "etcd_backup", "at"), cluster.etcd_backup.at if cluster else None),
        (
            ("workloads", "local_path", "path"),
            tools.local_path.path if tools and tools.local_path else None,
        ),
    ]
    others = list(_of_others(case))
    for path, folder in given:
        if folder is None:
            continue
        if not is_state_of_ours(folder):
            message = f"{folder} is also used by others"
            yield case.problem(path, message, ALONE)
        elif whose := next((place for place, other in others if inside(other, folder)), None):
            message = f"{folder} is, or contains, {case.also(whose)}"
            yield case.problem(path, message, ALONE)
        others.append((path, folder))


def _of_others(case: Case) -> Iterator[tuple[KeyPath, str]]:
    """Folders that people and other stages use."""
    for i, export in enumerate(case.site.storage.exports):
        yield ("storage", "exports", i, "path"), export.path
    if case.site.base.users:
        yield ("base", "homes"), case.site.base.homes
    if case.site.kubernetes and case.site.kubernetes.source:
        yield ("kubernetes", "source"), case.site.kubernetes.source


def clients(case: Case) -> Iterator[Finding]:
    """Every host that mounts an export is one of its clients, by the address that it mounts from."""
    server = server_host(case.site)
    mounted = {mount.export for mount in case.site.storage.mounts}
    for i, export in enumerate(case.site.storage.exports):
        if export.path not in mounted or not export.clients or server is None:
            continue
        for host in case.site.hosts:
            address = meeting(server, host)[1]
            if host.name == server.name or any(address in network for network in export.clients):
                continue
            allowed = ", ".join(map(str, export.clients))
            message = f"{host.name} mounts {export.path} from {address}, which is not in {allowed}"
            remedy = "add its network to clients, or remove clients to allow the networks management and storage"
            yield case.problem(("storage", "exports", i, "clients"), message, remedy)


def _exports(case: Case) -> Iterator[tuple[KeyPath, str]]:
    storage = case.site.storage
    for i, export in enumerate(storage.exports):
        yield ("storage", "exports", i, "path"), export.path
    for i, external in enumerate(storage.external):
        yield ("storage", "external", i, "path"), external.path


def _points(case: Case) -> Iterator[tuple[KeyPath, str]]:
    storage = case.site.storage
    if storage.scratch and case.checked.whole("storage", "scratch"):
        yield ("storage", "scratch", "at"), storage.scratch.at
    for i, mount in enumerate(storage.mounts):
        yield ("storage", "mounts", i, "at"), mount.at


def external_servers(case: Case) -> Iterator[Finding]:
    """External NFS servers are names or addresses."""
    for i, external in enumerate(case.site.storage.external):
        yield from server(case, ("storage", "external", i, "server"), external.server)


RULES: tuple[Rule, ...] = (
    exports,
    mounts,
    mount_points,
    scratch_devices,
    client_networks,
    kept_folders,
    clients,
    external_servers,
)
