"""Rules over limits: each belongs to a check that has one, is in its unit and range, and says where it comes from."""

from collections.abc import Iterator, Mapping

from appliance.config.finding import Finding, KeyPath
from appliance.config.objections import shown
from appliance.config.rules.base import nearest
from appliance.config.schema import Checked
from appliance.models.bound import Bound, Bounds, bound_of
from appliance.models.profile import Limit, Profile
from appliance.models.site import Site

OF_ITS_OWN = "take it out: the check compares with what profile, site or data sheet say"


def limits(
    checked: Checked[Site] | Checked[Profile], given: Mapping[str, Limit], known: Bounds | None
) -> Iterator[Finding]:
    """A limit's id is a check's, or a check's with a number behind a dot; its value is what the check can judge by."""
    for name, limit in given.items():
        at: KeyPath = ("limits", name)
        if known is not None:
            yield from _known(checked, at, name, limit, known)
        if not limit.source.strip():
            remedy = "say where the number comes from, so that a reader of the report can judge it"
            yield checked.finding((*at, "source"), "is empty", remedy)


def _known(
    checked: Checked[Site] | Checked[Profile], at: KeyPath, name: str, limit: Limit, known: Bounds
) -> Iterator[Finding]:
    try:
        bound = bound_of(name, known)
    except KeyError:
        area = [i for i in sorted(known) if i.split(".")[0] == name.split(".")[0]]
        remedy = nearest(name, area or sorted(known), "checks", cutoff=0.8)
        yield checked.finding(at, "is the id of no check", remedy)
        return
    if bound is None:
        with_one = ", ".join(i for i in sorted(known) if known[i])
        remedy = f"{OF_ITS_OWN}; limits are for {with_one}"
        yield checked.finding(at, "is a check without a limit", remedy)
    elif limit.value is None:
        yield checked.finding((*at, "value"), "has no value", "give a bound, or take the limit out")
    elif why := _not_of(bound, limit.value):
        yield checked.finding((*at, "value"), f"{shown(limit.value)} {why}", _example(bound))
    if bound is not None and limit.unit != bound.unit:
        yield checked.finding((*at, "unit"), *_other_unit(bound, limit.unit))


def _not_of(bound: Bound, value: bool | int | float | str) -> str:
    """Why a value is no bound; empty where it is one."""
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
    return f"write it without quotes and with a point for decimals: {bound}"


def _other_unit(bound: Bound, unit: str) -> tuple[str, str]:
    if not bound.unit:
        return f'"{unit}" is a unit, and a word has none', "take it out"
    what = f'"{unit}" is not the unit of this check' if unit else "is missing"
    return what, f'give the value in {bound.unit}, and write unit: "{bound.unit}"'
