"""Computes everything the template shows."""

from base64 import b64encode
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from appliance.models.acceptance import Accepted, Gate, GateState
from appliance.models.result import Status, Verdict
from appliance.models.run import RunRecord, StageState, Table
from appliance.report.formatting import (
    acceptance_words,
    binary_size,
    duration,
    fold,
    gate_value,
    number,
    waiver_words,
)
from appliance.report.html import checks, inventory, plot, timeline
from appliance.report.html.matrix import matrix
from appliance.report.symbols import GATE, STATUS, Sign, verdict_sign
from appliance.text import plural

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES = Path(__file__).parent / "templates"
_TITLES = {
    "deploy": "Deployment report",
    "validate": "Acceptance report",
    "health": "Health report",
    "accept": "Acceptance report",
}


@dataclass(frozen=True)
class Figure:
    """One of the three figures. ``share`` of what was promised, 1.0 = all; None: nothing to compare."""

    label: str
    value: str
    of: str
    note: str
    share: float | None
    good: bool | None


def render(record: RunRecord) -> str:
    """Return the report as one HTML document that loads nothing and works without scripts."""
    return _environment().get_template("report.html.j2").render(_context(record))


def read_templates() -> None:
    """Compile templates at setup, because the user of a report may not be allowed to write next to the templates."""
    environment = _environment()
    for name in environment.list_templates(filter_func=lambda name: "/" not in name):
        environment.get_template(name)


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from appliance.report.html.compiled import Compiled

    env = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.bytecode_cache = Compiled(_TEMPLATES, env)
    env.filters |= {
        "number": number,
        "size": binary_size,
        "duration": duration,
        "plural": plural,
        "fold": fold,
        "waived": waiver_words,
    }
    return env


def _context(record: RunRecord) -> dict[str, Any]:
    loader = _environment()
    script = loader.get_template("filter.js").render()
    handed = "Hand-over" if record.handover else ""
    return {
        "run": record,
        "title": handed or _TITLES.get(record.verb, f"Report of {record.verb}"),
        "sign": verdict_sign(record),
        "signs": STATUS,
        "sentence": sentence(record),
        "accepted": _accepted(record),
        "gates": _gates(record),
        "leveled": record.verb == "accept",
        "figures": figures(record),
        "counted": checks.counted(record.results),
        "open_points": checks.open_points(record),
        "unassessed": checks.unassessed(record),
        "matrix": matrix(record),
        "sections": checks.sections(record),
        "timeline": timeline.timeline(record),
        "outcomes": timeline.outcomes(record),
        "broken": timeline.failures(record),
        "tables": [(t, texts(t), t.plot and plot.drawing(t.plot)) for t in record.tables],
        "hosts": inventory.hosts(record),
        "gpus": inventory.gpus(record),
        "ports": inventory.ports(record),
        "odd_vbios": inventory.odd(g.vbios for h in record.hosts for g in h.gpus),
        "odd_drivers": inventory.odd(g.driver for h in record.hosts for g in h.gpus),
        "odd_firmware": inventory.odd(p.firmware for h in record.hosts for p in h.ports),
        "components": inventory.components(record),
        "images": [tuple(rows) for _, rows in groupby(record.images, lambda one: one.image)],
        "style": Markup(loader.get_template("style.css").render()),
        "script": Markup(script),
        "script_digest": b64encode(sha256(script.encode()).digest()).decode(),
    }


def texts(table: Table) -> tuple[bool, ...]:
    """Return which columns hold words and are left-aligned: the first, and those in which most values begin with a letter."""
    columns = list(zip(*table.rows, strict=False)) or [()] * len(table.columns)
    words = [sum(str(value)[:1].isalpha() for value in column) for column in columns]
    return tuple(not n or 2 * words[n] > len(column) for n, column in enumerate(columns))


@dataclass(frozen=True)
class Word:
    """Return the verdict on the site: its CSS class, its word, the rest of the sentence."""

    kind: str
    word: str
    rest: str


@dataclass(frozen=True)
class State:
    """Return a gate's state: the CSS class of its badge, and its sign."""

    badge: str
    sign: Sign


