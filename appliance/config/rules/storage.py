"""Rules over exports, mounts and scratch."""

from collections.abc import Iterator
from itertools import combinations

from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, nearest, repeated
from appliance.models.site import Role

# Folders the operating system lives in; mounting over one of them takes it away.
SYSTEM = (
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/sys",
    "/tmp",
    "/usr",
    "/var",
)


def exports(case: Case) -> Iterator[Finding]:
    """An export's path names one export."""
    for path, value, first in repeated(_exports(case)):
        yield case.problem(path, f"{value} is also {case.also(first)}", "export it once")


def mounts(case: Case) -> Iterator[Finding]:
    """A mount has something to mount."""
    known = [value for _, value in _exports(case)]
    if not (
        case.checked.listed("storage", "exports") and case.checked.listed("storage", "external")
    ):
        return
    for i, mount in enumerate(case.site.storage.mounts):
        if mount.export not in known:
            path: KeyPath = ("storage", "mounts", i, "export")
            yield case.problem(
                path, f"nothing exports {mount.export}", nearest(mount.export, known, "exports")
            )


def mount_points(case: Case) -> Iterator[Finding]:
    """Mount points are apart from each other, from scratch and from the system's own folders."""
    points = list(_points(case))
    for path, at in points:
        if any(_inside(at, folder) for folder in SYSTEM):
            yield case.problem(
                path,
                f"{at} belongs to the operating system",
                "mount below /data, /home, /mnt or /srv",
            )
    for (first, a), (path, b) in combinations(points, 2):
        if a == b:
            yield case.problem(path, f"{b} is also {case.also(first)}", "take another folder")
        elif _inside(a, b) or _inside(b, a):
            how = "is inside" if _inside(b, a) else "holds"
            message = f"{b} {how} {a} of {case.also(first)}"
            yield case.problem(
                path, message, "put them side by side: what is mounted second hides the other"
            )


def scratch_devices(case: Case) -> Iterator[Finding]:
    """A disk is given once."""
    scratch = case.site.storage.scratch
    given: list[tuple[KeyPath, str]] = [
        (("storage", "scratch", "devices", i), device)
        for i, device in enumerate(scratch.devices if scratch else ())
    ]
    for path, device, first in repeated(given):
        yield case.problem(path, f"{device} is also {case.also(first)}", "keep one")


def clients(case: Case) -> Iterator[Finding]:
    """Every host that mounts an export is one of its clients."""
    mounted = {mount.export for mount in case.site.storage.mounts}
    for i, export in enumerate(case.site.storage.exports):
        if export.path not in mounted or not export.clients:
            continue
        for host in case.site.hosts:
            own = (host.address, *host.addresses.values())
            served = any(address in network for address in own for network in export.clients)
            if not served and Role.STORAGE not in host.roles:
                allowed = ", ".join(map(str, export.clients))
                message = f"{host.name} ({', '.join(map(str, own))}) mounts {export.path} but is not in {allowed}"
                remedy = (
                    "add its network to clients, or leave clients out for the management network"
                )
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


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")
