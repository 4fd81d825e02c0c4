"""Collection host, as several test modules use it."""

from collections.abc import Callable
from typing import Any

PLUGINS = "ansible_collections.appliance.host.plugins"


Run = Callable[..., dict[str, Any]]


class Host:
    """Programs of a pretended host: answers by the beginning of the command, and what was called."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, list[tuple[int, str, str]]]] = []
        self.calls: list[str] = []

    def answer(self, start: str, *answers: tuple[int, str, str]) -> None:
        """The answers to commands that begin with ``start``, in turn; the last one stays."""
        self.answers.insert(0, (start, list(answers)))

    def __call__(self, _module: object, argv: Any, **_: Any) -> tuple[int, str, str]:
        command = argv if isinstance(argv, str) else " ".join(argv)
        self.calls.append(command)
        for start, answers in self.answers:
            if command.startswith(start):
                return answers.pop(0) if len(answers) > 1 else answers[0]
        raise AssertionError(f"nobody said what this answers: {command}")

    def called(self, start: str) -> list[str]:
        """The commands that began with ``start``."""
        return [call for call in self.calls if call.startswith(start)]
