"""Judges a burn-in at its end: it ran whole and under load, nothing slowed the GPUs, nothing overheated, nothing failed."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from statistics import mean, pstdev
from typing import Any

from appliance.benchmarks.burnin.gates import CLOCKS, DONE, ERRORS, HEAT, RATE
from appliance.benchmarks.burnin.samples import Burn, Gpu
from appliance.checks.check import failed, not_assessed, passed, warned
from appliance.models.result import CheckResult, place
from appliance.stages.gpu.checks.condition import HARD, SW_THERMAL
from appliance.stages.gpu.xid_map import xid_map
from appliance.text import plural

WARM, HOT, SPREAD = 88.0, 95.0, 5.0
"""C: counted as too hot by Modal, critical by VESSL; a host's GPUs within 5 C of each other (a published H100 acceptance form)."""
JITTER = 4.0
"""% of the mean that the rate may vary (the same form)."""
BUSY = 90.0
"""% of time: less, and it was no burn-in."""
WARMED = 300.0
"""s until heat and clocks have settled; of short runs the second half counts."""
SLACK = 2.0
"""Maximum time in s between the start of the load and its line."""
AGAIN = "find out what stopped or delayed it, then run again: appliance validate burnin"


def judge(host: str, burn: Burn, asked: float, gpus: int, simulated: bool) -> Iterator[CheckResult]:
    """Returns a result per check; results of a GPU name that GPU."""
    common: dict[str, Any] = {"simulated": simulated}
    yield _done(host, burn, asked, gpus, common)
    if any(len(m.gpus) != gpus for m in burn.moments):
        seen = min(len(m.gpus) for m in burn.moments)
        cause = f"{seen} of {gpus} GPUs answered throughout"
        if seen > 0:
            yield failed(
                host, cause, "a GPU is missing from the PCI bus: appliance health", **common
            ).of(ERRORS)
        for check in (CLOCKS, HEAT, *([ERRORS] * (seen == 0))):
            yield not_assessed(host, cause, **common).of(check)
        return
    yield from _of_gpus(host, burn, CLOCKS, _slowed, common)
    yield from _of_gpus(host, burn, HEAT, _heated, common)
    yield from _errors(host, burn, common)
    yield _rate(host, burn, common)


def settled(burn: Burn) -> float:
    """Seconds after which samples count for load, heat's spread and rate."""
    return min(WARMED, burn.lasted / 2)


def _done(host: str, burn: Burn, asked: float, gpus: int, common: dict[str, Any]) -> CheckResult:
    hours = burn.lasted / 3600
    shown = common | {"value": round(hours, 3), "unit": "h", "limit": round(asked / 3600, 3)}
    if not burn.done or burn.lasted < asked - SLACK:
        return failed(host, f"it ended after {hours:.3g} h", AGAIN, **shown).of(DONE)
    if burn.asked < asked - SLACK:
        told = f"it was to last {burn.asked / 3600:.3g} h: this is a different burn-in run"
        return failed(host, told, AGAIN, **shown).of(DONE)
    if burn.failed:
        fix = "check the job's log in Slurm, then run diagnostics on that host: appliance validate dcgm"
        return failed(host, f"{plural(burn.failed, 'worker')} of it died", fix, **shown).of(DONE)
    if burn.hung:
        return failed(
            host, "nvidia-smi hung during it", "appliance health; reboot the host", **shown
        ).of(DONE)
    # The host reports the interval itself, so a long interval must not excuse a gap.
    if burn.gap > max(60, min(5 * burn.interval, asked / 20)):
        cause = f"nothing was sampled for {burn.gap:.0f} s"
        return not_assessed(host, cause, fix=AGAIN, **shown).of(DONE)
    if burn.load != "gpu":
        cause = "only CPUs were loaded, no GPU: PyTorch with CUDA is missing"
        fix = (
            "set a container with PyTorch in slurm.containers.benchmark, or install it on the hosts"
        )
        return not_assessed(host, cause, fix=fix, **shown).of(DONE)
    after = settled(burn)
    for index in range(gpus):
        use = [
            g.utilization
            for m in burn.moments
            if m.at >= after
            for g in m.gpus
            if g.index == index and g.utilization is not None
        ]
        if not use or mean(use) < BUSY:
            told = f"{mean(use):.0f} % of the time" if use else "for an unknown time"
            return not_assessed(host, f"GPU {index} was busy {told}", fix=AGAIN, **shown).of(DONE)
    return passed(host, **shown).of(DONE)


Seen = tuple[str, str, str]
"""Status, cause and remedy of one GPU's whole time; the status "" is good."""


def _of_gpus(
    host: str,
    burn: Burn,
    check: str,
    look: Callable[[list[Gpu]], Seen],
    common: dict[str, Any],
) -> Iterator[CheckResult]:
    bad = unknown = 0
    during = [m for m in burn.moments if m.at >= 0]
    for index in sorted({g.index for m in during for g in m.gpus}):
        status, cause, fix = look([g for m in during for g in m.gpus if g.index == index])
        at = place(host, f"GPU {index}")
        bad += status in {"fail", "warn"}
        unknown += status == "unknown"
        if status == "fail":
            yield failed(at, cause, fix, **common).of(check)
        elif status == "warn":
            yield warned(at, cause, fix, **common).of(check)
        elif status == "unknown":
            yield not_assessed(at, cause, **common).of(check)
    if check == HEAT and (spread := _spread(burn)) is not None:
        yield warned(host, spread, "check air flow and seating of the warmest GPU", **common).of(
            check
        )
    elif not bad and not unknown:
        yield passed(host, len(during), unit="samples", **common).of(check)


