"""The full-screen application: keys, focus and background loads. The only module that knows Textual."""

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from time import monotonic
from typing import Any, ClassVar

from rich.text import Text
from textual import on  # noqa: TID251 - this module is the door
from textual.app import App, ComposeResult  # noqa: TID251 - the same door
from textual.binding import Binding, BindingType  # noqa: TID251 - the same door
from textual.containers import VerticalScroll  # noqa: TID251 - the same door
from textual.screen import ModalScreen, Screen  # noqa: TID251 - the same door
from textual.widgets import Input, OptionList, Static  # noqa: TID251 - the same door
from textual.widgets.option_list import Option  # noqa: TID251 - the same door

from appliance.console.loaded import Failure, Loaded, now
from appliance.console.page import Look, Page, Row
from appliance.console.pages import PAGES
from appliance.console.sources import Sources
from appliance.console.state import State
from appliance.errors import ApplianceError
from appliance.report.symbols import VERDICT
from appliance.text import one_line

PLAN_PAGE = 5
TIMED = (1, PLAN_PAGE)
"""Pages that show ages or elapsed time."""
QUICK_S, SLOW_S = 2.0, 15.0
"""Seconds between two readings of the journal: while a deployment runs or its page is shown, and otherwise."""
CHOSEN = ">"
SCROLLED = 3
"""Lines that one key scrolls the detail."""
HELP = """\
1 to 6     pages: site, findings, hosts, queues, deployment, gates
Up, Down   choose a line; its detail is shown below. PgUp, PgDn, Home, End
Enter      read everything about the line; on page 1: go to its page
[ and ]    scroll the detail
/          search the page; Enter keeps the result, Esc ends the search
r          read the hosts, the journal and the queues again
p          page 5: show the plan instead of the last run; p again: the run
?          this help
q          quit

The console changes nothing. Each figure shows its age; r reads again.
A ? is a value that was not assessed or is not known. It is not good news.
Commands in remedies are typed in a shell: they are those of the verbs."""


