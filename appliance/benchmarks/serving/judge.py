"""Judges a server's answers: all good at the lowest rate, and limits of site or profile at the rate it keeps up with."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from appliance.benchmarks.serving import figures as f
from appliance.benchmarks.serving.figures import Figure
from appliance.benchmarks.serving.gates import ANSWERS, THROUGHPUT, TPOT, TTFT
from appliance.checks.check import failed, not_assessed, passed
from appliance.models.profile import Limit
from appliance.models.result import CLUSTER, CheckResult
from appliance.text import first_few, plural

SERVER = "check the server's own log; then query it by hand: curl ENDPOINT/models"
UNNAMED = f"set the served model: --served-model NAME; otherwise {SERVER}"
SLOW = "check the server's metrics: queue, KV cache, preemptions; then check the GPUs: appliance health"
CLIENT = "measure from a machine with idle CPUs, or at lower --rates"
MORE = "send more requests: --seconds, or --least 20"
Limits = Mapping[str, Limit | None]


def judge(found: Sequence[Figure], limits: Limits) -> Iterator[CheckResult]:
    """serving.answers, and one result per limit that is set."""
    if not found:
        yield not_assessed(CLUSTER, "no request was sent").of(ANSWERS)
        return
    yield _answers(found[0])
    for check in (THROUGHPUT, TTFT, TPOT):
        limit = limits.get(check)
        if limit is not None:
            yield _limited(check, found, limit)


def _answers(lowest: Figure) -> CheckResult:
    asked = plural(lowest.asked, "request") + (f" at {lowest.rate:g}/s" if lowest.rate else "")
    if not lowest.asked:
        return not_assessed(CLUSTER, "no request was sent", fix=MORE).of(ANSWERS)
    shown: dict[str, Any] = {"unit": "answers", "limit": lowest.asked}
    shown["limit_source"] = "every request at the lowest rate succeeds"
    if lowest.good == lowest.asked:
        return passed(CLUSTER, lowest.good, evidence=asked, **shown).of(ANSWERS)
    reasons = [f"{count} x {why}" for why, count in lowest.refused.items()]
    cause = f"{lowest.asked - lowest.good} of {asked} failed: {first_few(reasons) or 'no reason reported'}"
    return failed(CLUSTER, cause, SERVER, value=lowest.good, **shown).of(ANSWERS)


def _limited(check: str, found: Sequence[Figure], limit: Limit) -> CheckResult:
    if late := [one for one in found if one.late is not None and one.late > f.LATE_S]:
        why = f"this machine sent requests {late[0].late:.1f} s late at {late[0].rate:g}/s: its figures are not the server's"
        return not_assessed(CLUSTER, why, fix=CLIENT).of(check)
    kept = f.saturation(found)
    if kept is None:
        lowest = found[0]
        if lowest.rate is None:
            kept = lowest
        else:
            why = f"the server does not keep up with {lowest.rate:g} requests/s, the lowest rate"
            return not_assessed(CLUSTER, why, fix="try lower --rates").of(check)
    if kept.good < f.LEAST:
        why = f"{plural(kept.good, 'good answer says', 'good answers say')} nothing of percentiles"
        return not_assessed(CLUSTER, why, fix=MORE).of(check)
    return _against(check, kept, found, limit)


def _against(check: str, kept: Figure, found: Sequence[Figure], limit: Limit) -> CheckResult:
    bound = float(limit.value or 0)
    at = (
        f"at {kept.rate:g} requests/s, the highest rate it keeps up with"
        if kept.rate
        else "all at once"
    )
    if check == THROUGHPUT:
        whole = [one for one in found if one.good >= f.GOOD * one.asked]
        value = max((one.throughput for one in whole), default=0.0)
        good, unit, how = (
            value >= bound,
            "tokens/s",
            "the maximum of all rates at which 99 % were answered",
        )
    else:
        times = kept.ttft if check == TTFT else kept.tpot
        if 99 not in times:
            return not_assessed(CLUSTER, "no answer had more than one token", fix=MORE).of(check)
        value, unit, how = times[99], "ms", at
        good = value <= bound
    shown: dict[str, Any] = {
        "value": round(value, 1),
        "unit": unit,
        "limit": limit.value,
        "limit_source": limit.source,
        "evidence": how,
    }
    if good:
        return passed(CLUSTER, **shown).of(check)
    return failed(CLUSTER, f"{value:.1f} {unit}, {how}", SLOW, **shown).of(check)
