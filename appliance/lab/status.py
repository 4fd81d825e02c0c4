"""How a rack is at this moment: which hosts run, since when, and with how much memory."""

from dataclasses import dataclass

from appliance.lab import cgroups, fabric, machine, processes
from appliance.lab.spec import Rack, RackHost


@dataclass(frozen=True)
class HostStatus:
    """One host: "running", "frozen" or "stopped"; uptime in seconds, memory in MiB."""

    name: str
    roles: tuple[str, ...]
    address: str
    state: str
    uptime: int | None
    memory: int | None


@dataclass(frozen=True)
class RackStatus:
    """A rack and its hosts; ``fabric`` is "running", "stopped", or what stands in its place."""

    name: str
    profile: str
    site: str
    network: str
    gpus: str
    fabric: str
    hosts: tuple[HostStatus, ...]

    @property
    def all_up(self) -> bool:
        return self.fabric != "stopped" and all(host.state == "running" for host in self.hosts)


def read(rack: Rack) -> RackStatus:
    """Look at every host and the fabric; contacts nothing, reads this machine's processes."""
    return RackStatus(
        name=rack.name,
        profile=rack.spec.profile,
        site=str(rack.site_dir),
        network=str(rack.network),
        gpus=f"{rack.hardware.gpus} x {rack.hardware.model.name}",
        fabric=_fabric(rack),
        hosts=tuple(_host(host) for host in rack.hosts),
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
    return "\n".join(lines)


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


def _span(seconds: int) -> str:
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"
