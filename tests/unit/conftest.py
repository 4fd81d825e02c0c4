"""Unit tests see no rack of the machine they run on."""

from pathlib import Path

import pytest

from appliance.lab import spec


@pytest.fixture(autouse=True)
def no_rack(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where none was ever raised."""
    monkeypatch.setattr(spec, "STATE_ROOT", Path(tmp_path_factory.getbasetemp()) / "no-rack")
