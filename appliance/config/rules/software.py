"""Rules over releases: the site's choice is one there is, and goes with the rest."""

from collections.abc import Iterator

from appliance.config.compatibility import COMPONENTS, clashes
from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, nearest
from appliance.config.schema import Checked
from appliance.models.profile import Profile

# Chosen elsewhere, for a reason worth telling.
ELSEWHERE = {
    "fabric_manager": "it always has the driver's version: set driver_branch",
    "operating_systems": "the hosts decide; the profile lists what is supported",
}


def overrides(case: Case) -> Iterator[Finding]:
    """What a site may override."""
    for name in case.site.software:
        if name not in COMPONENTS:
            remedy = ELSEWHERE.get(name) or nearest(name, COMPONENTS, "components")
            yield case.problem(("software", name), "cannot be chosen here", remedy)


def compatible(case: Case) -> Iterator[Finding]:
    """The site's releases go with each other and with the profile's."""
    own = case.site.software
    base = case.profile.software.model_dump() if case.profile else {}
    for clash in clashes({**base, **own}):
        mine = [name for name in (clash.other, clash.component) if name in own]
        if mine:
            yield case.problem(("software", mine[0]), clash.message, clash.remedy)


def profile_compatible(checked: Checked[Profile]) -> Iterator[Finding]:
    """The profile's releases go with each other."""
    if checked.model is None:
        return
    for clash in clashes(checked.model.software.model_dump()):
        path: KeyPath = ("software", clash.other or clash.component)
        yield checked.finding(path, clash.message, clash.remedy)
