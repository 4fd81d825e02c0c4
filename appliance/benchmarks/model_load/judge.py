"""Judges a host's answer: were all tensors right, and was the streamer worth it; a warm load is never judged."""

from collections.abc import Iterator, Mapping
from typing import Any

from appliance.benchmarks.model_load import figures as f
from appliance.benchmarks.model_load.answer import Answer, Load, Measured
from appliance.benchmarks.model_load.gates import SHARE, SPEEDUP, TENSORS, part
from appliance.benchmarks.model_load.reference import load as reference
from appliance.benchmarks.model_load.request import LEAST_REPEATS
from appliance.checks.check import failed, judged, not_assessed, passed, warned
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Place, Status, place
from appliance.text import first_few, plural

CHECKS = (TENSORS, SPEEDUP, SHARE)
OWN_LIMIT = 0.95
OWN_SOURCE = (
    "own choice: not slower than safetensors, with 5 % tolerance for medians of three loads"
)
INSTALL = (
    "on the host: python3 -m venv /opt/model-load && /opt/model-load/bin/pip install {packages}, "
    "then validate again with --python /opt/model-load/bin/python3"
)
DAMAGED = "read the file again with sha256sum on two hosts; then check memory, disk and network of this host"
BROKEN = "on the host: pip check shows missing packages of a loader, dmesg errors of memory or disk; for a slow one, use a smaller --size, or omit it with --loaders"
SLOW = (
    "try other levels of --concurrency; then compare the storage's own rate with its specification"
)
Limits = Mapping[str, Limit | None]


def judge(answer: Answer, limits: Limits, host: str = "") -> Iterator[CheckResult]:
    """Per place: the tensors, the speed-up over safetensors, and, if a limit is set, the share of storage's own rate."""
    for measured in answer.places:
        at = place(host or answer.host, part(measured.place))
        yield from _judge(measured, at, limits, _versions(answer))


def _judge(measured: Measured, at: Place, limits: Limits, versions: str) -> Iterator[CheckResult]:
    yield _tensors(measured, at, versions)
    if measured.trouble or not measured.loads:
        return
    own = limits.get(SHARE)
    if measured.kind != "s3":
        yield _speedup(measured, at, limits.get(SPEEDUP))
    if own is not None:
        yield _share(measured, at, own)


def _tensors(measured: Measured, at: Place, versions: str) -> CheckResult:
    if measured.trouble:
        return not_assessed(at, measured.trouble, fix=measured.remedy).of(TENSORS)
    known = reference().files.get(measured.bytes)
    if known and measured.sha256 and known != measured.sha256:
        cause = f"the model file has the wrong content: SHA-256 {measured.sha256[:12]}"
        return failed(at, cause, DAMAGED).of(TENSORS)
    lacking = sorted({name for m in measured.missing for name in m.packages})
    remedy = INSTALL.format(packages=" ".join(lacking)) if lacking else ""
    if not measured.loads:
        why = f"no loader could be tested: {', '.join(lacking) or 'none was requested'} missing"
        return not_assessed(at, why, fix=remedy).of(TENSORS)
    if known and not measured.sha256:
        why = "the digest of the model file is unknown"
        return not_assessed(at, why, evidence=versions).of(TENSORS)
    checked = [load for load in measured.loads if load.checked and load.seconds is not None]
    if wrong := [load for load in checked if load.wrong]:
        cause = f"{_named(wrong)} delivered {plural(wrong[0].wrong, 'tensor')} with other bytes than the file"
        return failed(at, cause, DAMAGED, evidence=versions).of(TENSORS)
    if broken := [load for load in measured.loads if load.seconds is None]:
        cause = f"{_named(broken)} did not load: {broken[0].trouble or 'no time was reported'}"
        return judged(at, Status.ERROR, cause=cause, fix=BROKEN, evidence=versions).of(TENSORS)
    if not checked:
        return not_assessed(at, "no load was compared with the file", evidence=versions).of(TENSORS)
    told = f"{plural(measured.tensors, 'tensor')}, {measured.bytes:,} B, {plural(len(measured.loads), 'load')}; "
    return passed(at, len(checked), unit="loads compared", evidence=told + versions).of(TENSORS)


def _speedup(measured: Measured, at: Place, limit: Limit | None) -> CheckResult:
    found = f.figures(measured)
    streamer, plain = f.best(found, "streamer"), f.best(found, "safetensors")
    if streamer is None or plain is None:
        return not_assessed(at, _unmeasured(measured), fix=_packages(measured)).of(SPEEDUP)
    ratio = plain.median / streamer.median
    floor, source = OWN_LIMIT, OWN_SOURCE
    if limit is not None:
        floor, source = float(limit.value or 0), limit.source
    shown: dict[str, Any] = {
        "value": round(ratio, 2),
        "unit": "times as fast",
        "limit": floor,
        "limit_source": source,
        "evidence": f"{streamer.name}: {streamer.median:.3g} s, safetensors: {plain.median:.3g} s; "
        f"medians of {len(streamer.seconds)} and {len(plain.seconds)} cold loads",
    }
    if ratio >= floor:
        return passed(at, **shown).of(SPEEDUP)
    cause = f"the streamer at its best is {ratio:.2f} times as fast as safetensors"
    verdict = failed if limit is not None else warned
    return verdict(at, cause, SLOW, **shown).of(SPEEDUP)


def _share(measured: Measured, at: Place, limit: Limit) -> CheckResult:
    streamer, own = f.best(f.figures(measured), "streamer"), f.raw(measured)
    if streamer is None or own is None:
        return not_assessed(at, _unmeasured(measured), fix=_packages(measured)).of(SHARE)
    share = own.median / streamer.median * 100
    shown: dict[str, Any] = {
        "value": round(share, 1),
        "unit": "%",
        "limit": limit.value,
        "limit_source": limit.source,
        "evidence": f"{streamer.name}: {streamer.median:.3g} s; read in order by {own.concurrency}: {own.median:.3g} s",
    }
    if share >= float(limit.value or 0):
        return passed(at, **shown).of(SHARE)
    cause = f"loading reaches {share:.1f} % of the storage's own rate"
    return failed(at, cause, SLOW, **shown).of(SHARE)


def _unmeasured(measured: Measured) -> str:
    """The reason why a loader has too few cold loads."""
    warm = dict.fromkeys(
        why for load in measured.loads if load.seconds and (why := f.warm(measured, load))
    )
    if warm:
        return f"the cache could not be cleared: {first_few(list(warm), 2)}"
    if measured.missing:
        return f"not tested because packages are missing: {', '.join(m.loader for m in measured.missing)}"
    return f"fewer than {LEAST_REPEATS} loads of the streamer or of safetensors finished"


def _packages(measured: Measured) -> str:
    lacking = sorted({name for m in measured.missing for name in m.packages})
    return INSTALL.format(packages=" ".join(lacking)) if lacking else ""


def _named(loads: list[Load]) -> str:
    return first_few(list(dict.fromkeys(f"{x.loader} {x.concurrency}" for x in loads)))


def _versions(answer: Answer) -> str:
    return ", ".join(f"{name} {package.version}" for name, package in answer.packages.items())
