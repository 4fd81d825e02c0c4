"""The module that brings enroot and Pyxis: pinned files only, built once per release, taken away by its own note."""

import io
import json
import tarfile
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible_collections.appliance.host.plugins.module_utils.resources import slurm_containers

FOLDER = "/files"


@pytest.fixture(scope="module")
def module() -> ModuleType:
    return slurm_containers


class Tools:
    """A package manager that remembers."""

    def __init__(self) -> None:
        self.there: dict[str, str] = {}
        self.done: list[tuple[list[str], list[str]]] = []

    def read(self) -> None: ...

    def mend(self) -> None: ...

    def version(self, name: str) -> str:
        return self.there.get(name, "")

    def unwanted(self, names: list[str]) -> list[str]:
        return [name for name in names if name in self.there]

    def apply(self, wanted: list[str], unwanted: list[str]) -> None:
        self.done.append((wanted, unwanted))
        for path in wanted:
            name, _, version = Path(path).stem.partition("_")
            self.there[name] = version
        for name in unwanted:
            del self.there[name]


class Host:
    """A pretended host: Slurm's release, a compiler, packages."""

    def __init__(self, root: Path, bringer: Any) -> None:
        self.root, self.bringer = root, bringer
        (root / "usr/include/slurm").mkdir(parents=True)
        self.has_slurm("22.05.8", 0x160508)
        self.tools = Tools()
        self.builds = 0
        self.check_mode = False
        self.fails = False
        self.params: dict[str, Any] = {}
        (root / "files").mkdir()
        (root / "etc/slurm").mkdir(parents=True)

    def run_command(self, argv: list[str], **given: Any) -> tuple[int, str, str]:
        del given
        if argv[0] == "dpkg-deb":
            name, _, version = Path(argv[-1]).stem.partition("_")
            return 0, f"{name}\t{version}", ""
        assert argv[0] == "make"
        if self.fails:
            return 2, "", "pyxis.c:1: error: no spank.h\n"
        self.builds += 1
        source = Path(argv[2], "pyxis.c").read_text()
        Path(argv[2], "spank_pyxis.so").write_text(f"{source} for {self.slurm}")
        return 0, "", ""

    def has_slurm(self, release: str, number: int) -> None:
        self.slurm = release
        line = f"#define SLURM_VERSION_NUMBER {number:#x}\n"
        (self.root / "usr/include/slurm/slurm_version.h").write_text(line)

    def put(self, name: str, data: bytes) -> dict[str, str]:
        (self.root / "files" / name).write_bytes(data)
        return {"file": f"somewhere/{name}", "sha256": sha256(data).hexdigest()}

    def bring(self, **params: Any) -> dict[str, Any]:
        given = {"owned": ["/etc/slurm/plugstack.conf.d/pyxis.conf"], "at": "/scratch/enroot"}
        self.params = {"folder": FOLDER, "packages": [], "pyxis": None, **given, **params}
        return self._bringer().bring()  # type: ignore[no-any-return]

    def take_away(self) -> dict[str, Any]:
        self.params = {"folder": FOLDER, "packages": [], "pyxis": None, "owned": [], "at": ""}
        return self._bringer().take_away()  # type: ignore[no-any-return]

    def _bringer(self) -> Any:
        found = self.bringer(self, str(self.root))
        found.tools = self.tools
        return found

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")


@pytest.fixture
def host(tmp_path: Path, module: ModuleType) -> Host:
    return Host(tmp_path, module.Bringer)


def source(top: str = "pyxis-0.24.0", text: str = "one", extra: str = "") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as made:
        for name in filter(None, (f"{top}/pyxis.c", extra)):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            made.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


def wanted(host: Host, text: str = "one", release: str = "4.1.2-1") -> dict[str, Any]:
    return {
        "packages": [host.put(f"enroot_{release}.deb", release.encode())],
        "pyxis": host.put("pyxis.tar.gz", source(text=text)),
    }


