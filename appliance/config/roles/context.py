"""What a role-variable function may look at."""

from collections.abc import Mapping
from dataclasses import dataclass

from appliance.config.secrets import Secrets
from appliance.models.facts import HostFacts
from appliance.models.profile import Profile
from appliance.models.site import Host, Site

Variables = dict[str, object]


@dataclass(frozen=True)
class RoleContext:
    """``facts`` are the latest known ones per host: a host that is down keeps its last answer."""

    profile: Profile
    site: Site
    host: Host
    secrets: Secrets
    facts: Mapping[str, HostFacts]
