"""What a schema cannot say: rules over a whole profile, and over a site with its profile."""

from collections.abc import Collection

from appliance.config.finding import Finding
from appliance.config.schema import Checked
from appliance.models.profile import Profile
from appliance.models.site import Site


def judge_profile(checked: Checked[Profile], check_ids: Collection[str] | None) -> list[Finding]:
    """Findings of the profile's rules."""
    return []


def judge_site(
    checked: Checked[Site], profile: Profile | None, check_ids: Collection[str] | None
) -> list[Finding]:
    """Findings of the site's rules, over as much of the site as is sound."""
    return []