def test_it_is_brought_once_and_a_second_time_changes_nothing(
    host: Host, module: ModuleType
) -> None:
    first = host.bring(**wanted(host))
    assert (first["changed"], first["slurm"]) == (True, "22.05.8")
    assert host.path(module.PLUGIN).read_text() == "one for 22.05.8"
    assert host.path(module.PLUGSTACK).read_text() == f"{module.INCLUDE}\n"
    assert host.tools.there == {"enroot": "4.1.2-1"}
    assert {"kind": "file", "name": module.PLUGIN} in first["resources"]
    assert {"kind": "package", "name": "enroot"} in first["resources"]
    note = json.loads(host.path(module.NOTE).read_text())
    assert (note["slurm"], note["pyxis"], note["at"]) == ("22.05.8", "0.24.0", "/scratch/enroot")
    again = host.bring(**wanted(host))
    assert (again["changed"], host.builds, len(host.tools.done)) == (False, 1, 1)


def test_another_release_of_slurm_another_source_or_a_replaced_plugin_is_built_again(
    host: Host, module: ModuleType
) -> None:
    host.bring(**wanted(host))
    host.has_slurm("24.11.5", 0x180B05)
    assert host.bring(**wanted(host))["changed"]
    assert host.path(module.PLUGIN).read_text() == "one for 24.11.5"
    assert host.bring(**wanted(host, text="two"))["changed"]
    host.path(module.PLUGIN).write_text("planted")
    assert host.bring(**wanted(host, text="two"))["changed"]
    assert host.path(module.PLUGIN).read_text() == "two for 24.11.5"
    assert host.builds == 4


def test_a_file_of_another_digest_changes_nothing(host: Host, module: ModuleType) -> None:
    given = wanted(host)
    host.path("/files/pyxis.tar.gz").write_bytes(source(text="tampered"))
    with pytest.raises(module.Problem, match="is wanted"):
        host.bring(**given)
    assert host.tools.done == []
    assert not host.path(module.NOTE).exists()


def test_without_headers_nothing_is_installed(host: Host, module: ModuleType) -> None:
    given = wanted(host)
    for text in ("", "#define SLURM_VERSION 22\n"):
        host.path(module.HEADER).write_text(text)
        with pytest.raises(module.Problem, match="no release"):
            host.bring(**given)
    host.path(module.HEADER).unlink()
    with pytest.raises(module.Problem, match="install Slurm's headers"):
        host.bring(**given)
    assert host.tools.done == []


def test_a_build_that_fails_says_why_and_can_still_be_taken_away(
    host: Host, module: ModuleType
) -> None:
    host.fails = True
    with pytest.raises(module.Problem, match=r"building Pyxis: pyxis.c:1: error: no spank.h"):
        host.bring(**wanted(host))
    assert host.take_away()["removed"]
    assert host.tools.there == {}


@pytest.mark.parametrize("extra", ["../outside", "/etc/outside", "second/file"])
def test_an_archive_that_reaches_beyond_its_folder_is_refused(
    host: Host, module: ModuleType, extra: str
) -> None:
    given = {"pyxis": host.put("pyxis.tar.gz", source(extra=extra))}
    with pytest.raises(module.Problem, match="exactly one folder"):
        host.bring(**given)
    assert host.builds == 0


def test_another_version_of_a_package_replaces_it(host: Host) -> None:
    host.bring(**wanted(host))
    host.bring(**wanted(host, release="4.2.0-1"))
    assert host.tools.there == {"enroot": "4.2.0-1"}
    host.bring(pyxis=wanted(host)["pyxis"])
    assert host.tools.there == {}


def test_what_was_brought_is_taken_away_and_what_others_have_stays(
    host: Host, module: ModuleType
) -> None:
    plugstack = host.path(module.PLUGSTACK)
    plugstack.write_text("optional /opt/others.so")
    owned = host.path("/etc/slurm/plugstack.conf.d/pyxis.conf")
    owned.parent.mkdir(parents=True)
    owned.write_text("required ...\n")
    host.tools.there["curl"] = "8"
    host.bring(**wanted(host))
    assert plugstack.read_text() == f"optional /opt/others.so\n{module.INCLUDE}\n"
    assert host.take_away() == {"changed": True, "removed": True, "resources": []}
    left = (owned, host.path(module.PLUGIN), host.path(module.NOTE), host.path(FOLDER))
    assert [path for path in left if path.exists()] == []
    assert host.tools.there == {"curl": "8"}
    assert plugstack.exists()
    assert host.take_away() == {"changed": False, "removed": False, "resources": []}


def test_check_mode_says_what_it_would_do_and_does_nothing(host: Host, module: ModuleType) -> None:
    host.check_mode = True
    assert host.bring(**wanted(host))["changed"]
    assert not host.path(module.PLUGIN).exists()
    assert not host.path(module.NOTE).exists()