class Reader(ModalScreen[None]):
    """A text over the whole screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark", "dismiss", "close"),
        Binding("ctrl+c", "app.quit", "quit", priority=True),
    ]

    def __init__(self, text: Text) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """The text, and how to close it."""
        with VerticalScroll(id="reader"):
            yield Static(self._text, id="text")
        yield Static("Esc: back   Up, Down, PgUp, PgDn: scroll", id="way")

    def on_mount(self) -> None:
        """The arrows scroll at once."""
        self.query_one("#reader").focus()


class Console(App[None]):
    """Six pages over the sources of a site."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layout: vertical; }
    Static { height: auto; }
    #title { height: 1; text-style: bold; text-wrap: nowrap; text-overflow: ellipsis; }
    #keys { height: 1; text-wrap: nowrap; text-overflow: ellipsis; margin-bottom: 0; }
    #head { max-height: 6; }
    #rows { height: 1fr; min-height: 4; border: none; padding: 0; text-wrap: nowrap;
            text-overflow: ellipsis; }
    #rows > .option-list--option-highlighted, #rows:focus > .option-list--option-highlighted {
        color: ansi_black; background: ansi_white;
    }
    #empty { height: 1fr; display: none; }
    #detail { height: 35%; min-height: 5; border-top: solid gray; }
    #detail.plain { border-top: ascii gray; }
    #legend { max-height: 2; }
    #search { height: 1; border: none; padding: 0; display: none; }
    #reader { height: 1fr; }
    #way { height: 1; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(n), f"page({n})", name) for n, (name, _) in enumerate(PAGES, start=1)),
        Binding("slash", "search", "search"),
        Binding("r", "read", "read again"),
        Binding("p", "plan", "plan"),
        Binding("question_mark", "help", "help"),
        Binding("left_square_bracket", f"scroll(-{SCROLLED})", "scroll the detail"),
        Binding("right_square_bracket", f"scroll({SCROLLED})", "scroll the detail"),
        Binding("escape", "clear", "end the search"),
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", "quit", priority=True),
    ]

    def __init__(
        self,
        sources: Sources,
        *,
        ascii_only: bool = False,
        clock: Callable[[], datetime] = now,
        ticks: bool = True,
    ) -> None:
        """``clock``: the time that ages are told by. ``ticks`` False: nothing is read or drawn by time, only by key."""
        super().__init__(ansi_color=True)
        # The sixteen colours of the user's own terminal, and its background.
        self.theme = "ansi-dark"
        self.state = State(sources.site, terminal=Look(ascii_only))
        self._sources = sources
        self._clock = clock
        self._ticks = ticks
        self._number = 1
        self._sought = ""
        self._page = Page("")
        self._shown: tuple[object, ...] = ()
        self._loads: tuple[object, ...] = ()
        self._rows: tuple[Row, ...] = ()
        self._at = 0
        self._chosen: dict[int, str] = {}
        self._journal_at = 0.0

    def compose(self) -> ComposeResult:
        """From top to bottom: title, keys, lines of the page, its rows, the detail, its signs."""
        yield Static(id="title")
        yield Static(id="keys")
        yield Static(id="head")
        yield OptionList(id="rows", markup=False)
        yield Static(id="empty")
        with VerticalScroll(id="detail", can_focus=False):
            yield Static(id="more")
        yield Input(id="search", placeholder="search this page", compact=True)
        yield Static(id="legend")

    def on_mount(self) -> None:
        """Starts the loads."""
        if self.state.terminal.ascii_only:
            self._main.query_one("#detail").add_class("plain")
        self._main.query_one("#rows").focus()
        self.action_read()
        if self._ticks:
            self.set_interval(1.0, self._tick)

    def action_page(self, number: int) -> None:
        """Shows a page."""
        if self._number != number:
            self._number, self._sought = number, ""
            self._end_search()
        self._draw()

    def action_read(self) -> None:
        """Reads everything again; on the page of the plan also that."""
        self._load("look", self._sources.look)
        self._load("record", self._sources.record)
        self._load("waiting", self._sources.waiting)
        if self.state.shows_plan:
            self._load("plan", self._sources.plan)
        self._draw()

    def action_plan(self) -> None:
        """Shows the plan instead of the last run, or the run again."""
        self.state.shows_plan = not (self.state.shows_plan and self._number == PLAN_PAGE)
        if self.state.shows_plan and self.state.plan.value is None:
            self._load("plan", self._sources.plan)
        self.action_page(PLAN_PAGE)

    def action_help(self) -> None:
        """Shows the keys."""
        self.push_screen(Reader(Text(HELP)))

    def action_scroll(self, lines: int) -> None:
        """Scrolls the detail."""
        self._main.query_one("#detail").scroll_relative(y=lines, animate=False)

    def action_search(self) -> None:
        """Asks what to search for."""
        field = self._main.query_one("#search", Input)
        field.display = True
        field.focus()

    def action_clear(self) -> None:
        """Ends the search and shows all rows."""
        self._sought = ""
        self._end_search()
        self._draw()

    @on(Input.Changed, "#search")
    def _narrow(self, event: Input.Changed) -> None:
        self._sought = event.value
        self._draw()

    @on(Input.Submitted, "#search")
    def _keep(self) -> None:
        self._main.query_one("#rows").focus()

    @on(OptionList.OptionHighlighted)
    def _show(self, event: OptionList.OptionHighlighted) -> None:
        table, row = event.option_list, self._rows[event.option_index]
        with self.prevent(OptionList.OptionHighlighted):
            for number in {self._at, event.option_index}:
                if number < len(self._rows):
                    here = number == event.option_index
                    line = _prompt(self._rows[number], is_chosen=here)
                    table.replace_option_prompt_at_index(number, line)
        self._at = event.option_index
        self._chosen[self._number] = row.key
        self._main.query_one("#more", Static).update(Text("\n").join(row.detail))
        self._main.query_one("#detail").scroll_home(animate=False)

    @on(OptionList.OptionSelected)
    def _open(self, event: OptionList.OptionSelected) -> None:
        row = self._rows[event.option_index]
        if row.page:
            self.action_page(row.page)
            return
        parts = list(row.detail)
        if row.check:
            with suppress(ApplianceError):
                parts += [Text(), Text(self._sources.explain(row.check))]
        self.push_screen(Reader(Text("\n").join(parts)))

    @property
    def _main(self) -> Screen[object]:
        """The screen of the pages, also while a text covers it."""
        return self.screen_stack[0]

    def _end_search(self) -> None:
        field = self._main.query_one("#search", Input)
        with self.prevent(Input.Changed):
            field.value = ""
        field.display = False
        self._main.query_one("#rows").focus()

    def _tick(self) -> None:
        """Every second: ages, and the journal if it is due."""
        record = self.state.record.value
        runs = bool(record and record.deployment and record.deployment.is_running)
        due = QUICK_S if runs or self._number == PLAN_PAGE else SLOW_S
        if monotonic() - self._journal_at >= due:
            self._load("record", self._sources.record)
        if self._number in TIMED:
            self._draw()
        else:
            self._draw_title()

    def _load(self, name: str, source: Callable[[], object]) -> None:
        """Starts a load, unless the same one is in progress. The screen stays usable meanwhile."""
        known: Loaded[Any] = getattr(self.state, name)
        if known.is_loading:
            return
        if name == "record":
            self._journal_at = monotonic()
        setattr(self.state, name, known.begun())
        threading.Thread(target=self._read, args=(name, source), daemon=True).start()

    def _read(self, name: str, source: Callable[[], object]) -> None:
        """In a thread: what was read, or why not."""
        try:
            result = source()
        except ApplianceError as error:
            result = Failure(one_line(error.told_of()), one_line(error.hint))
        except Exception as error:  # noqa: BLE001 - a defect of one load must not hide the others
            said = one_line(f"a defect of the program: {type(error).__name__}: {error}")
            result = Failure(
                said, "run the verb itself (appliance health), and report its traceback"
            )
        # The user may have quit meanwhile.
        with suppress(RuntimeError):
            self.call_from_thread(self._ended, name, result)

    def _ended(self, name: str, result: object) -> None:
        known: Loaded[Any] = getattr(self.state, name)
        setattr(self.state, name, known.ended(result, self._clock()))
        self._draw()

    def _draw(self) -> None:
        """Makes the page again. The chosen row stays chosen, even if others come before it."""
        self.state.time = self._clock()
        self._draw_title()
        self._page = self._made()
        sought = self._sought.casefold()
        rows = tuple(row for row in self._page.rows if sought in row.words)
        self._main.query_one("#head", Static).update(Text("\n").join(self._page.head))
        self._main.query_one("#legend", Static).update(self._page.legend)
        self._draw_rows(rows)

    def _made(self) -> Page:
        """The page; it is made again only if what it shows has changed: a site may have a thousand hosts."""
        state = self.state
        time = state.time if self._number in TIMED else None
        loads = (state.look, state.record, state.waiting, state.plan)
        shown = (self._number, state.shows_plan, time, *map(id, loads))
        if shown != self._shown:
            # The loads are kept, so that no later one has the number of an earlier one.
            self._shown, self._loads = shown, loads
            return PAGES[self._number - 1][1](state)
        return self._page

    def _draw_rows(self, rows: tuple[Row, ...]) -> None:
        table, empty = (
            self._main.query_one("#rows", OptionList),
            self._main.query_one("#empty", Static),
        )
        key = self._chosen.get(self._number, self._page.first)
        at = next((n for n, row in enumerate(rows) if row.key == key), 0)
        top = table.scroll_offset.y
        self._rows, self._at = rows, at
        table.display, empty.display = bool(rows), not rows
        said = self._page.empty if not self._page.rows else f"nothing matches {self._sought!r}"
        empty.update(said)
        with self.prevent(OptionList.OptionHighlighted):
            table.set_options(Option(_prompt(row, is_chosen=n == at)) for n, row in enumerate(rows))
            table.highlighted = at if rows else None
        table.scroll_to(y=top, animate=False)
        more = Text("\n").join(rows[at].detail) if rows else Text()
        self._main.query_one("#more", Static).update(more)

    def _draw_title(self) -> None:
        self.state.time = self._clock()
        look = self.state.look
        parts = [Text(self.state.site, "bold")]
        if look.value:
            sign = VERDICT[look.value.health.verdict]
            parts.append(Text(sign.word, sign.style))
        parts.append(Text(f"hosts {look.age(self.state.time)}"))
        if look.failure:
            parts.append(Text("the last reading of the hosts failed", "bold red"))
        self._main.query_one("#title", Static).update(Text(" · ").join(parts))
        keys = Text(" ")
        for number, (name, _) in enumerate(PAGES, start=1):
            style = "reverse" if number == self._number else ""
            keys.append_text(Text(f"{number} {name}", style)).append("  ")
        self._main.query_one("#keys", Static).update(keys.append("? help  q quit"))


def _prompt(row: Row, *, is_chosen: bool) -> Text:
    """A row of the list; the chosen one has a mark, which is seen without colour, too."""
    return Text.assemble((f"{CHOSEN} ", "bold") if is_chosen else "  ", row.line)


def show(sources: Sources, *, ascii_only: bool) -> bool:
    """Runs the console until the user quits. Returns whether a load is still in progress."""
    # Without a terminal it has nothing to do, also where the shell ignores that signal (nohup).
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    app = Console(sources, ascii_only=ascii_only)
    app.run()
    return app.state.is_loading
