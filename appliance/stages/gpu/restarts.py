"""What stage gpu restarts."""

from appliance.models.facts import HostFacts
from appliance.models.site import Host
from appliance.stages.context import Variables
from appliance.stages.restart import Judge, Restart

EXPORTER = (
    "/etc/systemd/system/nvidia-dcgm-exporter.service.d/appliance.conf",
    "/etc/dcgm-exporter/appliance.csv",
)
DRIVER = frozenset({"gpu_fabric_manager", "gpu_kernel_modules", "gpu_release", "gpu_source"})
"""A changed set of driver packages: programs that use a GPU are stopped before the driver is unloaded."""


def _everywhere(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    return True


def _switched(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    return bool(variables["gpu_fabric_manager"])


def _divided(host: Host, facts: HostFacts | None, variables: Variables) -> bool:
    return facts is None or "mig" in facts.receipts


def restarts(moves: Judge) -> tuple[Restart, ...]:
    """Return all restarts; ``moves``: whether a host's driver changes to another version or set of packages."""

    def client(
        unit: str, files: tuple[str, ...] = (), *variables: str, on: Judge = _everywhere
    ) -> Restart:
        made_of = DRIVER | frozenset(variables)
        return Restart(unit, files, made_of, by=("gpu_driver",), when=moves, on=on)

    return (
        client("nvidia-persistenced"),
        client("nvidia-fabricmanager", on=_switched),
        client("nvidia-dcgm"),
        client("nvidia-dcgm-exporter", EXPORTER, "gpu_pod_names"),
        client("appliance-cdi", ("/etc/systemd/system/appliance-cdi.service",)),
        client("appliance-mig", on=_divided),
        client("appliance-mig-demand", on=_divided),
    )
