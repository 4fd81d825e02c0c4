"""Rules for releases: the site's choices exist, and are compatible."""

from collections.abc import Iterator

from appliance.config.compatibility import COMPONENTS, clashes
from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, nearest
from appliance.config.schema import Checked
from appliance.models.profile import OF_A_HOST, Profile

# Chosen elsewhere, for a reason worth naming.
ELSEWHERE = {
    "fabric_manager": "it always has the driver's version: set driver_branch",
    "operating_systems": "it is set by the hosts; the profile lists the supported ones",
}


def overrides(case: Case) -> Iterator[Finding]:
    """What a site may override."""
    for name in case.site.software:
        if name not in COMPONENTS:
            remedy = ELSEWHERE.get(name) or nearest(name, COMPONENTS, "components")
            yield case.problem(("software", name), "cannot be set here", remedy)


def compatible(case: Case) -> Iterator[Finding]:
    """The site's releases are compatible with each other and with the profile's."""
    own = case.site.software
    base = case.profile.software.model_dump() if case.profile else {}
    for clash in clashes({**base, **own}):
        mine = [name for name in (clash.other, clash.component) if name in own]
        if mine:
            yield case.problem(("software", mine[0]), clash.message, clash.remedy)


def classes(case: Case) -> Iterator[Finding]:
    """A class's own releases are compatible with those of the site."""
    seen: set[str] = set()
    for i, host in enumerate(case.site.hosts):
        profile = case.profile_of(host.name)
        if host.hardware_class is None or profile is None or profile.name in seen:
            continue
        seen.add(profile.name)
        own = {name: getattr(profile.software, name) for name in sorted(OF_A_HOST)}
        for clash in clashes({**profile.software.model_dump(), **case.site.software}):
            if clash.component in own or clash.other in own:
                path: KeyPath = ("hosts", i, "class")
                yield case.problem(path, f"{profile.name}: {clash.message}", clash.remedy)


def profile_compatible(checked: Checked[Profile]) -> Iterator[Finding]:
    """The profile's releases are compatible with each other."""
    if checked.model is None or not checked.model.software.driver_branch:
        return
    for clash in clashes(checked.model.software.model_dump()):
        path: KeyPath = ("software", clash.other or clash.component)
        yield checked.finding(path, clash.message, clash.remedy)
