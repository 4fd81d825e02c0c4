"""Formats numbers, times and lists of hosts, in the same way in every report."""

import re
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from itertools import groupby

from appliance.models.acceptance import Acceptance, Accepted, Gate, GateState
from appliance.models.result import Value
from appliance.models.waiver import Waiver
from appliance.text import of_one, plural

_NUMBERED = re.compile(r"^(.*?)(\d+)$")


def duration(seconds: float) -> str:
    """``0:41``, ``12:05`` or ``2:03:11``."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def about(minutes: float) -> str:
    """Return an estimate with suitable precision: ``less than a minute``, ``about 11 min``."""
    if minutes < 1:
        return "less than a minute"
    if minutes < 90:
        return f"about {round(minutes)} min"
    return f"about {minutes / 60:.1f} h"


def moment(time: datetime, today: date | None = None) -> str:
    """Return a local day, with hour and minute for today and for the last 24 hours, because a night has two dates."""
    local = time.astimezone()
    recent = (today or datetime.now().astimezone().date()) - local.date() <= timedelta(days=1)
    return f"{local:%Y-%m-%d %H:%M}" if recent else local.date().isoformat()


def number(value: Value) -> str:
    """Return a value for people: thousands separated, four significant digits, yes and no."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, float):
        return _decimal(value)
    return value


def measured(value: Value, unit: str = "") -> str:
    """Return a value with its unit, which a word ("off") does not get; "" for no value."""
    text = number(value)
    if value == 1 and isinstance(value, int):
        unit = of_one(unit)
    return f"{text} {unit}".strip() if any(map(str.isdigit, text)) else text


def binary_size(octets: int) -> str:
    """Return bytes in GiB, MiB or KiB."""
    for unit, factor in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if octets >= factor:
            return f"{_decimal(octets / factor)} {unit}"
    return f"{octets} B"


def one_line(text: str) -> str:
    """Return ``text`` without line breaks and repeated blanks."""
    return " ".join(text.split())


def acceptance_words(acceptance: Acceptance) -> tuple[str, str]:
    """Return the verdict on a site in a word or two, and the rest of its sentence."""
    left = [gate for gate in acceptance.gates if gate.holds_back]
    open_ones = [gate for gate in left if gate.state is GateState.OPEN]
    failed = [gate for gate in left if gate.state is GateState.FAILED]
    counts = [f"{plural(len(failed), 'gate')} failed"] if failed else []
    if open_ones:
        counts.append(
            f"{plural(len(open_ones), 'gate')} {'is' if len(open_ones) == 1 else 'are'} open"
        )
    rest = "; ".join([*([acceptance.why] if acceptance.why else []), *counts])
    rest = f"{rest[:1].upper()}{rest[1:]}"
    match acceptance.verdict:
        case Accepted.YES:
            passed = len(acceptance.of(GateState.PASSED))
            word = f"yes, with {plural(len(acceptance.waivers), 'waiver')}"
            return word if acceptance.waivers else "yes", f"{plural(passed, 'gate')} passed."
        case Accepted.SIMULATED:
            return "no", f"{acceptance.why[:1].upper()}{acceptance.why[1:]}."
        case Accepted.NO_GATES:
            return "not judged", f"{rest}."
        case _:
            return acceptance.verdict.value, f"{rest}{':' if acceptance.gates else '.'}"


def waiver_words(waiver: Waiver) -> str:
    """``gpu.ecc@gpu-3 waived by Ann until 2027-01-31: spare part ordered``."""
    by = f" by {waiver.by}" if waiver.by else ""
    aspects = ", ".join(dict.fromkeys(one.aspect for one in waiver.found if one.aspect))
    covered = f" ({aspects})" if aspects else ""
    return f"{waiver.name}{covered} waived{by} until {waiver.until}: {waiver.reason}"


def gate_value(gate: Gate) -> str:
    """``97,541 tokens/s (limit 92,664)``; "" for no measurement."""
    if gate.value is None:
        return ""
    return f"{measured(gate.value, gate.unit)} (limit {number(gate.limit)})"


def fold(names: Iterable[str]) -> str:
    """Fold numbered hosts into ranges, in their order: ``head, gpu-[1-4,7]``."""
    return ", ".join(_fold_family(list(family)) for _, family in groupby(names, key=_family))


def targets(named: Iterable[str]) -> str:
    """Fold hosts, and the parts that several hosts share: ``gpu-[1-4] GPU [0-7]``."""
    parts: dict[str, list[str]] = {}
    for target in named:
        host, _, part = target.partition("/")
        parts.setdefault(host, []).append(part)
    alike: dict[tuple[str, ...], list[str]] = {}
    for host, own in parts.items():
        for some in (tuple(p for p in own if not p), tuple(filter(None, own))):
            if some:
                alike.setdefault(some, []).append(host)
    return "; ".join(f"{fold(h)} {fold(p) if any(p) else ''}".strip() for p, h in alike.items())


def _decimal(value: float) -> str:
    """Return four significant digits; never fewer than the integer part."""
    if abs(value) < 1000:
        return f"{value:.4g}"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.0f}"


def _family(name: str) -> str:
    """Return the text before the number; a name without one is its own family."""
    found = _NUMBERED.match(name)
    return f"{found[1]}#" if found else name


def _fold_family(names: list[str]) -> str:
    digits = [found[2] for found in map(_NUMBERED.match, names) if found]
    lengths = set(map(len, digits))
    padded = any(d.startswith("0") and len(d) > 1 for d in digits)
    if len(names) == 1 or not digits or (padded and len(lengths) > 1):
        return ", ".join(names)
    prefix = _family(names[0])[:-1]
    width = len(digits[0]) if padded else 0
    return f"{prefix}[{','.join(_ranges(sorted(set(map(int, digits))), width))}]"


def _ranges(numbers: list[int], width: int) -> list[str]:
    runs: list[list[int]] = []
    for value in numbers:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    ends = [(f"{run[0]:0{width}}", f"{run[-1]:0{width}}") for run in runs]
    return [first if first == last else f"{first}-{last}" for first, last in ends]
