"""What a monitoring plugin says whatever it found: its exit codes, and a first line without a judgement.

Format and codes: Monitoring Plugins Development Guidelines, https://www.monitoring-plugins.org/doc/guidelines.html
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
    """Whether a command line wants health as a monitoring plugin, be it sound otherwise or not."""
    verb = next((word for word in words if not word.startswith("-")), "")
    return verb == "health" and (
        "--format=nagios" in words or ("--format", "nagios") in pairwise(words)
    )


def unknown(said: str) -> str:
    """The plugin's first line where the site could not be judged at all; ``said``: what is in the way, and its remedy."""
    first, *more = [bare(line) for line in said.splitlines() if line.strip()]
    return "\n".join([f"APPLIANCE {Code.UNKNOWN.name} - {first}", *more])


def bare(text: str) -> str:
    """One line without the bar that would begin performance data."""
    return " ".join(text.split()).replace("|", "/")
