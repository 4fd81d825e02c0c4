"""What a terminal shows of a run: finished stages as permanent lines, running ones redrawn."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from appliance.models import events
from appliance.models.run import StageState
from appliance.report import event_lines
from appliance.report.formatting import duration, fold, one_line
from appliance.report.symbols import STATE, Sign
from appliance.text import plural

_NAME = 12
_SHOWN_HOSTS = 4


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass
class _StageNow:
    """One running stage: what each host does, and how the finished ones ended."""

    started: events.StageStarted
    tasks: dict[str, str] = field(default_factory=dict)
    ended: dict[str, events.HostDone] = field(default_factory=dict)


@dataclass
class Running:
    """The state of a run; ``clock`` gives the time for elapsed times."""

    ascii_only: bool = False
    clock: Callable[[], datetime] = _now
    _stages: dict[str, _StageNow] = field(default_factory=dict)
    _pending: list[str] = field(default_factory=list)

    def handle(self, event: events.Event) -> list[RenderableType]:
        """Process ``event``; return the permanent lines it adds."""
        match event:
            case events.StageStarted():
                self._stages[event.stage] = _StageNow(event)
                self._forget(event.stage)
            case events.HostTask() if event.stage in self._stages:
                self._stages[event.stage].tasks[event.host] = event.task.rpartition(" | ")[2]
            case events.HostDone() if event.stage in self._stages:
                self._stages[event.stage].ended[event.host] = event
            case events.StageDone():
                self._forget(event.stage)
                return self._finished(event, self._stages.pop(event.stage, None))
            case events.RunFinished():
                self._pending.clear()
            case events.RunStarted():
                self._pending = list(event.stages)
                return self._event_lines(event)
            case events.FactsTaken() | events.Message():
                return self._event_lines(event)
        return []

    def picture(self) -> RenderableType:
        """Return the running stages with their hosts' tasks, and the stages still to come."""
        rows = [self._row(stage) for stage in self._stages.values()]
        if self._pending:
            rows.append(Text(f"    then {', '.join(self._pending)}", "dim"))
        for row in rows:
            row.no_wrap, row.overflow = True, "crop" if self.ascii_only else "ellipsis"
        return Group(*rows)

    def _forget(self, stage: str) -> None:
        self._pending = [name for name in self._pending if name != stage]

    def _row(self, stage: _StageNow) -> Text:
        began = stage.started
        elapsed = duration((self.clock() - began.time).total_seconds())
        expected = began.expected_seconds
        of = "" if expected is None else f" / about {duration(expected)}"
        counts = f"{len(stage.ended)}/{len(began.hosts)}"
        mark = ">" if self.ascii_only else "▸"
        head = f"  {mark} {began.stage:<{_NAME}} {counts:<7} {elapsed}{of}"
        return Text.assemble((head, "bold"), "    ", _doing(stage))

    def _finished(self, event: events.StageDone, stage: _StageNow | None) -> list[RenderableType]:
        sign = STATE[event.state]
        counts = f"{event.done}/{event.hosts}"
        note = event.note or plural(event.changes, "change")
        head = f"{event.stage:<{_NAME}} {counts:<7} {duration(event.seconds):>7}   {note}"
        word = f"   {sign.word}" if event_lines.failed(event.state) else ""
        line = Text.assemble("  ", self._mark(sign), " ", head, (word, sign.style))
        ended = stage.ended.values() if stage else ()
        return [line, *self._failures([e for e in ended if e.state is StageState.FAILED])]

    def _failures(self, ended: list[events.HostDone]) -> list[RenderableType]:
        by_reason: dict[tuple[str, str], list[str]] = {}
        for event in ended:
            by_reason.setdefault((event.cause, event.fix), []).append(event.host)
        told: list[RenderableType] = []
        for (cause, fix), hosts in by_reason.items():
            head = Text.assemble((fold(hosts), "bold"), f"  {one_line(cause)}")
            told.append(_indented(head))
            told += [_indented(Text(f"fix: {one_line(fix)}"))] if fix else []
        return told

    def _event_lines(self, event: events.Event) -> list[RenderableType]:
        return [Text(line) for line in event_lines.lines(event)]

    def _mark(self, sign: Sign) -> tuple[str, str]:
        return (sign.glyph(self.ascii_only), sign.style)


def _indented(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, 6), expand=False)


def _doing(stage: _StageNow) -> Text:
    """Return who is still running, and what; hosts at the same task are listed together."""
    waiting = [host for host in stage.started.hosts if host not in stage.ended]
    by_task: dict[str, list[str]] = {}
    for host in waiting:
        by_task.setdefault(stage.tasks.get(host, "starting"), []).append(host)
    parts = [f"{fold(hosts)}: {task}" for task, hosts in list(by_task.items())[:_SHOWN_HOSTS]]
    return Text(" · ".join(parts), "dim")
