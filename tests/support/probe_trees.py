"""Probe trees, as several test modules use it."""

import json
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

Grow = Callable[[dict[str, Any]], str]


@pytest.fixture
def grow(tmp_path: Path) -> Grow:
    """Tree -> root. A value is a file's text, {"link": target}, {"mode": ..., "text": ...} or a program:
    {"when": {word of the command line: output}, "exit": status}."""

    def make(tree: dict[str, Any]) -> str:
        for at, value in tree.items():
            path = tmp_path / at.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            _put(path, {"text": value} if isinstance(value, str) else value)
        return str(tmp_path)

    return make


def _put(path: Path, value: dict[str, Any]) -> None:
    if "link" in value:
        path.symlink_to(value["link"])
    elif "when" in value:
        path.write_text(_script(value["when"], value.get("exit", 0)))
        path.chmod(0o755)
    else:
        path.write_text(value["text"])
        path.chmod(int(value.get("mode", "0644"), 8))


def _script(answers: dict[str, str], status: int) -> str:
    cases = "".join(
        f"*{quote(word)}*) printf %s {quote(said)};;\n" for word, said in answers.items()
    )
    return f'#!/bin/sh\ncase "$*" in\n{cases}*) echo "unexpected: $*" >&2; exit 99;;\nesac\nexit {status}\n'


@pytest.fixture
def data() -> Path:
    """Where the captured cases lie."""
    return Path(__file__).parents[1] / "data/probe"


@pytest.fixture
def said(data: Path) -> Callable[[str], str]:
    """Captured output of a command, by file name."""
    return lambda name: (data / "commands" / name).read_bytes().decode()


@pytest.fixture
def load(data: Path) -> Callable[[str], Any]:
    """A JSON file of a case."""
    return lambda name: json.loads((data / name).read_text())
