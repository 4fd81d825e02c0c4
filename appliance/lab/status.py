"""The state of a rack: running hosts, their uptime, and their memory."""

from appliance.lab import cgroups, fabric, hall, machine, processes, repository, vms
from appliance.lab.spec import Rack, RackHost
from appliance.models.base import Document, Model


class HostStatus(Model):
    """One host: "running", "frozen" or "stopped" (a machine that is off); uptime in seconds, memory in MiB."""

    name: str
    roles: tuple[str, ...]
    address: str
    state: str
    uptime: int | None
    memory: int | None


class RackStatus(Document):
    """A rack and its hosts; ``fabric`` is "running", "stopped", or the replacement.

    ``controllers``: those of virtual machines are "running" or "stopped"; "" if the hosts are containers.
    """

    name: str
    profile: str
    site: str
    network: str
    gpus: str
    fabric: str
    controllers: str = ""
    hosts: tuple[HostStatus, ...]

    @property
    def all_up(self) -> bool:
        return "stopped" not in (self.fabric, self.controllers) and all(
            host.state == "running" for host in self.hosts
        )


def read(rack: Rack) -> RackStatus:
    """Look at every host and the fabric; contacts nothing, reads this machine's processes."""
    return RackStatus(
        name=rack.name,
        profile=rack.spec.profile,
        site="" if rack.spec.plain else str(rack.site_dir),
        network=str(rack.network),
        gpus=" or ".join(
            dict.fromkeys(
                f"{own.gpus} x {own.model.name}"
                for own in (rack.hardware_of(host.name) for host in rack.hosts if host.is_gpu)
            )
        )
        or f"{rack.hardware.gpus} x {rack.hardware.model.name}",
        fabric=_fabric(rack),
        controllers=_controllers(rack),
        hosts=_machines(rack) if rack.spec.is_virtual else tuple(map(_host, rack.hosts)),
    )


def table(status: RackStatus) -> str:
    """The status as text, one line per host."""
    lines = [
        f"{status.name} · {status.profile} · {status.network} · GPUs and fabric simulated",
        f"{status.gpus} in each GPU host",
        "",
    ]
    for host in status.hosts:
        figures = ""
        if host.uptime is not None and host.memory is not None:
            figures = f"up {_span(host.uptime)}  {host.memory} MiB"
        lines.append(
            f"  {host.name:<8} {host.state:<8} {host.address:<14} "
            f"{', '.join(host.roles):<24} {figures}".rstrip()
        )
    lines.append(f"  {'fabric':<8} {status.fabric}")
    if status.controllers:
        lines.append(f"  {'bmc':<8} {status.controllers}")
    return "\n".join(lines)


def of_machines(rack: Rack) -> str:
    """The state after a rack of virtual machines was created, and the next commands."""
    site = f"--site {rack.site_dir}"
    return "\n".join(
        (
            f"site  {rack.site_dir}",
            f"next  appliance deploy {site}",
            "      It installs machines that are off and were never installed, then deploys them; to a disk that carries",
            f"      anything nothing is written. To install them alone: appliance provision install {site}",
        )
    )


def of_plain(rack: Rack) -> str:
    """The facts that the owner of a site on plain hosts needs, and the next commands."""
    classes = " ".join(f"--gpu-hosts {one}" for one in rack.spec.classes.split(",") if one)
    asked = classes or f"--count {rack.spec.hosts} --profile {rack.spec.profile}"
    hosts = [f"{host.address}  {host.name}, {', '.join(host.roles)}" for host in rack.hosts]
    facts = (
        ("hosts", hosts),
        ("network", [f"{rack.network}, gateway {rack.gateway}"]),
        ("account", [f"{rack.spec.user}, with sudo; its key: {rack.access_dir / 'id_ed25519'}"]),
        (
            "packages",
            [
                "of the simulated driver, for repositories.gpu:",
                f"mirror: {repository.address(rack)}",
                f"key: {repository.KEY}",
                f"fingerprint: {repository.fingerprint(rack)}",
            ],
        ),
        (
            "next",
            [
                f"appliance init mysite {asked} --network {rack.network} --with slurm --without kubernetes",
                "then README.md, a site of your own",
            ],
        ),
    )
    lines = [
        f"{title if not number else '':<9} {line}"
        for title, told in facts
        for number, line in enumerate(told)
    ]
    return "\n".join(line.rstrip() for line in lines)


def _fabric(rack: Rack) -> str:
    """The subnet's simulator; ports without a subnet are files only, and need none."""
    if rack.hardware.has_subnet:
        return "running" if fabric.is_running(rack) else "stopped"
    return f"{rack.hardware.link_layer} ports" if rack.hardware.ports else "none"


def _host(host: RackHost) -> HostStatus:
    pid = machine.pid(host)
    running = pid is not None
    state = "stopped" if not running else "frozen" if cgroups.is_frozen(host) else "running"
    return HostStatus(
        name=host.name,
        roles=host.roles,
        address=host.address,
        state=state,
        uptime=processes.uptime_seconds(pid) if pid is not None else None,
        memory=processes.memory_mib(cgroups.members(host)) if running else None,
    )


def _controllers(rack: Rack) -> str:
    if not rack.spec.is_virtual:
        return ""
    return "running" if hall.is_running(vms.hall_of(rack)) else "stopped"


def _machines(rack: Rack) -> tuple[HostStatus, ...]:
    """Virtual machines: one that is on is a process of this machine."""
    found = vms.hall_of(rack)
    return tuple(
        _status(host, hall.pid(found, machine))
        for host, machine in zip(rack.hosts, found.machines, strict=True)
    )


def _status(host: RackHost, pid: int | None) -> HostStatus:
    return HostStatus(
        name=host.name,
        roles=host.roles,
        address=host.address,
        state="stopped" if pid is None else "running",
        uptime=None if pid is None else processes.uptime_seconds(pid),
        memory=None if pid is None else processes.memory_mib((pid,)),
    )


def _span(seconds: int) -> str:
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"
