"""What is packed for the rack's cluster is gathered once, and named before its programs are compiled."""

from pathlib import Path

import pytest

from appliance.errors import ApplianceError
from appliance.lab import kubernetes_build, mounts
from appliance.lab.kubernetes_build import MODULES


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    """A cache with the programs of all modules in one folder."""
    for module in MODULES:
        (tmp_path / module.folder_name).mkdir()
    (tmp_path / kubernetes_build._gathered_name([m.folder_name for m in MODULES])).mkdir()
    return tmp_path


def test_a_layer_that_is_there_is_found_by_both_steps(
    compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = kubernetes_build._target(compiled)
    target.mkdir()
    monkeypatch.setattr(kubernetes_build, "run", lambda *_, **__: pytest.fail("made again"))
    kubernetes_build.prepare(compiled, Path("/base"), lambda _: None)
    assert kubernetes_build.layer(compiled, Path("/base"), lambda _: None) == target


@pytest.mark.parametrize("beside", [True, False])
def test_packages_are_gathered_once_before_or_with_the_layer(
    beside: bool, compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts: list[str] = []

    def run(argv: tuple[str, ...], **_: float) -> None:
        (script,) = (word for word in argv if "chroot" in word)
        scripts.append(script.rpartition("/source/")[2].split()[0])
        out = next(compiled.glob("making-cluster-*")) / "out"
        (out / "libraries").mkdir(exist_ok=True)
        (out / "mount.nfs").touch()

    def packed(programs: Path, out: Path, place: Path) -> None:
        (place / "packages").mkdir(parents=True)
        (place.parents[2] / "opt/appliance/lab").mkdir(parents=True)

    monkeypatch.setattr(kubernetes_build, "run", run)
    monkeypatch.setattr(kubernetes_build, "_offline_source", packed)
    said: list[str] = []
    if beside:
        kubernetes_build.prepare(compiled, Path("/base"), said.append)
        assert scripts == ["gather.sh"]
    made = kubernetes_build.layer(compiled, Path("/base"), said.append)
    assert scripts == ["gather.sh", "trees.sh"]
    assert (made / kubernetes_build.MOUNT_NFS).exists()
    assert not list(compiled.glob("making-*"))
    assert [line for line in said if not line.startswith(" ")] == [
        "gathering packages for Kubernetes",
        "packing Kubernetes into packages and images",
    ]


def test_a_cache_without_room_is_refused_before_anything_is_made(
    compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "free_gib", lambda _: 1)
    with pytest.raises(ApplianceError, match="needs 8 GiB of free space"):
        kubernetes_build.prepare(compiled, Path("/base"), lambda _: None)
    assert not list(compiled.glob("making-*"))
