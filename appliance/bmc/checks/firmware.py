"""Compares BIOS settings and firmware with the profile's, for this server model."""

import re
from collections.abc import Iterable, Mapping

from appliance.checks.check import BmcCheck, View, failed, not_assessed, passed
from appliance.models.bmc import BiosValue, BmcArea, BmcFacts
from appliance.models.profile import ServerModel
from appliance.models.result import Judgement, place
from appliance.models.site import Host
from appliance.text import counted

CONTROLLER, BIOS = "controller", "BIOS"
"""Components that a BMC may not list in its firmware inventory: their versions are in the data of the machine and the BMC."""
AS_SHOWN = "write it in the profile as shown by appliance bios show"
WORDS = re.compile(r"[vV](?=[0-9])|[A-Za-z][A-Za-z0-9]*|[0-9]+|[^A-Za-z0-9]+")
"""Numbers, a leading v, words (such as a board's U46), and separators."""


def judge_bios(view: View, host: Host, facts: BmcFacts) -> Iterable[Judgement]:
    """Every setting in the profile has the expected value."""
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
            why = facts.unread.get(BmcArea.BIOS) or f"its BMC does not report {name}"
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
    """Every component in the profile has at least the given version."""
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
            why = facts.unread.get(BmcArea.FIRMWARE) or f"its BMC lists no {name}"
            yield not_assessed(at, why, limit=least, **common)
        elif enough is None:
            why = f"versions {found} and {least} have different formats"
            fix = "write the version in the profile as shown by appliance discover --json"
            yield not_assessed(at, why, fix=fix, value=found, limit=least, **common)
        elif not enough:
            cause = f"{name} is {found}, older than {least}"
            fix = f"appliance bios update {host.name}"
            if name not in wanted.images:
                fix = "update it with the vendor's tool, then: appliance discover"
            yield failed(at, cause, fix, value=found, limit=least, **common)
        else:
            judged += 1
    if judged == len(wanted.firmware):
        yield passed(host.name, judged, unit="components", **common)


def mismatch(name: str, found: BiosValue, wanted: BiosValue) -> str:
    """Why two values cannot be compared, "" if they can: a number is neither a boolean nor a text."""
    here, there = _kind(found), _kind(wanted)
    if here == there:
        return ""
    return f"{name} is {here} on the BMC ({found}), but {there} in the profile ({wanted})"


def _kind(value: BiosValue) -> str:
    if isinstance(value, bool):
        return "a boolean"
    return "a text" if isinstance(value, str) else "a number"


def versions_of(facts: BmcFacts) -> Mapping[str, str]:
    """Component -> version, with those of BIOS and BMC if the inventory does not list them."""
    own = {BIOS: facts.machine.bios, CONTROLLER: facts.controller_firmware}
    return {name: version for name, version in (own | facts.firmware).items() if version}


def at_least(found: str, wanted: str) -> bool | None:
    """Whether a version is at least the expected one; None if that is undecidable.

    Vendors use different formats ("1.13.2", "U30 v2.78 (03/16/2023)"): only numbers may differ, because only they are ordered.
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
    # 2.9 is older than 2.9.3; the order of 2.9 and 2.9b is unknown.
    return len(here) >= len(there) if all(w == "." or w.isdigit() for w in rest) else None


def _size(digits: str) -> tuple[int, str]:
    """Compares whole numbers of any length: int is limited to 4,300 digits."""
    plain = digits.lstrip("0")
    return len(plain), plain


def _wanted(view: View, facts: BmcFacts) -> ServerModel | None:
    return view.profile.server(facts.machine.model)


def _none_named(view: View, host: Host, facts: BmcFacts, what: str) -> Iterable[Judgement]:
    """A profile that lists some models lacks this one, or the machine is the wrong one."""
    others = [s for s in view.profile.servers if getattr(s, what)]
    if others and view.profile.server(facts.machine.model) is None:
        model = facts.machine.model or "a model that the BMC does not report"
        why = f"profile {view.profile.name} lists {counted(len(others), 'models')}, but not {model}"
        fix = "add it to servers in the profile (docs/discover.md)"
        yield not_assessed(host.name, why, required=False, fix=fix)


CHECKS = (
    BmcCheck(
        id="bmc.bios",
        title="BIOS settings match the profile",
        judge=judge_bios,
        limit="servers[].bios of the profile, for the model of the machine",
        explain="Settings as reported by the BMC after the last start. A different NUMA layout, IOMMU or power profile on one host "
        "slows down all jobs that it takes part in. Usual causes: a replaced board, an update that reset the settings.",
    ),
    BmcCheck(
        id="bmc.firmware",
        title="Firmware is at least the profile's version",
        judge=judge_firmware,
        limit="servers[].firmware of the profile, for the model of the machine",
        explain="Versions as listed by the BMC, including BIOS and BMC. Versions are compared number by number, and only if both have "
        "the same format.",
    ),
)
