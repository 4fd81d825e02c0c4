"""What a rack's disks and roots leave behind."""

from pathlib import Path

import pytest

from appliance.lab import mounts


def test_removal_ends_when_the_kernel_has_let_go_of_the_disks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "rack"
    folder.mkdir()
    asked = [(folder / "disk.img",), (folder / "disk.img",), ()]
    monkeypatch.setattr(mounts, "attached", lambda _: asked.pop(0))
    mounts.remove(folder)
    assert asked == []
    assert not folder.exists()


def test_removal_does_not_wait_for_ever_for_somebody_elses_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "RELEASE_SECONDS", 0.1)
    monkeypatch.setattr(mounts, "attached", lambda below: (below / "disk.img",))
    mounts.remove(tmp_path / "rack")
