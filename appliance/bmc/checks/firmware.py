"""Are BIOS settings and firmware those that the profile wants of this model of servers."""

import re
from collections.abc import Iterable, Mapping

from appliance.checks.check import BmcCheck, View, failed, not_assessed, passed
from appliance.models.bmc import BiosValue, BmcArea, BmcFacts
from appliance.models.profile import ServerModel
from appliance.models.result import Judgement, place
from appliance.models.site import Host
from appliance.text import counted

CONTROLLER, BIOS = "controller", "BIOS"
"""Components that a controller need not list: their versions stand beside the machine's own data."""
AS_SHOWN = "write it in the profile as appliance bios show shows it"
WORDS = re.compile(r"[vV](?=[0-9])|[A-Za-z][A-Za-z0-9]*|[0-9]+|[^A-Za-z0-9]+")
"""Numbers, the v before one, words (the U46 of a board among them), and what stands between."""


def judge_bios(view: View, host: Host, facts: BmcFacts) -> Iterable[Judgement]:
    """Every setting that the profile names has the wanted value."""
    wanted = _wanted(view, facts)
    if wanted is None or not wanted.bios:
        yield from _none_named(view, host, facts, "bios")
        return
    common = {"limit_source": f"profile {view.profile.name}"}
    fix = f"appliance bios apply {host.name}"
    judged = 0
    for name, value in wanted.bios.items():
        found = facts.bios.get(name)
        at = place(host.name, name)
        if found is None:
            why = facts.unread.get(BmcArea.BIOS) or f"its controller does not say {name}"
            yield not_assessed(at, why, limit=value, **common)
        elif why := mismatch(name, found, value):
            yield not_assessed(at, why, fix=AS_SHOWN, value=found, limit=value, **common)
        elif found != value:
            cause = f"{name} is {found}, expected {value}"
            yield failed(at, cause, fix, value=found, limit=value, **common)
        else:
            judged += 1
    if judged == len(wanted.bios):
        yield passed(host.name, judged, unit="settings", **common)


def judge_firmware(view: View, host: Host, facts: BmcFacts) -> Iterable[Judgement]:
    """Every component that the profile names has at least the wanted version."""
    wanted = _wanted(view, facts)
    if wanted is None or not wanted.firmware:
        yield from _none_named(view, host, facts, "firmware")
        return
    common = {"limit_source": f"profile {view.profile.name}"}
    versions = versions_of(facts)
    judged = 0
    for name, least in wanted.firmware.items():
        found = versions.get(name)
        at = place(host.name, name)
        enough = None if found is None else at_least(found, least)
        if found is None:
            why = facts.unread.get(BmcArea.FIRMWARE) or f"its controller lists no {name}"
            yield not_assessed(at, why, limit=least, **common)
        elif enough is None:
            why = f"{found} and {least} are no versions of one form"
            fix = "write the version in the profile as appliance discover --json shows it"
            yield not_assessed(at, why, fix=fix, value=found, limit=least, **common)
        elif not enough:
            cause = f"{name} is {found}, older than {least}"
            fix = "update it by its maker's way, then: appliance discover"
            yield failed(at, cause, fix, value=found, limit=least, **common)
        else:
            judged += 1
    if judged == len(wanted.firmware):
        yield passed(host.name, judged, unit="components", **common)


def mismatch(name: str, found: BiosValue, wanted: BiosValue) -> str:
    """Why two values cannot be compared, "" where they can: no number is yes or no, and no text a number."""
    here, there = _kind(found), _kind(wanted)
    if here == there:
        return ""
    return f"{name} is {here} there ({found}), and {there} in the profile ({wanted})"


def _kind(value: BiosValue) -> str:
    if isinstance(value, bool):
        return "a yes or no"
    return "a text" if isinstance(value, str) else "a number"


def versions_of(facts: BmcFacts) -> Mapping[str, str]:
    """Component -> version, with those of BIOS and controller where the inventory names none."""
    own = {BIOS: facts.machine.bios, CONTROLLER: facts.controller_firmware}
    return {name: version for name, version in (own | facts.firmware).items() if version}


def at_least(found: str, wanted: str) -> bool | None:
    """Whether a version is no older; None where nobody can tell.

    Makers write them as they like ("1.13.2", "U30 v2.78 (03/16/2023)"): only numbers may differ, for they alone have an order.
    """
    here, there = WORDS.findall(found.strip()), WORDS.findall(wanted.strip())
    if not any(word.isdigit() for word in there):
        return None
    for one, other in zip(here, there, strict=False):
        if one.isdigit() and other.isdigit():
            if _size(one) != _size(other):
                return _size(one) > _size(other)
        elif one != other:
            return None
    rest = here[len(there) :] or there[len(here) :]
    # 2.9 is older than 2.9.3; nobody knows which of 2.9 and 2.9b is.
    return len(here) >= len(there) if all(w == "." or w.isdigit() for w in rest) else None


def _size(digits: str) -> tuple[int, str]:
    """Orders whole numbers of any length: int takes 4,300 digits."""
    plain = digits.lstrip("0")
    return len(plain), plain


def _wanted(view: View, facts: BmcFacts) -> ServerModel | None:
    return view.profile.server(facts.machine.model)


def _none_named(view: View, host: Host, facts: BmcFacts, what: str) -> Iterable[Judgement]:
    """A profile that names some for others has forgotten this model, or it is no such machine."""
    others = [s for s in view.profile.servers if getattr(s, what)]
    if others and view.profile.server(facts.machine.model) is None:
        model = facts.machine.model or "a model that its controller does not say"
        why = f"profile {view.profile.name} names {counted(len(others), 'models')}, none of them {model}"
        fix = "add it to servers in the profile (docs/discover.md)"
        yield not_assessed(host.name, why, required=False, fix=fix)


CHECKS = (
    BmcCheck(
        id="bmc.bios",
        title="BIOS settings are those of the profile",
        judge=judge_bios,
        limit="servers[].bios of the profile, for the model of the machine",
        explain="Settings as the controller shows them after the last start. A NUMA layout, an IOMMU or a power profile that differs "
        "on one host costs all jobs that it takes part in. Usual causes: a board that was replaced, an update that set them back.",
    ),
    BmcCheck(
        id="bmc.firmware",
        title="Firmware is not older than the profile wants",
        judge=judge_firmware,
        limit="servers[].firmware of the profile, for the model of the machine",
        explain="Versions as the controller lists them, BIOS and controller among them. Versions are compared number by number, and only "
        "where both are written in one form.",
    ),
)