_KIND = {Accepted.YES: "passed", Accepted.NO: "failed"}
_BADGE = {GateState.PASSED: "pass", GateState.OPEN: "not_assessed", GateState.FAILED: "fail"}


def _accepted(record: RunRecord) -> Word | None:
    if record.acceptance is None:
        return None
    word, rest = acceptance_words(record.acceptance)
    return Word(_KIND.get(record.acceptance.verdict, "incomplete"), word, rest)


def _gates(record: RunRecord) -> tuple[tuple[Gate, State, str], ...]:
    gates = record.acceptance.gates if record.acceptance else ()
    return tuple((g, State(_BADGE[g.state], GATE[g.state]), gate_value(g)) for g in gates)


def sentence(record: RunRecord) -> str:
    """Return the verdict in words, with its basis."""
    if record.verb == "accept" and record.acceptance:
        word, rest = acceptance_words(record.acceptance)
        return f"Accepted: {word}. {rest.rstrip(':').rstrip('.')}."
    if record.verdict is Verdict.FAILED:
        return _failures(record)
    if not record.results:
        return "Nothing was judged."
    if record.verdict is Verdict.INCOMPLETE:
        return "Nothing failed, but a required check has no verdict."
    passed, total = record.count(Status.PASS), len(record.results)
    if record.narrowed:
        part = f"This run was limited to a part of the site ({record.narrowed})"
        return f"{part}: {passed} of its {plural(total, 'check')} passed, none failed."
    if passed == total:
        return f"All {plural(total, 'check')} passed."
    return f"{passed} of {plural(total, 'check')} passed, none failed; no required one is without a verdict."


def _failures(record: RunRecord) -> str:
    broken = {o.host for o in record.outcomes if o.state is StageState.FAILED}
    errors = record.count(Status.ERROR)
    total = plural(len(record.results), "check")
    parts = [f"{record.count(Status.FAIL)} of {total} failed"] if record.results else []
    parts += [f"{errors} could not run"] if errors else []
    parts += [f"{plural(len(broken), 'host')} did not finish a stage"] if broken else []
    return f"{', '.join(parts)}."


def figures(record: RunRecord) -> tuple[Figure, Figure, Figure]:
    """Return GPUs, fabric ports at rate, and training throughput against its reference."""
    if not record.hosts:
        unasked = [
            Figure(label, "not asked", "", "this run did not check any host", None, None)
            for label in ("GPUs", "Fabric ports at rate")
        ]
        return unasked[0], unasked[1], _throughput(record)
    expected = record.expected
    rate = f"active at {number(expected.rate_gbps)} Gb/s or more"
    unpromised = "no rate promised" if record.ports_at_rate else "none in this profile"
    ports = rate if expected.ports else unpromised
    # A surplus GPU on one host must not hide a missing one on another; a surplus port may belong to storage.
    return (
        _counted("GPUs", record.gpu_count, expected.gpus, inventory.gpu_models(record), False),
        _counted("Fabric ports at rate", record.ports_at_rate, expected.ports, ports, None),
        _throughput(record),
    )


def _counted(label: str, found: int, expected: int, note: str, more: bool | None) -> Figure:
    """``more``: the text if there are more than expected."""
    if not expected:
        return Figure(label, str(found), "", note, None, None)
    good = more if found > expected else found == expected
    return Figure(label, str(found), f"of {expected}", note, found / expected, good)


def _throughput(record: RunRecord) -> Figure:
    label = "Training, tokens/s"
    best = record.headline
    if best is None:
        return Figure(label, "not measured", "", "no training benchmark in this run", None, None)
    value = f"{round(best.value):,}"
    reference = best.detail.get("reference")
    simulated = " (simulated)" if best.simulated else ""
    recalled = best.detail.get("recalled")
    note = f"{best.name}{simulated}" + (f", {recalled}" if recalled else "")
    if not isinstance(reference, int | float) or isinstance(reference, bool) or reference <= 0:
        return Figure(label, value, "", f"{note}; no reference for this class", None, None)
    share = best.value / reference
    source = best.detail.get("source")
    of = f"{100 * share:.1f} % of {round(reference):,}"
    note = f"{note}; reference: {source}" if source else note
    return Figure(label, value, of, note, share, None)
