"""The three ways a run is watched."""

import io
import json
from datetime import UTC, datetime, timedelta
from threading import Thread

from rich.console import Console

from appliance.models import events
from appliance.models.result import CheckResult, Status, Verdict
from appliance.models.run import StageState
from appliance.report import event_lines
from appliance.report.live_view import Running
from appliance.report.progress import JsonObserver, PlainObserver, TerminalObserver

AT = datetime(2026, 11, 20, 13, 5, tzinfo=UTC)
HOSTS = ("head", "gpu-1", "gpu-2")
BAD = CheckResult(
    id="base.clock", target="gpu-1", status=Status.FAIL, cause="1.3 s off", fix="restart chrony"
)
GOOD = CheckResult(id="base.clock", target="head", status=Status.PASS)
RUN: list[events.Event] = [
    events.RunStarted(
        time=AT,
        run="r",
        verb="deploy",
        site="lab",
        profile="hpc",
        hosts=HOSTS,
        stages=("base", "slurm"),
        simulated=("gpu",),
        note="virtual rack",
    ),
    events.FactsTaken(time=AT, hosts=HOSTS, unreachable={"gpu-2": "timed out"}, seconds=1.2),
    events.StageStarted(time=AT, stage="base", hosts=HOSTS, expected_seconds=70),
    events.HostTask(time=AT, stage="base", host="gpu-1", task="install | Install [the] packages"),
    events.HostDone(
        time=AT, stage="base", host="head", state=StageState.DONE, changes=3, seconds=4
    ),
    events.HostDone(
        time=AT,
        stage="base",
        host="gpu-1",
        state=StageState.FAILED,
        cause="no\n mirror",
        fix="set one",
    ),
    events.StageDone(
        time=AT, stage="base", state=StageState.FAILED, done=1, hosts=3, seconds=41, changes=3
    ),
    events.CheckDone(time=AT, result=BAD),
    events.CheckDone(time=AT, result=GOOD),
    events.Message(time=AT, text="disk is [almost] full", level="warning", host="head"),
    events.RunFinished(
        time=AT, verdict=Verdict.FAILED, exit_code=1, seconds=99, report="report.html"
    ),
]


def console(**options: object) -> Console:
    return Console(file=io.StringIO(), width=100, **options)  # type: ignore[arg-type]


def text(shown: Console) -> str:
    assert isinstance(shown.file, io.StringIO)
    return shown.file.getvalue()


def test_every_event_becomes_one_json_object_that_can_be_read_back() -> None:
    stream = io.StringIO()
    with JsonObserver(stream) as json_lines:
        for event in RUN:
            json_lines.handle(event)
    objects = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [list(o)[:2] for o in objects] == [["time", "event"]] * len(RUN)
    assert objects[2]["event"] == "stage_started"
    for event, line in zip(RUN, stream.getvalue().splitlines(), strict=True):
        assert type(event).model_validate_json(line) == event


def test_plain_lines_tell_the_story_without_the_details() -> None:
    shown = console()
    with PlainObserver(shown) as plain:
        for event in RUN:
            plain.handle(event)
    out = text(shown)
    assert "? gpu-2 did not answer: timed out" in out
    assert "> base starts on head, gpu-[1-2] (about 1 min)" in out
    assert "✗ base gpu-1: FAILED" in out
    assert "cause: no mirror" in out
    assert "fix: set one" in out
    assert "warning: head: disk is [almost] full" in out
    assert "Install [the] packages" not in out
    assert "base.clock head" not in out
    assert "base.clock gpu-1: FAILED" not in out


def test_verbose_plain_lines_hold_the_details() -> None:
    shown = console()
    with PlainObserver(shown, verbose=True) as plain:
        for event in RUN:
            plain.handle(event)
    assert "base gpu-1: install | Install [the] packages" in text(shown)
    assert "base.clock head: passed" in text(shown)


def test_plain_lines_do_not_break_on_an_ascii_stream() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", newline="\n")
    plain = PlainObserver(Console(file=stream, width=80))
    plain.handle(events.Message(time=AT, text="Zürich → ✓"))
    stream.flush()
    assert raw.getvalue().decode().rstrip().endswith("Z?rich -> +")


def test_long_lines_are_left_whole_for_logs() -> None:
    shown = console()
    PlainObserver(shown).handle(events.Message(time=AT, text="x" * 500))
    assert "x" * 500 in text(shown)


def test_the_terminal_keeps_finished_stages_and_their_failures() -> None:
    shown = console(force_terminal=True, color_system=None)
    with TerminalObserver(shown) as terminal:
        for event in RUN:
            terminal.handle(event)
    out = text(shown)
    assert "✗ base         1/3        0:41   3 changes   FAILED" in out
    assert "gpu-1  no mirror" in out
    assert "fix: set one" in out
    assert "base.clock" not in out


def picture(running: Running) -> str:
    shown = console()
    shown.print(running.picture())
    return text(shown)


def test_a_running_stage_shows_who_does_what_and_how_long() -> None:
    running = Running(clock=lambda: AT + timedelta(seconds=38))
    for event in RUN[:5]:
        running.handle(event)
    out = picture(running)
    assert "▸ base         1/3     0:38 / about 1:10" in out
    assert "gpu-1: Install [the] packages · gpu-2: starting" in out
    assert "then slurm" in out


def test_a_finished_stage_leaves_the_picture() -> None:
    running = Running(clock=lambda: AT)
    for event in RUN:
        running.handle(event)
    assert picture(running).strip() == ""


def test_sixty_four_hosts_at_one_task_take_one_line() -> None:
    running = Running(clock=lambda: AT)
    hosts = tuple(f"gpu-{n}" for n in range(1, 65))
    running.handle(events.StageStarted(time=AT, stage="base", hosts=hosts))
    for host in hosts:
        running.handle(events.HostTask(time=AT, stage="base", host=host, task="t | Install"))
    out = picture(running)
    assert len(out.splitlines()) == 1
    assert "gpu-[1-64]: Install" in out


def test_events_of_a_stage_that_never_started_do_no_harm() -> None:
    running = Running(clock=lambda: AT)
    for event in (RUN[3], RUN[4], RUN[6]):
        running.handle(event)
    assert picture(running).strip() == ""


def test_threads_may_report_at_once() -> None:
    stream = io.StringIO()
    json_lines = JsonObserver(stream)

    def report() -> None:
        for event in RUN * 20:
            json_lines.handle(event)

    threads = [Thread(target=report) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([json.loads(line) for line in stream.getvalue().splitlines()]) == 4 * 20 * len(RUN)


def test_no_event_is_without_words() -> None:
    assert all(event_lines.lines(event) for event in RUN)
