"""Molecule runs, as several test modules use it."""

import os
import sys
from pathlib import Path

TAIL_LINES = 60


# What molecule starts may not find this Python's programs, and its colours are noise in a report.
ENVIRONMENT = {
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "NO_COLOR": "1",
    "ANSIBLE_NOCOLOR": "1",
}


def tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(lines[-TAIL_LINES:])
