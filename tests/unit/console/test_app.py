"""The console by its keys, over a recorded site with three faults."""

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from textual.pilot import Pilot  # noqa: TID251 - drives the application
from textual.widgets import Input  # noqa: TID251 - looks at the application

from appliance.actions.sites.last_deployment import SiteRecord
from appliance.console.app import Console
from appliance.console.sources import Looked, Sources
from appliance.errors import ApplianceError
from tests.golden.console import LARGE, SCREENS, SMALL, WALKS, known, screens, settled
from tests.support.console_site import CAUSES, NOW, record
from tests.support.terminal_text import text_of

Walk = Callable[[Console, Pilot[None]], Awaitable[None]]


@pytest.fixture(autouse=True)
def colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)


def run(walk: Walk, site: Sources | None = None, size: tuple[int, int] = SMALL) -> None:
    async def walked() -> None:
        app = Console(site or known(), clock=lambda: NOW, ticks=False)
        async with app.run_test(size=size) as pilot:
            await settled(pilot)
            await walk(app, pilot)

    asyncio.run(walked())


def text(app: Console) -> str:
    return text_of(app.export_screenshot())


async def press(pilot: Pilot[None], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await settled(pilot)


def test_screens_are_as_recorded() -> None:
    found = screens()
    assert found == {name: (SCREENS / f"{name}.txt").read_text() for name in WALKS}
    assert sum(len(text.encode()) for text in found.values()) < 30_000


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_no_line_is_wider_than_the_terminal(size: tuple[int, int]) -> None:
    async def walk(app: Console, pilot: Pilot[None]) -> None:
        for key in "123456p":
            await press(pilot, key)
            lines = text(app).splitlines()
            assert max(map(len, lines)) <= size[0]
            assert len(lines) <= size[1]

    run(walk, size=size)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_three_causes_are_read_by_keys_alone(size: tuple[int, int]) -> None:
    async def walk(app: Console, pilot: Pilot[None]) -> None:
        await press(pilot, "2")
        read = {}
        for _ in range(20):
            shown = text(app)
            for check in CAUSES:
                if re.search(rf"^FAILED .* {re.escape(check)}", shown, re.MULTILINE):
                    read[check] = shown
            await press(pilot, "down")
        assert set(read) == set(CAUSES)
        assert all("cause: " in shown and "fix: " in shown for shown in read.values())

    run(walk, size=size)


def test_a_consequence_stands_below_its_cause() -> None:
    lines = (SCREENS / "findings.txt").read_text().splitlines()
    (cause,) = (n for n, line in enumerate(lines) if line.startswith("  ✗") and "munge" in line)
    (daemon,) = (n for n, line in enumerate(lines) if "slurm.daemons" in line)
    assert daemon > cause
    assert lines[daemon].startswith("  └─ ✗ gpu-1")


def test_enter_explains_a_finding_and_escape_returns() -> None:
    async def walk(app: Console, pilot: Pilot[None]) -> None:
        await press(pilot, "2", "enter")
        shown = text(app)
        assert "gpu.error: " in shown
        assert "fix: drain the host" in shown
        await press(pilot, "escape", "3")
        assert "gpu-1  GPU" in text(app)

    run(walk)


def test_enter_on_the_first_page_goes_to_the_page_of_the_line() -> None:
    async def walk(app: Console, pilot: Pilot[None]) -> None:
        await press(pilot, "down", "down", "enter")
        assert "gpu.error" in text(app)

    run(walk)


def test_a_search_narrows_the_page_and_escape_ends_it() -> None:
    async def walk(app: Console, pilot: Pilot[None]) -> None:
        await press(pilot, "2", "slash", *"mlx5_2", "enter")
        shown = text(app)
        assert "fabric.state" in shown
        assert "gpu.error" not in shown
        await press(pilot, "escape")
        assert "gpu.error" in text(app)
        await press(pilot, "slash", *"zzz")
        assert "nothing matches 'zzz'" in text(app)

    run(walk)


def test_keys_of_a_search_are_text_and_no_commands() -> None:
    async def walk(app: Console, pilot: Pilot[None]) -> None:
        await press(pilot, "2", "slash", *"q3r1")
        assert app.is_running
        assert app.query_one("#search", Input).value == "q3r1"

    run(walk)


def test_the_chosen_line_has_a_mark_that_follows_the_arrows() -> None:
    def chosen(app: Console) -> list[str]:
        return [line[2:20] for line in text(app).splitlines() if line.startswith("> ")]

    async def walk(app: Console, pilot: Pilot[None]) -> None:
        await press(pilot, "3")
        assert chosen(app) == ["gpu-1  GPU ✓✓✓✗ ✓✓"]
        await press(pilot, "down")
        assert chosen(app) == ["gpu-2  GPU ✓✓✓✓ ✓✓"]
        await press(pilot, "up", "up")
        assert chosen(app) == ["head   control, st"]
        await press(pilot, "1", "3")
        assert chosen(app) == ["head   control, st"]

    run(walk)


def test_help_lists_the_keys_and_q_quits() -> None:
    async def walk(app: Console, pilot: Pilot[None]) -> None:
        await press(pilot, "question_mark")
        assert "search the page" in text(app)
        await press(pilot, "q")
        assert app.is_running
        await press(pilot, "q")
        assert not app.is_running

    run(walk)


@pytest.mark.parametrize("is_ascii", [False, True])
def test_without_colour_every_state_still_has_its_sign(
    monkeypatch: pytest.MonkeyPatch, is_ascii: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def walked() -> None:
        app = Console(known(), ascii_only=is_ascii, clock=lambda: NOW, ticks=False)
        async with app.run_test(size=SMALL) as pilot:
            await settled(pilot)
            await press(pilot, "3")
            picture = app.export_screenshot()
            assert ("+++x ++++" if is_ascii else "✓✓✓✗ ✓✓✓✓") in text_of(picture)
            colours = set(re.findall(r'(?:fill: |rect fill=")(#[0-9a-f]{6})', picture))
            assert len(colours) == 2, "only the terminal's own text and background"

    asyncio.run(walked())


def test_a_look_that_fails_is_one_line_with_its_remedy_and_keeps_the_figures() -> None:
    site, answers = known(), iter([True])

    def look() -> Looked:
        if next(answers, False):
            return site.look()
        raise ApplianceError("the site is gone", "bring it back")

    async def walk(app: Console, pilot: Pilot[None]) -> None:
        await press(pilot, "2", "r")
        shown = text(app)
        assert "cannot be read: the site is gone · fix: bring it back" in shown
        assert "the last reading of the hosts failed" in shown
        assert "gpu.error" in shown

    run(walk, replace(site, look=look))


def test_a_site_that_was_never_read_shows_no_good_sign() -> None:
    def fails() -> Looked:
        raise ApplianceError("no", "")

    def defect() -> SiteRecord:
        raise KeyError("x")

    async def walk(app: Console, pilot: Pilot[None]) -> None:
        above = text(app).partition("✓ passed")[0]
        assert above.count("? ") >= 6
        assert [line for line in above.splitlines() if line[2:4] == "✓ "] == []
        assert "a defect of the program: KeyError" in text(app)
        for key in "23456":
            await press(pilot, key)
            assert "✓ " not in text(app).partition("✓ passed")[0]

    run(walk, replace(known(), look=fails, record=defect))


def test_keys_work_while_hosts_are_asked() -> None:
    site, free = known(), threading.Event()

    def look() -> Looked:
        free.wait()
        return site.look()

    async def walked() -> None:
        app = Console(replace(site, look=look), clock=lambda: NOW, ticks=False)
        async with app.run_test(size=SMALL) as pilot:
            await pilot.press("5")
            await pilot.pause()
            assert "hosts not read yet, reading" in text(app)
            assert "base gpu  fabr" in text(app)
            free.set()
            await settled(pilot)
            assert "FAILED" in text(app)

    asyncio.run(walked())


def test_a_load_may_end_while_a_text_covers_the_page() -> None:
    site, free = known(), threading.Event()

    def look() -> Looked:
        free.wait()
        return site.look()

    async def walked() -> None:
        app = Console(replace(site, look=look), clock=lambda: NOW, ticks=True)
        async with app.run_test(size=SMALL) as pilot:
            await pilot.press("question_mark")
            free.set()
            await settled(pilot)
            app._tick()
            assert "search the page" in text(app)
            await press(pilot, "escape", "2")
            assert "gpu.error" in text(app)

    asyncio.run(walked())


def test_a_running_deployment_fills_its_grid() -> None:
    states = iter([record(is_running=True), record()])

    async def walk(app: Console, pilot: Pilot[None]) -> None:
        shown = text(app)
        assert "a deployment is running: 13 of 15" in shown
        assert "run 2026-11-23T13-05-00 (deploy, process 7 since 13:05)" in shown
        await press(pilot, "5")
        assert "gpu-2  ✓    ✓    ✓    ▸    o     storage: install packages" in text(app)
        await press(pilot, "r")
        assert "gpu-2  ✓    ✓    ✓    ✗    o     storage: /data is not mounted" in text(app)

    run(walk, replace(known(), record=lambda: next(states)))


def test_ages_are_told() -> None:
    times = iter([NOW])

    async def walked() -> None:
        app = Console(known(), clock=lambda: next(times, NOW + timedelta(minutes=7)), ticks=False)
        async with app.run_test(size=SMALL) as pilot:
            await settled(pilot)
            app.state.look = replace(app.state.look, taken=NOW)
            await press(pilot, "1")
            assert "hosts read 7 minutes ago" in text(app)

    asyncio.run(walked())
