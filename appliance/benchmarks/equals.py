"""Judges one figure of each host, or of each part of hosts: against the limit of site or profile, and against the others of its kind."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from appliance.benchmarks.blame.outliers import Compared, compare
from appliance.checks.check import View, failed, not_assessed, passed, warned
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Judgement, Place, place


@dataclass(frozen=True)
class Figure:
    """A value that is measured on each host. ``least``: percent worse than the peers that make an outlier, from experience with ``what``.

    ``parts``: the component of a host; ``fix``: the first remedy for low values; ``equals``: the peers in words.
    """

    check: str
    what: str
    unit: str
    fix: str
    least: float = 10.0
    more_is_better: bool = True
    parts: tuple[str, ...] = ()
    equals: str = "hosts"


def judge_hosts(
    view: View,
    figure: Figure,
    values: Mapping[str, float],
    evidence: Mapping[str, str] | str = "",
    limit: Limit | None = None,
) -> Iterator[CheckResult]:
    """One result per host. A host within the limit can still be an outlier; without a limit and with too few equals nothing is judged.

    ``limit``: a floor (a ceiling where less is better) where site and profile set none; of all three see ``held``.
    """
    at = {host: place(host, *figure.parts) for host in values}
    told = {
        at[host]: evidence if isinstance(evidence, str) else evidence.get(host, "") for host in at
    }
    yield from judge_places(view, figure, {at[host]: v for host, v in values.items()}, told, limit)


def judge_places(
    view: View,
    figure: Figure,
    values: Mapping[Place, float],
    evidence: Mapping[Place, str],
    limit: Limit | None = None,
) -> Iterator[CheckResult]:
    """The same of parts of hosts, all of which are equals."""
    named = {str(at): value for at, value in values.items()}
    compared = compare(named, least=figure.least, more_is_better=figure.more_is_better)
    for at, value in values.items():
        told = evidence.get(at, "")
        held_to = held(view, figure.check, [at.host or ""], limit)
        yield _judged(view, figure, at, value, told, held_to, compared, len(values))


@dataclass(frozen=True)
class AppliedLimit:
    """The limit of a value; None if there is none, with the reason in ``why``."""

    limit: Limit | None
    why: str = ""


def held(
    view: View, check: str, hosts: Collection[str], published: Limit | None = None
) -> AppliedLimit:
    """Returns the limit of the site, otherwise of the profile, otherwise the published one of the product.

    The site's limit applies to its own hosts, whatever they are. The others apply to hardware. Hosts without
    hardware of their own, as on a virtual rack, are not compared with them.
    """
    if own := view.site.limits.get(check):
        return AppliedLimit(own)
    bound = view.limit(check) or published
    if bound is None:
        return AppliedLimit(None, f"no limit is set ({check})")
    if contained(view, hosts):
        why = (
            f"the limit of {bound.value} {bound.unit} is for real hardware of this class ({check})"
        )
        return AppliedLimit(None, why)
    return AppliedLimit(bound)


def _judged(
    view: View,
    figure: Figure,
    at: Place,
    value: float,
    evidence: str,
    held_to: AppliedLimit,
    compared: Compared,
    equals: int,
) -> CheckResult:
    host, bound = at.host or "", held_to.limit
    outlier = next((o for o in compared.outliers if o.name == str(at)), None)
    shown: dict[str, Any] = {
        "value": _rounded(value),
        "unit": figure.unit,
        "evidence": evidence,
        "simulated": in_container(view, host),
    }
    if bound is not None:
        shown |= {"limit": bound.value, "limit_source": bound.source}
    if not 0 < value < inf:
        return _nothing(figure, at, value, shown).of(figure.check)
    if bound is not None:
        floor = float(bound.value or 0)
        if (value < floor) if figure.more_is_better else (value > floor):
            than = "below" if figure.more_is_better else "above"
            cause = (
                f"{figure.what} is {_rounded(value):g} {figure.unit}, {than} the limit of {floor:g}"
            )
            apart = f"; its equals reach {_rounded(outlier.median):g}" if outlier else ""
            return failed(at, cause + apart, figure.fix, **shown).of(figure.check)
    if outlier:
        if bound is None:
            source = f"median of {equals} {figure.equals}, less {figure.least:g} %"
            shown |= {"limit": _rounded(outlier.median), "limit_source": source}
        cause = f"{figure.what} is {outlier.percent:.0f} % worse than the median of {equals} equal {figure.equals}"
        return failed(at, cause, figure.fix, names=(host,), **shown).of(figure.check)
    if bound is None and compared.why:
        cause = f"{held_to.why}, and of {compared.why}"
        return not_assessed(at, cause, required=False, **shown).of(figure.check)
    if bound is not None and compared.why.startswith("they differ"):
        return warned(at, compared.why, figure.fix, **shown).of(figure.check)
    if bound is None:
        source = f"within {figure.least:g} % of {equals} equal {figure.equals}; no limit is set"
        shown |= {"limit_source": source}
    return passed(at, **shown).of(figure.check)


def _nothing(figure: Figure, at: Place, value: float, shown: Mapping[str, Any]) -> Judgement:
    """A value of zero is bad, and an impossible value is an error."""
    if value == 0 and figure.more_is_better:
        return failed(at, f"{figure.what} is 0", figure.fix, **shown)
    return not_assessed(at, f"{figure.what} cannot be {value:g}", **shown)


def in_container(view: View, host: str) -> bool:
    """Whether a host shares its machine with others, so that its values do not describe hardware of its own."""
    facts = view.facts.get(host)
    return bool(view.site.simulated) or bool(facts and facts.os.container)


def contained(view: View, hosts: Collection[str]) -> bool:
    """Whether these hosts share machines, according to most of them: what one host reports about itself does not affect the others."""
    return 2 * sum(in_container(view, host) for host in hosts) > len(hosts)


def _rounded(value: float) -> float:
    """Four significant digits: more is noise."""
    return float(f"{value:.4g}")
