"""Builds the probe request of each host."""

from enum import StrEnum

from appliance.engine.look.owned_places import owned_places, root_key_fingerprints
from appliance.engine.look.peers import peers_of
from appliance.engine.session import Session
from appliance.models.site import Role
from appliance.probe.collect import AREAS, NAMED_ONLY
from appliance.stages.base.advisories import PACKAGES
from appliance.stages.base.kernel_log import asked
from appliance.stages.base.variables import numbers, sysctl
from appliance.stages.catalog import CHECKS, WATCHED_UNITS
from appliance.stages.scheduler.submissions import submissions_of
from appliance.stages.slurm.variables import users_of

Request = dict[str, object]

MOST_PEOPLE = 500
"""Users whose homes are checked."""
ALL_CHECK_IDS = tuple(check.id for check in CHECKS)


class Beside(StrEnum):
    """How much is read outside the stages; only a comparison with another day needs it."""

    NOTHING = ""
    QUICK = "quick"
    DEEP = "deep"
    """Including every file."""


def request_for(session: Session, host: str, beside: Beside = Beside.NOTHING) -> Request:
    """Return the request for one host: all areas. Only control hosts are asked for what costs packets on the fabric."""
    control = Role.CONTROL in session.site.host(host).roles
    extra = {"topology"} if control else set()
    extra |= {"posture"} if beside else set()
    return {
        "areas": [a for a in AREAS if a in extra or a not in NAMED_ONLY],
        "deep": beside is Beside.DEEP,
        "units": list(WATCHED_UNITS),
        "packages": list(PACKAGES),
        "sysctl": sorted(
            sysctl(
                session.profile_of(host),
                session.site,
                session.site.host(host),
            )
        ),
        "owned": owned_places(session.site, host),
        "kernel_log": asked(),
        "peers": peers_of(session.site, host),
        "users": users_of(session.site) if control else [],
        "partitions": [p.name for p in session.site.slurm_options.partitions] if control else [],
        "submissions": submissions_of(session.site) if control else {},
        "admins": [admin.name for admin in session.site.base.admins[:MOST_PEOPLE]],
        "numbers": numbers(session.site),
        "people": [user.name for user in session.site.base.users[:MOST_PEOPLE]],
        "keys": {"/root": list(known)}
        if (known := root_key_fingerprints(session)) is not None
        else {},
    }
