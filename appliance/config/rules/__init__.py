"""Rules that a schema cannot express: over a whole profile, and over a site with its profile."""

from appliance.config.finding import Finding
from appliance.config.rules import access, files, hardware, hosts, networks, software
from appliance.config.rules.base import Case, Rule
from appliance.config.rules.limits import limits
from appliance.config.schema import Checked
from appliance.models.bound import Bounds
from appliance.models.profile import Profile
from appliance.models.site import Site
from appliance.stages import parts

CORE_RULES: tuple[Rule, ...] = (
    hosts.names,
    hosts.reserved_names,
    hosts.numbers_for_names,
    hosts.second_names,
    hosts.macs,
    hosts.places,
    hosts.disks,
    hosts.addresses,
    hosts.roles,
    hosts.control_hosts,
    hosts.gpu_hosts,
    hosts.gpus,
    hosts.classes,
    networks.management,
    networks.usable,
    networks.unicast,
    networks.overlaps,
    networks.gateways,
    networks.dhcp_servers,
    networks.members,
    networks.known,
    networks.room,
    access.access,
    files.needed_secrets,
    files.known_secrets,
    files.secret_places,
    files.authorities,
    files.login_key,
    files.known_hosts,
    software.overrides,
    software.compatible,
    software.classes,
)
SITE_RULES: tuple[Rule, ...] = (
    *CORE_RULES,
    *(rule for part in parts("rules") for rule in part.RULES),
)
PROFILE_RULES = (
    hardware.fabric,
    hardware.gpus,
    hardware.software,
    hardware.host,
    hardware.reserved,
    hardware.scale,
    *(rule for part in parts("rules") for rule in getattr(part, "PROFILE_RULES", ())),
)


def judge_profile(checked: Checked[Profile], check_ids: Bounds | None) -> list[Finding]:
    """Findings of the profile's rules, over its valid parts."""
    if checked.model is None:
        return []
    found = [f for rule in PROFILE_RULES for f in rule(checked, checked.model)]
    return [
        *found,
        *software.profile_compatible(checked),
        *limits(checked, checked.model.limits, check_ids),
    ]


def judge_site(
    checked: Checked[Site], profile: Profile | None, check_ids: Bounds | None
) -> list[Finding]:
    """Findings of the site's rules, over its valid parts."""
    if checked.model is None:
        return []
    case = Case(checked, checked.model, profile)
    found = [f for rule in SITE_RULES for f in rule(case)]
    return [*found, *limits(checked, checked.model.limits, check_ids)]
