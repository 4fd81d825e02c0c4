"""The summary that hpcc writes (hpccoutf.txt of 1.4 and 1.5): figures by name, and whether HPL's solution is right."""

import re
from dataclasses import dataclass

from appliance.benchmarks.reading import Unread, number

SECTION = re.compile(r"^Begin of Summary section\.$(.*?)^End of Summary section\.$", re.M | re.S)
FIGURE = re.compile(r"^([A-Za-z][A-Za-z0-9_]{0,63})=(\S{1,64})$", re.M)
RESIDUAL = re.compile(r"^\|\|Ax-b\|\|_oo/\(eps\*.*?=.*?\.{4,}\s*(\w+)\s*$", re.M)


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
    """Raises Unread where the run did not come to its end, or a figure is missing."""
    section = SECTION.search(text)
    if section is None:
        raise Unread("its summary is missing: it did not come to its end")
    found = dict(FIGURE.findall(section[1]))
    checks = RESIDUAL.findall(text)
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


def _of(found: dict[str, str], name: str) -> float:
    if name not in found:
        raise Unread(f"{name} is missing")
    return number(found[name], name)
