"""Unit tests see no rack of the machine they run on, and nothing of the shell they were started from."""

from pathlib import Path

import pytest

from appliance.lab import spec

OF_PEOPLE = (
    "ANSIBLE_VAULT_PASSWORD_FILE",
    "COLUMNS",
    "FORCE_COLOR",
    "KUBECONFIG",
    "LINES",
    "NO_COLOR",
)


@pytest.fixture(autouse=True)
def no_rack(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where none was ever raised."""
    monkeypatch.setattr(spec, "STATE_ROOT", Path(tmp_path_factory.getbasetemp()) / "no-rack")


@pytest.fixture(autouse=True)
def plain_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that can do colours, no width of its own, and none of what people export for themselves."""
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in OF_PEOPLE:
        monkeypatch.delenv(name, raising=False)
