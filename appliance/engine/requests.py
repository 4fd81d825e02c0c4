"""What the probe is asked on each host."""

from appliance.checks import CHECKS, WATCHED_UNITS
from appliance.engine.session import Session
from appliance.models.site import Role

Request = dict[str, object]


def request_for(session: Session, host: str) -> Request:
    """The request for one host: everything its roles' checks judge. Discovery is asked of control hosts only."""
    roles = session.site.host(host).roles
    areas = ["os", "cpu", "disks", "network", "clock", "sysctl", "gpus", "fabric", "units"]
    areas += ["packages", "nfs", "kernel_log", "receipts"]
    if Role.CONTROL in roles:
        areas += ["topology", "slurm", "observe"]
    return {
        "areas": areas,
        "units": list(WATCHED_UNITS),
        "sysctl": sorted(session.profile.stages.sysctl),
    }


ALL_CHECK_IDS = tuple(check.id for check in CHECKS)
