"""The console's screens over recorded data, as text; and its picture for docs/console.md."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from os import environ
from pathlib import Path
from unittest.mock import patch

from textual.pilot import Pilot  # noqa: TID251 - drives the application

from appliance.actions.monitoring.health import Health
from appliance.console.app import Console
from appliance.console.sources import Sources
from appliance.models.plan import Plan
from tests.support.console_site import NOW, recorded, sources
from tests.support.terminal_text import text_of

ROOT = Path(__file__).parents[2]
SCREENS = ROOT / "tests/data/console"
PICTURE = ROOT / "docs/console.svg"
FONT = re.compile(r"\s*@font-face \{.*?\n    \}", re.DOTALL)
SMALL, LARGE = (80, 24), (200, 60)
WALKS = {
    "site": (SMALL, ("1",)),
    "findings": (SMALL, ("2",)),
    "hosts": (SMALL, ("3",)),
    "queues": (SMALL, ("4",)),
    "deployment": (SMALL, ("5",)),
    "gates": (SMALL, ("6",)),
    "plan": (SMALL, ("p",)),
    "findings-large": (LARGE, ("2", "down", "down")),
    "hosts-large": (LARGE, ("3",)),
}
"""By name of the record: the size of the terminal, and the keys."""


@cache
def _recorded() -> tuple[Health, Plan]:
    return recorded()


def known() -> Sources:
    """The recorded site."""
    return sources(*_recorded())


@contextmanager
def plain_environment() -> Iterator[None]:
    """Whatever the terminal of the caller is."""
    with patch.dict(environ):
        environ.pop("NO_COLOR", None)
        yield


async def settled(pilot: Pilot[None]) -> None:
    """All loads have ended and are drawn."""
    app = pilot.app
    assert isinstance(app, Console)
    while app.state.is_loading:
        await pilot.pause(0.01)
    await pilot.pause()


async def shown(site: Sources, size: tuple[int, int], keys: Sequence[str]) -> str:
    """The picture after these keys."""
    app = Console(site, clock=lambda: NOW, ticks=False)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        for key in keys:
            await pilot.press(key)
            await settled(pilot)
        return app.export_screenshot(title="appliance console")


def screens() -> dict[str, str]:
    """By name of the record its text."""
    with plain_environment():
        return {
            name: text_of(asyncio.run(shown(known(), size, keys))) + "\n"
            for name, (size, keys) in WALKS.items()
        }


def picture() -> str:
    """The page of findings as a picture."""
    with plain_environment():
        drawn = asyncio.run(shown(known(), (100, 28), ("2",)))
    # A page of docs/ requests nothing from elsewhere.
    return FONT.sub("", drawn)


def write() -> None:
    """Writes the screens and the picture."""
    SCREENS.mkdir(exist_ok=True)
    for name, text in screens().items():
        (SCREENS / f"{name}.txt").write_text(text)
    PICTURE.write_text(picture())


if __name__ == "__main__":
    write()
