"""Rules for MIG layouts: every product of the class supports them, and the GPUs exist."""

from collections.abc import Iterator

from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, Rule, nearest
from appliance.config.schema import Checked
from appliance.errors import ConfigError
from appliance.models.gpu_counts import gpu_count
from appliance.models.profile import Profile
from appliance.models.site import Role
from appliance.stages.mig.layouts import geometry_of, numbers, parse
from appliance.stages.mig.site import MigHost
from appliance.stages.mig.table import DISABLED

MIG: KeyPath = ("mig",)


def of_profile(checked: Checked[Profile], profile: Profile) -> Iterator[Finding]:
    """Every product of a class supports its layout."""
    path: KeyPath = ("stages", "mig")
    if profile.stages.mig is not None:
        for message, remedy in _refusals(profile.stages.mig, profile, {}):
            yield checked.finding(path, message, remedy)


def layouts(case: Case) -> Iterator[Finding]:
    """Names are unambiguous, and their layouts are supported."""
    for name, text in case.site.mig.layouts.items():
        path: KeyPath = (*MIG, "layouts", name)
        if any(name == DISABLED or name in _known(profile) for profile in case.profiles):
            message = f'"{name}" is reserved'
            yield case.problem(path, message, "choose another name")
        refused = [tuple(_refusals(text, profile, {})) for profile in case.profiles]
        # A layout may be for hosts of a single class.
        if refused and all(refused):
            for message, remedy in refused[0]:
                yield case.problem(path, message, remedy)


def layout(case: Case) -> Iterator[Finding]:
    """The layout of all GPUs is supported."""
    if case.site.mig.layout is not None:
        for profile in case.profiles:
            yield from _at(case, profile, (*MIG, "layout"), case.site.mig.layout)


def hosts(case: Case) -> Iterator[Finding]:
    """Hosts with their own layout are GPU hosts of the site."""
    known = [host.name for host in case.site.with_role(Role.GPU)]
    for name, host in case.site.mig.hosts.items():
        path: KeyPath = (*MIG, "hosts", name)
        if name not in known and case.checked.listed("hosts"):
            message = f'"{name}" is not a GPU host of this site'
            yield case.problem(path, message, nearest(name, known, "GPU hosts"))
        profile = case.profile_of(name)
        if host.layout is not None and profile:
            yield from _at(case, profile, (*path, "layout"), host.layout)
        yield from _gpus(case, path, host)


def _gpus(case: Case, path: KeyPath, host: MigHost) -> Iterator[Finding]:
    """Each number names a GPU, and appears once."""
    seen: dict[int, str] = {}
    of = next((h for h in case.site.hosts if h.name == path[-1]), None)
    for given, text in host.gpus.items():
        at: KeyPath = (*path, "gpus", given)
        count, profile = 100, case.profile_of(str(path[-1]))
        if profile:
            yield from _at(case, profile, at, text)
            count = gpu_count(profile, of) if of else profile.hardware.gpu.count
        named = numbers(given)
        if not named:
            yield case.problem(
                at, f"{given} is in descending order", "write the smaller number first"
            )
        if over := [n for n in named if n >= count]:
            message = f"there is no GPU {over[0]}; a host has {count}"
            yield case.problem(at, message, f"0 to {count - 1}")
        if twice := [n for n in named if n in seen]:
            message = f'GPU {twice[0]} is also in "{seen[twice[0]]}"'
            yield case.problem(at, message, "name each GPU once")
        seen |= dict.fromkeys(named, given)


def _at(case: Case, profile: Profile, path: KeyPath, text: str) -> Iterator[Finding]:
    own = case.site.mig.layouts
    # A named layout is refused at its definition, unless another class supports it.
    if text.strip() in own and all(
        any(_refusals(own[text.strip()], each, {})) for each in case.profiles
    ):
        return
    for message, remedy in _refusals(text, profile, own):
        yield case.problem(path, message, remedy)


def _refusals(text: str, profile: Profile, own: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Return why a product of the class does not support a layout; once for all products with the same geometry."""
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
