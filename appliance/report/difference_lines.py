"""Prints differences from an earlier state of the site; equal differences of several hosts are one line."""

from collections.abc import Iterable

from appliance.models.handover import Difference
from appliance.report.formatting import fold

NEW, GONE, CHANGED, UNKNOWN = "+", "-", "~", "?"


def lines(differences: Iterable[Difference]) -> list[str]:
    """Return one line per difference, ordered by kind and name: "~ gpu-[1-2]: kernel 6.1.0 then, 6.1.1 now"."""
    alike: dict[tuple[str, str, str, bool], list[str]] = {}
    for one in differences:
        alike.setdefault((one.what, one.then, one.now, one.known), []).append(one.host)
    told = [
        (_mark(then, now, known), f"{_where(hosts)}{_difference_text(what, then, now, known)}")
        for (what, then, now, known), hosts in alike.items()
    ]
    order = (UNKNOWN, GONE, NEW, CHANGED)
    return [f"{mark} {text}" for mark, text in sorted(told, key=lambda row: order.index(row[0]))]


def _mark(then: str, now: str, known: bool) -> str:
    if not known:
        return UNKNOWN
    if bool(then) == bool(now):
        return CHANGED
    return NEW if now else GONE


def _where(hosts: list[str]) -> str:
    named = [host for host in hosts if host]
    return f"{fold(named)}: " if named else ""


def _difference_text(what: str, then: str, now: str, known: bool) -> str:
    if not known:
        return what
    if not then and not now:
        return f"{what} has changed"
    if then and now:
        return f"{what}: {then} then, {now} now"
    return f"{what} is new: {now}" if now else f"{what} was removed: {then}"
