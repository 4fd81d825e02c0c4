"""Wheels hold what an installation needs, where the program and people look for it, and the same bytes each time."""

import re
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

import pytest
import yaml  # noqa: TID251 - reads the collection's own file

from appliance import __version__
from appliance.engine.plan.fingerprint import STRAYS
from tools import release
from tools.published import MANUAL, built

ROOT = Path(__file__).parents[2]
DATA = "appliance/_data"
DOCUMENTS = {"README.md", "CHANGELOG.md"}
PROGRAM = f"appliance-{__version__}-py3-none-any.whl"
LAB = f"appliance_lab-{__version__}-py3-none-any.whl"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``make wheel`` makes."""
    folder = tmp_path_factory.mktemp("dist")
    release.wheels(folder)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> ZipFile:
    return ZipFile(dist / PROGRAM)


def test_two_builds_have_the_same_bytes(
    dist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("PYTHONHASHSEED", "17")
    release.wheels(tmp_path)
    names = {PROGRAM, LAB, release.LOCK}
    assert {file.name for file in tmp_path.iterdir()} == names
    for name in names:
        assert (tmp_path / name).read_bytes() == (dist / name).read_bytes(), name


def test_what_is_built_is_in_the_wheel(wheel: ZipFile) -> None:
    man = next(n for n in wheel.namelist() if n.endswith("/appliance.1")).rpartition("/")[0]
    assert man.endswith(".data/data/share/man/man1")
    for name, text in built().items():
        path = PurePosixPath(name)
        inside = f"{man}/{path.name}" if str(path.parent) == MANUAL else f"{DATA}/{name}"
        assert wheel.read(inside).decode() == text


def test_an_installed_profile_names_a_schema_that_is_there(wheel: ZipFile) -> None:
    profiles = [n for n in wheel.namelist() if re.fullmatch(rf"{DATA}/profiles/[^/]+\.yml", n)]
    assert profiles
    for name in profiles:
        hint = re.match(r"# yaml-language-server: \$schema=\.\./(\S+)\n", wheel.read(name).decode())
        assert hint
        assert f"{DATA}/{hint[1]}" in wheel.namelist()


@pytest.mark.parametrize("folder", ["roles", "playbooks", "profiles"])
def test_what_stages_read_is_in_the_wheel(wheel: ZipFile, folder: str) -> None:
    """Else a stage would run again on every host when an installation follows a checkout."""
    strays = set(STRAYS) - DOCUMENTS
    wanted = {
        f"{DATA}/{path}"
        for file in (ROOT / folder).rglob("*")
        if file.is_file()
        for path in [file.relative_to(ROOT)]
        if not any(fnmatchcase(part, stray) for part in path.parts for stray in strays)
    }
    assert wanted
    assert {n for n in wheel.namelist() if n.startswith(f"{DATA}/{folder}/")} == wanted


def test_what_the_project_is_made_with_is_not_in_the_wheel(wheel: ZipFile) -> None:
    names = wheel.namelist()
    assert {n.partition("/")[0] for n in names if not n.startswith("appliance")} == set()
    assert [n for n in names if "/molecule/" in n or "__pycache__" in n] == []


def test_the_virtual_rack_is_a_wheel_of_its_own(wheel: ZipFile, dist: Path) -> None:
    lab = ZipFile(dist / LAB)
    inside = {n for n in lab.namelist() if not n.startswith("appliance_lab-")}
    sources = {
        str(file.relative_to(ROOT))
        for file in (ROOT / "appliance/lab").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert inside == sources
    assert inside & set(wheel.namelist()) == set()
    metadata = lab.read(f"appliance_lab-{__version__}.dist-info/METADATA").decode()
    assert f"Requires-Dist: appliance=={__version__}\n" in f"{metadata}\n"


def test_the_lock_is_in_the_wheel_and_names_the_wheel(wheel: ZipFile, dist: Path) -> None:
    packages = wheel.read(f"{DATA}/appliance.lock").decode()
    assert packages == (ROOT / "requirements.lock").read_text(encoding="utf-8")
    lock = (dist / release.LOCK).read_text(encoding="utf-8")
    assert lock.removeprefix(packages).startswith(f"./{PROGRAM} \\\n    --hash=sha256:")


def test_one_place_holds_the_version() -> None:
    collection = ROOT / "playbooks/collections/ansible_collections/appliance/host/galaxy.yml"
    # Galaxy wants the form of semantic versions, and the wheel that of Python's.
    found = yaml.safe_load(collection.read_text(encoding="utf-8"))["version"]
    assert found == re.sub(r"rc(\d+)$", r"-rc.\1", __version__)
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[?([\d.]+)", changes, re.MULTILINE)
    assert newest
    assert newest[1] == re.sub(r"rc\d+$", "", __version__)
    assert release.notes().startswith(f"# {newest[1]}\n")
