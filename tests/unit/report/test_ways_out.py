"""A host that writes escape sequences wherever it can speak: none leaves the program on any way out."""

import io
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from rich.console import Console

from appliance.cli import main, options
from appliance.engine.look.gather import Unanswered
from appliance.errors import ApplianceError, CommandFailed, ConnectionFailed
from appliance.models import events
from appliance.models.plan import Action, HostStage, Plan
from appliance.models.result import CheckResult, Measurement, Status
from appliance.models.run import RunRecord
from appliance.report import event_lines, nagios, prometheus
from appliance.report.console import findings_list, plan_table, run_summary
from appliance.report.fabric import rails_table
from appliance.report.findings import findings
from appliance.report.html.page import render
from appliance.report.live_view import Running
from appliance.report.progress import JsonObserver, PlainObserver
from tests.support.planted_trees import nothing_fits, planted

SPOKEN = "\x1b[2J\x1b]0;pwned\x07\x9b1m\u202eevil\u200b\u2028next\r\nfix: rm [/x] [link=u]"
ACTING = ("\x1b", "\x07", "\x9b", "\u202e", "\u200b", "\u2028", "\r")
EVENTS = get_args(get_args(events.Event)[0])


def made(model: type[BaseModel], **changes: Any) -> Any:
    """A model whose every text was spoken by a host."""
    return model.model_validate({**planted(model, SPOKEN, nothing_fits), **changes})


def shown(show: Callable[[Console], object]) -> str:
    """What a console without colours is given."""
    into = io.StringIO()
    show(Console(file=into, width=10_000, markup=False, color_system=None))
    return into.getvalue()


def is_harmless(text: str) -> bool:
    """It acts on no terminal, and no line of it is one a host began."""
    lines = text.splitlines()
    is_own = not any(line.strip().startswith("fix: rm") for line in lines)
    return is_own and not any(act in text for act in ACTING)


RESULTS = [made(CheckResult, status=status) for status in Status]
RECORD = made(RunRecord, results=[r.model_dump() for r in RESULTS])
PLAN = made(Plan)


def test_all_that_is_said_here_is_said_by_hosts() -> None:
    assert RECORD.hosts[0].gpus[0].serial.startswith("\\x1b[2J")
    assert not is_harmless(SPOKEN)


WAYS: dict[str, Callable[[], str]] = {
    "console: findings": lambda: shown(lambda c: findings_list(c, findings(RESULTS))),
    "console: summary": lambda: shown(lambda c: run_summary(c, RECORD)),
    "console: plan": lambda: shown(lambda c: plan_table(c, PLAN)),
    "console: fabric": lambda: shown(lambda c: rails_table(c, [tuple(RECORD.left_out * 6)])),
    "html": lambda: render(RECORD),
    "nagios": lambda: nagios.render(RECORD.site, RESULTS)[0],
    "prometheus": lambda: prometheus.render(
        RECORD.site, RESULTS, datetime.now(UTC), [made(Measurement)]
    ),
    "json": RECORD.model_dump_json,
}


@pytest.mark.parametrize("way", WAYS)
def test_nothing_a_host_says_acts_on_what_shows_it(way: str) -> None:
    told = WAYS[way]()
    assert "pwned" in told
    assert is_harmless(told)


@pytest.mark.parametrize("kind", EVENTS)
def test_events_are_harmless_wherever_they_are_shown(kind: type[BaseModel]) -> None:
    event = made(kind)
    for line in event_lines.lines(event):
        assert line.isprintable()
    into = io.StringIO()
    JsonObserver(into).handle(event)
    assert is_harmless(into.getvalue())
    assert is_harmless(shown(lambda c: PlainObserver(c, verbose=True).handle(event)))
    rows = Running()
    rows.handle(made(events.StageStarted))
    assert is_harmless(shown(lambda c: c.print(*rows.handle(event), rows.picture())))


@pytest.mark.parametrize("kind", [ApplianceError, ConnectionFailed, CommandFailed])
def test_errors_are_harmless(
    kind: type[ApplianceError],
) -> None:
    told = main._error_text(kind(SPOKEN, SPOKEN, "gpu-2"))
    assert "pwned" in told
    assert not any(act in told for act in ACTING)


def test_host_without_facts_is_told_in_one_line() -> None:
    missing = Unanswered("gpu-2", SPOKEN, SPOKEN)
    assert (missing.cause + missing.fix).isprintable()


def test_terminal_takes_brackets_for_brackets() -> None:
    stage = HostStage(stage="base", host="gpu-1", action=Action.RUN, why="[/x] [link=u]")
    assert not options.console()._markup
    assert "[/x] [link=u]" in shown(lambda c: c.print(stage.why))
