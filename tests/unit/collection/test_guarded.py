"""An offline source is used only where nobody but root can change it."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

Run = Callable[..., dict[str, Any]]
Plugin = Callable[[str], ModuleType]
NOBODY = 65534
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A source with packages, images, manifests, a chart and Helm, that only this user may write."""
    made = tmp_path / "srv" / "source"
    for name in ("packages/a.deb", "packages/pool/b.deb", "images/hosts/a.tar", "bin/helm"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text("x")
    (made / "manifests").mkdir()
    (made / "manifests/a.yml").write_text("x")
    for path in (made.parent, *made.parent.rglob("*")):
        path.chmod(0o755)
    return made


@pytest.mark.parametrize(
    ("part", "mode"),
    [
        ("", 0o777),
        ("..", 0o775),
        ("packages", 0o1777),
        ("packages", 0o775),
        ("packages/pool", 0o757),
        ("packages/a.deb", 0o666),
        ("packages/pool/b.deb", 0o664),
    ],
)
def test_packages_that_others_can_change_are_refused(
    run: Run, source: Path, part: str, mode: int
) -> None:
    assert run("offline_source", path=str(source / "packages"))["isdir"]
    (source / part).chmod(mode)
    said = run("offline_source", path=str(source / "packages"))
    assert said["failed"]
    assert str((source / part).resolve()) in said["msg"]
    assert "chmod -R go-w" in said["msg"]
    assert "\n" not in said["msg"]


@ROOT
@pytest.mark.parametrize("part", ["", "..", "packages", "packages/pool", "packages/pool/b.deb"])
def test_packages_of_another_user_are_refused(run: Run, source: Path, part: str) -> None:
    os.chown(source / part, NOBODY, NOBODY)
    assert (
        f"belongs to user {NOBODY}" in run("offline_source", path=str(source / "packages"))["msg"]
    )


def test_a_link_is_judged_by_where_it_leads(run: Run, source: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(source)
    assert run("offline_source", path=str(tmp_path / "link/packages"))["isdir"]
    loose = tmp_path / "loose"
    loose.mkdir()
    (loose / "c.deb").write_text("x")
    loose.chmod(0o777)
    (source / "packages/c.deb").symlink_to("../../../loose/c.deb")
    assert str(loose) in run("offline_source", path=str(tmp_path / "link/packages"))["msg"]
    (loose / "on").symlink_to(source)
    assert str(loose) in run("offline_source", path=str(loose / "on/bin/helm"))["msg"]
    (tmp_path / "round").symlink_to("round")
    assert "too many symbolic links" in run("offline_source", path=str(tmp_path / "round"))["msg"]


@pytest.mark.parametrize("part", ["packages", "packages/pool"])
def test_all_below_a_folder_that_is_linked_to_is_judged(
    run: Run, source: Path, tmp_path: Path, part: str
) -> None:
    apart = tmp_path / "apart"
    (source / part).rename(apart)
    (source / part).symlink_to(apart)
    (apart / "round").symlink_to(source / "packages")
    assert not run("offline_source", path=str(source / "packages")).get("failed")
    (apart / "inner").mkdir()
    (apart / "inner/late.deb").write_text("x")
    (apart / "inner/late.deb").chmod(0o666)
    said = run("offline_source", path=str(source / "packages"))["msg"]
    assert f"{apart}/inner/late.deb" in said
    assert "0666" in said


def test_a_link_that_leads_nowhere_is_judged_by_its_way(run: Run, source: Path) -> None:
    (source / "packages/gone").symlink_to("nowhere/x")
    assert not run("offline_source", path=str(source / "packages")).get("failed")


def test_pipes_and_sockets_are_no_part_of_a_source(
    run: Run, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(source / "packages/x.deb")
    assert "is no file" in run("offline_source", path=str(source / "packages"))["msg"]
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(source / "bin")
        listening.bind("s")
        assert "is no file" in run("offline_source", path=str(source / "bin/s"))["msg"]


def test_what_is_missing_is_no_failure(run: Run, source: Path) -> None:
    said = run("offline_source", path=str(source / "none"))
    assert not said["exists"]
    assert not said.get("failed")


def test_images_manifests_charts_and_helm_that_others_can_change_are_refused(
    run: Run, host: Any, plugin: Plugin, source: Path
) -> None:
    host.answer("ctr", (0, "", ""))
    host.answer("kubectl", (0, "x unchanged\n", ""))
    assert not run("kubernetes_manifests", places=[str(source / "manifests")]).get("failed")
    source.chmod(0o777)
    before = list(host.calls)
    for module, given in (
        ("kubernetes_manifests", {"places": [str(source / "manifests")]}),
        ("containerd_images", {"folders": [str(source / "images/hosts")]}),
    ):
        said = run(module, **given)
        assert f"{source} has the mode 0777" in said["msg"]
    assert host.calls == before
    archive = plugin("module_utils.helm_archive")
    problem = plugin("module_utils.outcome").Problem
    with pytest.raises(problem, match="has the mode 0777"):
        archive.program_of(str(source))
    with pytest.raises(problem, match="has the mode 0777"):
        archive.chart_of(str(source), "oci://x/kai", "kai-v1", "")


def test_an_archive_that_is_a_pipe_is_not_waited_for(run: Run, host: Any, source: Path) -> None:
    host.answer("ctr", (0, "", ""))
    os.mkfifo(source / "images/hosts/b.tar")
    assert "is no file" in run("containerd_images", folders=[str(source / "images/hosts")])["msg"]


def test_what_must_be_there_is_asked_for_in_the_roles_words(run: Run, source: Path) -> None:
    asked = {"path": str(source / "absent"), "missing": "put it there"}
    assert run("offline_source", **asked, needs="folder")["msg"] == "put it there"
    assert run("offline_source", path=str(source / "packages"), needs="file")["msg"] == (
        f"there is no {source / 'packages'} on this host"
    )
    assert not run("offline_source", path=str(source / "packages"), needs="folder").get("failed")
