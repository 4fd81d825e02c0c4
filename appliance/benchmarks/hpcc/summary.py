"""The summary that hpcc writes (hpccoutf.txt of 1.4 and 1.5): figures by name, and whether HPL's solution is right."""

import re
from dataclasses import dataclass

from appliance.benchmarks.reading import Unread, number

BEGIN, END = "Begin of Summary section.", "End of Summary section."
FIGURE = re.compile(r"([A-Za-z][A-Za-z0-9_]{0,63})=(\S{1,64})")
RESIDUAL, DOTS = "||Ax-b||_oo/(eps*", "...."
LONGEST = 1000
"""Characters of a line of a check; real ones have 90."""


@dataclass(frozen=True)
class Summary:
    """``stream``: triad of all ranks at once, GB/s; ``hpl``: GFLOPS; ``right``: HPL's check."""

    version: str
    ranks: int
    stream: float
    hpl: float
    order: int
    right: bool


def read(text: str) -> Summary:
    """Raises Unread if the run did not finish, or if a value is missing."""
    lines = text.split("\n")
    found = _figures(_section(lines))
    checks = [
        line.rpartition(DOTS)[2].strip(". \t\r")
        for line in lines
        if line.startswith(RESIDUAL) and "=" in line and DOTS in line and len(line) < LONGEST
    ]
    if not checks:
        raise Unread("HPL did not check its solution")
    ranks = int(_of(found, "CommWorldProcs"))
    triad, flops = _of(found, "StarSTREAM_Triad"), _of(found, "HPL_Tflops")
    if not (ranks and triad and flops):
        raise Unread("it measured nothing")
    return Summary(
        version=".".join(
            f"{_of(found, f'Version{part}'):g}" for part in ("Major", "Minor", "Micro")
        ),
        ranks=ranks,
        stream=triad * ranks,
        hpl=flops * 1000,
        order=int(_of(found, "HPL_N")),
        right=set(checks) == {"PASSED"},
    )


def _section(lines: list[str]) -> list[str]:
    if BEGIN not in lines or END not in lines:
        raise Unread("its summary is missing: it did not finish")
    if lines.count(BEGIN) > 1 or lines.count(END) > 1:
        raise Unread("it has several summaries: two runs in one output")
    return lines[lines.index(BEGIN) + 1 : lines.index(END)]


def _figures(lines: list[str]) -> dict[str, str]:
    pairs = [(match[1], match[2]) for line in lines if (match := FIGURE.fullmatch(line))]
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Unread("a figure occurs twice in its summary: two runs in one output")
    return found


def _of(found: dict[str, str], name: str) -> float:
    if name not in found:
        raise Unread(f"{name} is missing")
    return number(found[name], name)
