"""The wheel holds what is built and in no repository, where installed roles and people look for it."""

import re
import subprocess  # noqa: TID251 - builds the wheel
import sys
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

import pytest

from tools.published import MANUAL, built

ROOT = Path(__file__).parents[2]
DATA = "appliance/_data"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    (file,) = folder.glob("*.whl")
    return ZipFile(file)


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


def test_what_the_project_is_made_with_is_not_in_the_wheel(wheel: ZipFile) -> None:
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.startswith("appliance")} == set()
