"""Hpcc output, as several test modules use it."""

import re
from collections.abc import Sequence
from pathlib import Path

REAL = (Path(__file__).parents[1] / "data/benchmarks/hpcc/hpcc-1.5.txt").read_text()


def as_asked(argv: Sequence[str], text: str) -> str:
    """A summary of the matrix and the ranks that were asked for, which all together are as fast as those two."""
    order, rows, columns = map(int, argv[-3:])
    text = re.sub(r"(?m)^HPL_N=1000$", f"HPL_N={order}", text)
    text = text.replace("CommWorldProcs=2\n", f"CommWorldProcs={rows * columns}\n")
    triad = re.search(r"(?m)^StarSTREAM_Triad=([0-9.]+)$", text)
    assert triad
    each = float(triad[1]) * 2 / (rows * columns)
    return text.replace(triad[0], f"StarSTREAM_Triad={each!r}")