def _slowed(own: list[Gpu]) -> Seen:
    known = [g.reasons for g in own if g.reasons is not None]
    if not known:
        return "unknown", "the driver does not report why its clocks are reduced", ""
    for bit, (cause, fix) in HARD.items():
        if count := sum(bool(reasons & bit) for reasons in known):
            return "fail", f"{cause}: in {count} of {len(known)} samples", fix
    if count := sum(bool(reasons & SW_THERMAL) for reasons in known):
        cause = f"the driver lowered its clocks because of heat: in {count} of {len(known)} samples"
        return "warn", cause, "check fans, air flow and inlet temperature"
    return "", "", ""


def _heated(own: list[Gpu]) -> Seen:
    known = [g.temperature for g in own if g.temperature is not None]
    if not known:
        return "unknown", "the driver does not report its temperature", ""
    fix = "check fans, air flow and inlet temperature; compare with neighbouring hosts"
    if max(known) >= HOT:
        return "fail", f"it reached {max(known):g} C ({HOT:g} is critical)", fix
    if max(known) > WARM:
        return "warn", f"it reached {max(known):g} C (more than {WARM:g} is too hot)", fix
    return "", "", ""


def _spread(burn: Burn) -> str | None:
    """Checks whether the temperatures of a host's GPUs differ by more than the limit once they are steady."""
    after = settled(burn)
    warmth: dict[int, list[float]] = {}
    for moment in burn.moments:
        for gpu in moment.gpus:
            if moment.at >= after and gpu.temperature is not None:
                warmth.setdefault(gpu.index, []).append(gpu.temperature)
    means = {index: mean(of) for index, of in warmth.items()}
    if len(means) < 2 or (spread := max(means.values()) - min(means.values())) <= SPREAD:
        return None
    warmest = max(means, key=lambda index: means[index])
    return f"its GPUs differ by {spread:.1f} C ({SPREAD:g} at most), GPU {warmest} is the warmest"


def _errors(host: str, burn: Burn, common: dict[str, Any]) -> Iterator[CheckResult]:
    told = 0
    for index in sorted({g.index for m in burn.moments for g in m.gpus}):
        own = [g for m in burn.moments for g in m.gpus if g.index == index]
        counts = [g.uncorrected for g in own if g.uncorrected is not None]
        at = place(host, f"GPU {index}")
        if len({g.uuid for g in own}) > 1:
            told += 1
            yield failed(
                at, "another GPU replaced it during the run", "appliance health", **common
            ).of(ERRORS)
        elif len(counts) < len(own):
            told += 1
            yield not_assessed(
                at, "its memory errors were not reported in all samples", **common
            ).of(ERRORS)
        # A GPU that was reset counts from nought again.
        elif risen := sum(max(0, later - earlier) for earlier, later in pairwise(counts)):
            told += 1
            cause = f"{plural(int(risen), 'uncorrectable memory error')} came up"
            yield failed(at, cause, "reset the GPU; if the errors return, replace it", **common).of(
                ERRORS
            )
    if burn.xids is None:
        told += 1
        yield not_assessed(
            place(host, "kernel log"), "it could not be read in all samples", **common
        ).of(ERRORS)
    for address, code in burn.xids or ():
        row = xid_map().row(code)
        kind = xid_map().classes[row.kind] if row else None
        verdict = kind.verdict if kind else "warn"
        if verdict == "pass":
            continue
        told += 1
        at = place(host, f"Xid {code} of {address}")
        cause = f"the driver logged Xid {code}: {row.means if row else 'not classified'}"
        fix = (row.action if row else "") or (kind.action if kind else "appliance explain gpu.xid")
        make = failed if verdict == "fail" else warned
        yield make(at, cause, fix.replace("{gpu}", address), **common).of(ERRORS)
    if not told:
        yield passed(host, 0, unit="errors", **common).of(ERRORS)


def _rate(host: str, burn: Burn, common: dict[str, Any]) -> CheckResult:
    """Judges the variation of each GPU's rate in steady state."""
    after, worst, slowest = settled(burn), 0.0, ""
    names = sorted({name for m in burn.moments for name in m.rates})
    for name in names:
        own = [m.rates[name] for m in burn.moments if m.at >= after and name in m.rates]
        if len(own) > 1 and mean(own) and (jitter := pstdev(own) / mean(own) * 100) >= worst:
            worst, slowest = jitter, name
    if not slowest:
        return not_assessed(host, "no GPU reported a rate", required=False, **common).of(RATE)
    shown = common | {"value": round(worst, 1), "unit": "%", "limit": JITTER}
    if worst > JITTER:
        cause = f"the rate of GPU {slowest} varies by {worst:.1f} %"
        return warned(host, cause, "check its clocks and its power limit", **shown).of(RATE)
    return passed(host, **shown).of(RATE)
