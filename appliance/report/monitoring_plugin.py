"""The interface of a monitoring plugin for every outcome: exit codes, and a first line without a verdict.

Format and codes: Monitoring Plugins Development Guidelines,
https://www.monitoring-plugins.org/doc/guidelines.html
"""

from collections.abc import Sequence
from enum import IntEnum
from itertools import pairwise


class Code(IntEnum):
    """Exit codes of a monitoring plugin."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


def is_asked(words: Sequence[str]) -> bool:
    """Return whether a command line asks for health as a monitoring plugin, even if it is otherwise invalid."""
    verb = next((word for word in words if not word.startswith("-")), "")
    return verb == "health" and (
        "--format=nagios" in words or ("--format", "nagios") in pairwise(words)
    )


def unknown(said: str) -> str:
    """Return the plugin's first line if the site could not be judged; ``said``: the obstacle and its remedy."""
    first, *more = [bare(line) for line in said.splitlines() if line.strip()]
    return "\n".join([f"APPLIANCE {Code.UNKNOWN.name} - {first}", *more])


def bare(text: str) -> str:
    """Return one line without the bar that would begin performance data."""
    return " ".join(text.split()).replace("|", "/")
