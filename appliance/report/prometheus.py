"""Results as metrics for node_exporter's textfile collector.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/ (text format 0.0.4)
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from math import isinf, isnan

from appliance.models.result import CheckResult, Measurement, Status, Value, Verdict, overall

Labels = Mapping[str, str]
Sample = tuple[Labels, float]


def render(
    site: str,
    results: Sequence[CheckResult],
    at: datetime,
    measurements: Sequence[Measurement] = (),
) -> str:
    """The exposition of ``results``, judged ``at``; statuses that do not hold are exported as 0."""
    lines: list[str] = []
    lines += _family(
        "appliance_check_status",
        "1 for the status a check has, 0 for the others",
        _states(site, results),
    )
    lines += _family(
        "appliance_check_value", "Measured value of a check", _values(site, results, "value")
    )
    lines += _family(
        "appliance_check_limit", "Limit a check judges by", _values(site, results, "limit")
    )
    lines += _family(
        "appliance_measurement", "Result of a benchmark", _measured(site, measurements)
    )
    verdict = overall(results)
    lines += _family(
        "appliance_verdict",
        "1 for the verdict that holds, 0 for the others",
        [({"site": site, "verdict": v.value}, float(v is verdict)) for v in Verdict],
    )
    lines += _family(
        "appliance_checked_timestamp_seconds",
        "When the checks were made",
        [({"site": site}, at.timestamp())],
    )
    return "\n".join(lines) + "\n"


def _states(site: str, results: Iterable[CheckResult]) -> list[Sample]:
    return [
        (_labels(site, r) | {"status": status.value}, float(r.status is status))
        for r in _once(results)
        for status in Status
    ]


def _values(site: str, results: Iterable[CheckResult], name: str) -> list[Sample]:
    found = [(r, _float(getattr(r, name))) for r in _once(results)]
    return [(_labels(site, r) | {"unit": r.unit}, v) for r, v in found if v is not None]


def _measured(site: str, measurements: Iterable[Measurement]) -> list[Sample]:
    samples: dict[tuple[tuple[str, str], ...], Sample] = {}
    for m in measurements:
        detail = {f"detail_{k}": str(v) for k, v in m.detail.items() if k.isidentifier()}
        labels = {"site": site, "name": m.name, "target": m.target, "unit": m.unit} | detail
        samples[tuple(labels.items())] = (labels, m.value)
    return list(samples.values())


def _once(results: Iterable[CheckResult]) -> list[CheckResult]:
    """The last result of each check and target: a series may stand only once."""
    return list({(r.id, r.target): r for r in results}.values())


def _labels(site: str, result: CheckResult) -> dict[str, str]:
    simulated = "true" if result.simulated else "false"
    return {"site": site, "id": result.id, "target": result.target, "simulated": simulated}


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
