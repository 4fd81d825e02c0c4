"""Rules for limits: each belongs to a check that has one, has its unit and range, and names its source."""

from collections.abc import Iterator, Mapping

from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import nearest
from appliance.config.schema import Checked
from appliance.config.validation_messages import shown
from appliance.models.bound import Bound, Bounds, bound_of
from appliance.models.profile import Limit, Profile
from appliance.models.site import Site

OF_ITS_OWN = "remove it: the check compares with the profile, the site or the data sheet"


def limits(
    checked: Checked[Site] | Checked[Profile], given: Mapping[str, Limit], known: Bounds | None
) -> Iterator[Finding]:
    """A limit's id is that of a check, or of a check with a number after a dot; the check can use its value."""
    for name, limit in given.items():
        at: KeyPath = ("limits", name)
        if known is not None:
            yield from _known(checked, at, name, limit, known)
        if not limit.source.strip():
            remedy = "name the source of the number, so that readers of the report can judge it"
            yield checked.finding((*at, "source"), "is empty", remedy)


def _known(
    checked: Checked[Site] | Checked[Profile], at: KeyPath, name: str, limit: Limit, known: Bounds
) -> Iterator[Finding]:
    try:
        bound = bound_of(name, known)
    except KeyError:
        area = [i for i in sorted(known) if i.split(".")[0] == name.split(".")[0]]
        remedy = nearest(name, area or sorted(known), "checks", cutoff=0.8)
        yield checked.finding(at, "is not the id of a check", remedy)
        return
    if bound is None:
        with_one = ", ".join(i for i in sorted(known) if known[i])
        remedy = f"{OF_ITS_OWN}; checks with a limit: {with_one}"
        yield checked.finding(at, "is a check without a limit", remedy)
    elif limit.value is None:
        yield checked.finding((*at, "value"), "has no value", "give a value, or remove the limit")
    elif why := _not_of(bound, limit.value):
        yield checked.finding((*at, "value"), f"{shown(limit.value)} {why}", _example(bound))
    if bound is not None and limit.unit != bound.unit:
        yield checked.finding((*at, "unit"), *_other_unit(bound, limit.unit))


def _not_of(bound: Bound, value: bool | int | float | str) -> str:
    """Why a value is not a valid bound; empty if it is."""
    if bound.words:
        return "" if value in bound.words else "is not accepted"
    if isinstance(value, bool | str):
        return "is not a number"
    if bound.whole and value % 1:
        return "is not a whole number"
    return "" if bound.holds(value) else "is out of range"


def _example(bound: Bound) -> str:
    if bound.words:
        return f"one of {bound}"
    return f"write it without quotes and with a decimal point: {bound}"


def _other_unit(bound: Bound, unit: str) -> tuple[str, str]:
    if not bound.unit:
        return f'"{unit}" is given, but a word has no unit', "remove it"
    what = f'"{unit}" is not the unit of this check' if unit else "is missing"
    return what, f'give the value in {bound.unit}, and write unit: "{bound.unit}"'
