"""Writes the boards' files of role observe, and docs/boards.md: a part of ``make published``."""

from pathlib import Path

from boards import BOARDS
from boards.page import page
from boards.render import board_json

ROOT = Path(__file__).parents[1]
FOLDER = "roles/observe/files/usr/local/share/appliance/boards"
PAGE = "docs/boards.md"


def generated() -> dict[str, str]:
    """Each file's path in the checkout and its text."""
    files = {f"{FOLDER}/{board.name}.json": board_json(board) for board in BOARDS}
    return {**files, PAGE: page(BOARDS)}


if __name__ == "__main__":
    for name, text in generated().items():
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(text, encoding="utf-8")
