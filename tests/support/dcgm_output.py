"""Dcgm output, as several test modules use it."""

from pathlib import Path

DATA = Path(__file__).parents[1] / "data/benchmarks/dcgm"


THREE, FOUR = ((DATA / f"{name}-level3.json").read_text() for name in ("3", "4"))
