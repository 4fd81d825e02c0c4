"""Judges one figure of each host: against the limit of site or profile, and against the other hosts of its kind."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from appliance.benchmarks.blame.outliers import Compared, compare
from appliance.checks.check import View, failed, not_assessed, passed, warned
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, place


@dataclass(frozen=True)
class Figure:
    """What is measured of each host. ``least``: percent behind the equals that make an outlier, from experience with ``what``.

    ``parts``: what of a host it is about; ``fix``: where to look first when it is too low.
    """

    check: str
    what: str
    unit: str
    fix: str
    least: float = 10.0
    more_is_better: bool = True
    parts: tuple[str, ...] = ()


def judge_hosts(
    view: View,
    figure: Figure,
    values: Mapping[str, float],
    evidence: Mapping[str, str] | str = "",
    limit: Limit | None = None,
) -> Iterator[CheckResult]:
    """One result per host. A host within the limit can still be an outlier; without a limit and with too few equals nothing is judged.

    ``limit``: a floor (a ceiling where less is better); where None, that of site or profile.
    """
    bound = view.limit(figure.check) or limit
    compared = compare(values, least=figure.least, more_is_better=figure.more_is_better)
    for host, value in values.items():
        said = evidence if isinstance(evidence, str) else evidence.get(host, "")
        yield _judged(view, figure, host, value, said, bound, compared, len(values))


def _judged(
    view: View,
    figure: Figure,
    host: str,
    value: float,
    evidence: str,
    bound: Limit | None,
    compared: Compared,
    equals: int,
) -> CheckResult:
    at = place(host, *figure.parts)
    outlier = next((o for o in compared.outliers if o.name == host), None)
    shown: dict[str, Any] = {
        "value": _rounded(value),
        "unit": figure.unit,
        "evidence": evidence,
        "simulated": in_container(view, host),
    }
    if not 0 <= value < inf:
        return not_assessed(at, f"{figure.what} cannot be {value:g}", **shown).of(figure.check)
    if bound is not None:
        shown |= {"limit": bound.value, "limit_source": bound.source}
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
            source = f"median of {equals} hosts, less {figure.least:g} %"
            shown |= {"limit": _rounded(outlier.median), "limit_source": source}
        cause = f"{figure.what} is {outlier.percent:.0f} % worse than the median of {equals} equal hosts"
        return failed(at, cause, figure.fix, names=(host,), **shown).of(figure.check)
    if bound is None and compared.why:
        cause = f"no limit is set ({figure.check}), and of {compared.why}"
        return not_assessed(at, cause, required=False, **shown).of(figure.check)
    if bound is not None and compared.why.startswith("they differ"):
        return warned(at, compared.why, figure.fix, **shown).of(figure.check)
    if bound is None:
        source = f"within {figure.least:g} % of {equals} equal hosts; no limit is set"
        shown |= {"limit_source": source}
    return passed(at, **shown).of(figure.check)


def in_container(view: View, host: str) -> bool:
    """Whether a host shares its machine with others, so that its figures are of no hardware of its own."""
    facts = view.facts.get(host)
    return bool(view.site.simulated) or bool(facts and facts.os.container)


def _rounded(value: float) -> float:
    """Four significant digits: more is noise."""
    return float(f"{value:.4g}")
