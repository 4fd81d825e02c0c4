"""What the probe is asked on each host."""

from enum import StrEnum

from appliance.engine.owned import keys_of, owned
from appliance.engine.session import Session
from appliance.models.site import Role
from appliance.probe.collect import AREAS, NAMED_ONLY
from appliance.stages.base.advisories import PACKAGES
from appliance.stages.base.variables import sysctl
from appliance.stages.catalog import CHECKS, WATCHED_UNITS

Request = dict[str, object]

ALL_CHECK_IDS = tuple(check.id for check in CHECKS)


class Beside(StrEnum):
    """How much is asked of what a host is beside its stages, which only comparing with another day needs."""

    NOTHING = ""
    QUICK = "quick"
    DEEP = "deep"
    """Every file, too."""


def request_for(session: Session, host: str, beside: Beside = Beside.NOTHING) -> Request:
    """The request for one host: all areas; what costs the fabric packets is asked of control hosts only."""
    control = Role.CONTROL in session.site.host(host).roles
    extra = {"topology"} if control else set()
    extra |= {"posture"} if beside else set()
    return {
        "areas": [a for a in AREAS if a in extra or a not in NAMED_ONLY],
        "deep": beside is Beside.DEEP,
        "units": list(WATCHED_UNITS),
        "packages": list(PACKAGES),
        "sysctl": sorted(sysctl(session.profile, session.site, session.site.host(host))),
        "owned": owned(session.site, host),
        "keys": {"/root": list(known)} if (known := keys_of(session)) is not None else {},
    }
