"""A control host of ``tests.support.backup_world``."""

import os
from pathlib import Path

import pytest

from appliance.backup import command, slurm, store
from tests.support.backup_world import PROGRAMS, World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in PROGRAMS.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("RACK", str(tmp_path))
    monkeypatch.setattr(command, "HOME", tmp_path / "home")
    monkeypatch.setattr(command, "KEY", str(tmp_path / "backup.key"))
    monkeypatch.setattr(command, "STATE", tmp_path / "home" / "state.json")
    monkeypatch.setattr(slurm, "SAVED", tmp_path / "saved")
    monkeypatch.setattr(slurm, "CONF", tmp_path / "slurmdbd.conf")
    monkeypatch.setattr(slurm, "READY_S", 0.0)
    monkeypatch.setattr(store, "require_elsewhere", lambda path, mounts: None)
    return World(tmp_path)
