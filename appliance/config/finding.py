"""A problem in a configuration file: where, what, and the remedy."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

from appliance.errors import ConfigError

KeyPath = tuple[str | int, ...]
LONGEST_NAME = 64
"""Longest key in a message; a longer one is a mistake, and is truncated."""


@dataclass(frozen=True)
class Finding:
    """One problem. ``line`` counts from 1; 0 means the file as a whole.

    ``level`` "todo" is a step left to the owner: validate shows it, plan and deploy refuse.
    """

    file: Path
    line: int
    key: str
    message: str
    remedy: str
    level: Literal["problem", "todo"] = "problem"

    @property
    def place(self) -> str:
        """``file:line``, or only the file."""
        return f"{self.file}:{self.line}" if self.line else str(self.file)

    def __str__(self) -> str:
        return printable(": ".join(part for part in (self.message, self.remedy) if part))


class InvalidConfig(ConfigError):
    """An unusable profile or site, with all findings. No host was contacted."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings: tuple[Finding, ...] = tuple(sorted(findings, key=_order))
        super().__init__(render(self.findings))


def printable(text: str) -> str:
    """The text on one line: characters that would move a terminal's cursor are escaped."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def dotted(path: Iterable[str | int]) -> str:
    """A key path in the usual notation: ``hosts[2].bmc.address``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if len(part) <= LONGEST_NAME else part[: LONGEST_NAME - 3] + "..."
            text += f".{name}" if text else name
    return printable(text)


def render(findings: Sequence[Finding]) -> str:
    """Findings as text, grouped by file, one line each, keys aligned."""
    return "\n".join(
        _section(file, tuple(of_file)) for file, of_file in groupby(findings, key=lambda f: f.file)
    )


def _section(file: Path, findings: Sequence[Finding]) -> str:
    number = max(len(str(f.line)) for f in findings) + 1
    width = min(34, max(len(f.key) for f in findings))
    lines = [f"{file}: {_count(findings)}, nothing was contacted"]
    for finding in findings:
        where = f":{finding.line}" if finding.line else ""
        lines.append(f"  {where:<{number}}  {finding.key:<{width}}  {finding}".rstrip())
    return "\n".join(lines)


def _count(findings: Sequence[Finding]) -> str:
    todo = sum(f.level == "todo" for f in findings)
    parts = ((len(findings) - todo, "problem", "problems"), (todo, "step left", "steps left"))
    return ", ".join(f"{n} {one if n == 1 else many}" for n, one, many in parts if n)


def _order(finding: Finding) -> tuple[str, int, str, str]:
    return (str(finding.file), finding.line, finding.key, finding.message)
