"""Results as metrics for node_exporter's textfile collector.

Passes are counted by check and by host; only other results have a series of their own. So the size depends on
what is wrong, not on the size of the site. Format: https://prometheus.io/docs/instrumenting/exposition_formats/
(text format 0.0.4)
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from math import isinf, isnan

from appliance.models.result import (
    CheckResult,
    Measurement,
    Status,
    Value,
    Verdict,
    overall,
    worst_of_each,
)

Labels = Mapping[str, str]
Sample = tuple[Labels, float]


def render(
    site: str,
    results: Sequence[CheckResult],
    at: datetime,
    measurements: Sequence[Measurement] = (),
) -> str:
    """Return the exposition of ``results``, judged ``at``; counts and verdicts that do not hold are exported as 0."""
    told = [r for r in worst_of_each(results).values() if not _only_counted(r)]
    measured = [r for r in told if _float(r.value) is not None]
    verdict = overall(results)
    families = (
        _family(
            "appliance_check_results",
            "Results of a check by status",
            _counted(results, lambda r: {"site": site, "id": r.id, "simulated": _simulated(r)}),
        ),
        _family(
            "appliance_host_results",
            "Results of a host by status",
            _counted([r for r in results if r.host], lambda r: {"site": site, "host": str(r.host)}),
        ),
        _family(
            "appliance_check_status",
            "1 for the status of a check that did not pass",
            [(_labels(site, r) | {"status": r.status.value}, 1.0) for r in told],
        ),
        _family(
            "appliance_check_value",
            "Measured value of a check that did not pass",
            _values(site, measured, "value"),
        ),
        _family(
            "appliance_check_limit",
            "Limit that measured value is judged by",
            _values(site, measured, "limit"),
        ),
        _family("appliance_measurement", "Result of a benchmark", _measured(site, measurements)),
        _family(
            "appliance_verdict",
            "1 for the current verdict, 0 for the others",
            [({"site": site, "verdict": v.value}, float(v is verdict)) for v in Verdict],
        ),
        _family(
            "appliance_checked_timestamp_seconds",
            "Time of the checks",
            [({"site": site}, at.timestamp())],
        ),
    )
    return "\n".join(line for family in families for line in family) + "\n"


def _only_counted(result: CheckResult) -> bool:
    """Return whether a result is only counted: a pass, or unknown for a reason with a series of its own, as for a host without answer."""
    unknown = result.status in {Status.NOT_ASSESSED, Status.SKIP}
    return result.status is Status.PASS or (unknown and bool(result.explained_by))


def _counted(
    results: Iterable[CheckResult], labels: Callable[[CheckResult], Mapping[str, str]]
) -> list[Sample]:
    counts: dict[tuple[tuple[str, str], ...], Counter[Status]] = {}
    for result in results:
        counts.setdefault(tuple(labels(result).items()), Counter())[result.status] += 1
    return [
        (dict(names) | {"status": status.value}, float(of[status]))
        for names, of in counts.items()
        for status in Status
    ]


def _values(site: str, results: Iterable[CheckResult], name: str) -> list[Sample]:
    found = [(r, _float(getattr(r, name))) for r in results]
    return [(_labels(site, r) | {"unit": r.unit}, v) for r, v in found if v is not None]


def _measured(site: str, measurements: Iterable[Measurement]) -> list[Sample]:
    samples: dict[tuple[tuple[str, str], ...], Sample] = {}
    for m in measurements:
        detail = {f"detail_{k}": str(v) for k, v in m.detail.items() if k.isidentifier()}
        labels = {"site": site, "name": m.name, "target": m.target, "unit": m.unit} | detail
        samples[tuple(labels.items())] = (labels, m.value)
    return list(samples.values())


def _labels(site: str, result: CheckResult) -> dict[str, str]:
    named = {"site": site, "id": result.id, "target": result.target}
    named |= {"aspect": result.aspect} if result.aspect else {}
    return named | {"simulated": _simulated(result)}


def _simulated(result: CheckResult) -> str:
    return "true" if result.simulated else "false"


def _float(value: Value) -> float | None:
    return float(value) if isinstance(value, bool | int | float) else None


def _family(name: str, text: str, samples: Sequence[Sample]) -> list[str]:
    if not samples:
        return []
    told = [f"{name}{{{_label_text(labels)}}} {_number(value)}" for labels, value in samples]
    return [f"# HELP {name} {text}", f"# TYPE {name} gauge", *told]


def _label_text(labels: Labels) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(value)
