"""What the probe is asked on each host."""

from appliance.engine.owned import keys_of, owned
from appliance.engine.session import Session
from appliance.models.site import Role
from appliance.probe.collect import AREAS, NAMED_ONLY
from appliance.stages.base.variables import sysctl
from appliance.stages.catalog import CHECKS, WATCHED_UNITS

Request = dict[str, object]

ALL_CHECK_IDS = tuple(check.id for check in CHECKS)


def request_for(session: Session, host: str) -> Request:
    """The request for one host: all areas; what costs the fabric packets is asked of control hosts only."""
    control = Role.CONTROL in session.site.host(host).roles
    return {
        "areas": [a for a in AREAS if control or a not in NAMED_ONLY],
        "units": list(WATCHED_UNITS),
        "sysctl": sorted(sysctl(session.profile, session.site.host(host))),
        "owned": owned(session.site, host),
        "keys": {"/root": list(known)} if (known := keys_of(session)) is not None else {},
    }
