"""Reports a run while it happens: on a terminal, as plain lines, or as one JSON object per line."""

import sys
from threading import Lock
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console, RenderableType
from rich.live import Live

from appliance.models.events import (
    CheckDone,
    Event,
    HostDone,
    HostTask,
    StageStarted,
)
from appliance.models.run import StageState
from appliance.report import event_lines
from appliance.report.ascii_text import ascii_text
from appliance.report.live_view import Running


class _Entered:
    """The context manager that all observers share: it opens and closes nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        return None


class JsonObserver(_Entered):
    """Writes each event as one line of JSON: ``time`` and ``event`` first, then its fields."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._lock = Lock()

    def handle(self, event: Event) -> None:
        """Write ``event`` and flush, so that a downstream reader sees it at once."""
        with self._lock:
            self._stream.write(event.model_dump_json() + "\n")
            self._stream.flush()


class PlainObserver(_Entered):
    """Writes one line per notable event; with ``verbose`` also every task and passed check."""

    def __init__(self, console: Console | None = None, verbose: bool = False) -> None:
        self._console = console or Console()
        self._verbose = verbose
        self._lock = Lock()

    def handle(self, event: Event) -> None:
        """Print the lines of ``event`` with its local time."""
        if not self._verbose and _is_detail(event):
            return
        stamp = f"{event.time.astimezone():%H:%M:%S}"
        with self._lock:
            for line in event_lines.lines(event):
                self._print(f"{stamp}  {line}")

    def _print(self, line: str) -> None:
        shown = ascii_text(line) if self._console.options.ascii_only else line
        self._console.print(shown, markup=False, highlight=False, soft_wrap=True)


class TerminalObserver(_Entered):
    """Shows running stages in place and leaves one line for each finished one.

    The display begins with the first stage: before that, the user may be asked questions.
    """

    def __init__(self, console: Console | None = None, refresh_per_second: float = 5) -> None:
        self._console = console or Console()
        self._running = Running(ascii_only=self._console.options.ascii_only)
        self._lock = Lock()
        self._live = Live(
            get_renderable=self._render,
            console=self._console,
            refresh_per_second=refresh_per_second,
            transient=True,
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._live.stop()

    def handle(self, event: Event) -> None:
        """Update the display; final lines are printed above it and stay."""
        with self._lock:
            final = self._running.handle(event)
        if isinstance(event, StageStarted):
            self._live.start()
        elif final and self._live.is_started:
            self._live.refresh()
        for line in final:
            self._console.print(line)

    def _render(self) -> RenderableType:
        with self._lock:
            return self._running.picture()


def _is_detail(event: Event) -> bool:
    if isinstance(event, HostDone):
        return event.state is not StageState.FAILED
    # The summary at the end lists every check that is not a plain pass, with its cause.
    return isinstance(event, HostTask | CheckDone)
