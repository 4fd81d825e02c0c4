"""The program's command line, in the process of the test."""

import os
import sys

import pytest

from appliance.cli import main as program


def run(monkeypatch: pytest.MonkeyPatch, *argv: str) -> int:
    """The exit code of ``appliance`` with these words."""
    monkeypatch.setattr(sys, "argv", ["appliance", *argv])
    monkeypatch.setattr(os, "_exit", sys.exit)
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code
