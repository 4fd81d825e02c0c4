"""Rules over MIG layouts: they can be made on every product of the class, on GPUs that are there."""

from collections.abc import Iterator

from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, Rule, nearest
from appliance.config.schema import Checked
from appliance.errors import ConfigError
from appliance.models.gpus import gpu_count
from appliance.models.profile import Profile
from appliance.models.site import Role
from appliance.stages.mig.layouts import geometry_of, numbers, parse
from appliance.stages.mig.site import MigHost
from appliance.stages.mig.table import DISABLED

MIG: KeyPath = ("mig",)


def of_profile(checked: Checked[Profile], profile: Profile) -> Iterator[Finding]:
    """A class's layout can be made on each of its products."""
    path: KeyPath = ("stages", "mig")
    if profile.stages.mig is not None:
        for message, remedy in _refusals(profile.stages.mig, profile, {}):
            yield checked.finding(path, message, remedy)


def layouts(case: Case) -> Iterator[Finding]:
    """Names mean one thing, and what they stand for can be made."""
    for name, text in case.site.mig.layouts.items():
        path: KeyPath = (*MIG, "layouts", name)
        if case.profile is None:
            continue
        if name == DISABLED or name in _known(case.profile):
            message = f'"{name}" has a meaning already'
            yield case.problem(path, message, "take another name")
        for message, remedy in _refusals(text, case.profile, {}):
            yield case.problem(path, message, remedy)


def layout(case: Case) -> Iterator[Finding]:
    """The layout of all GPUs can be made."""
    if case.site.mig.layout is not None:
        yield from _at(case, (*MIG, "layout"), case.site.mig.layout)


def hosts(case: Case) -> Iterator[Finding]:
    """Hosts that differ are GPU hosts of the site."""
    known = [host.name for host in case.site.with_role(Role.GPU)]
    for name, host in case.site.mig.hosts.items():
        path: KeyPath = (*MIG, "hosts", name)
        if name not in known and case.checked.listed("hosts"):
            message = f'"{name}" is no GPU host of this site'
            yield case.problem(path, message, nearest(name, known, "GPU hosts"))
        if host.layout is not None:
            yield from _at(case, (*path, "layout"), host.layout)
        yield from _gpus(case, path, host)


def _gpus(case: Case, path: KeyPath, host: MigHost) -> Iterator[Finding]:
    """Each number is a GPU's, and stands once."""
    seen: dict[int, str] = {}
    of = next((h for h in case.site.hosts if h.name == path[-1]), None)
    for given, text in host.gpus.items():
        at: KeyPath = (*path, "gpus", given)
        yield from _at(case, at, text)
        count = 100
        if case.profile:
            count = gpu_count(case.profile, of) if of else case.profile.hardware.gpu.count
        named = numbers(given)
        if not named:
            yield case.problem(at, f"{given} counts backwards", "write the smaller number first")
        if over := [n for n in named if n >= count]:
            message = f"there is no GPU {over[0]}, a host has {count}"
            yield case.problem(at, message, f"0 to {count - 1}")
        if twice := [n for n in named if n in seen]:
            message = f'GPU {twice[0]} stands in "{seen[twice[0]]}" too'
            yield case.problem(at, message, "name each GPU once")
        seen |= dict.fromkeys(named, given)


def _at(case: Case, path: KeyPath, text: str) -> Iterator[Finding]:
    if case.profile is not None:
        sound = {n: t for n, t in case.site.mig.layouts.items() if not _bad(t, case.profile)}
        own = case.site.mig.layouts
        if text.strip() in own and text.strip() not in sound:
            return
        for message, remedy in _refusals(text, case.profile, own):
            yield case.problem(path, message, remedy)


def _bad(text: str, profile: Profile) -> bool:
    return any(_refusals(text, profile, {}))


def _refusals(text: str, profile: Profile, own: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Why a layout cannot be made on a product of the class; once for all products that are cut alike."""
    seen = set()
    for model in profile.hardware.gpu.models:
        try:
            geometry = geometry_of(model)
            if geometry.name not in seen:
                seen.add(geometry.name)
                parse(text, geometry, own)
        except ConfigError as error:
            yield error.message, error.hint
            return


def _known(profile: Profile) -> set[str]:
    try:
        return {n for m in profile.hardware.gpu.models for n in geometry_of(m).layouts}
    except ConfigError:
        return set()


RULES: tuple[Rule, ...] = (
    layouts,
    layout,
    hosts,
)
PROFILE_RULES = (of_profile,)
