"""The program as a customer installs it: from the files of a release, in an empty environment, without the checkout.

It downloads the packages of the lock, as README's second command does.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess  # noqa: TID251 - types the commands
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from appliance import __version__
from tools import release

pytestmark = pytest.mark.slow

PROGRAM = f"appliance-{__version__}-py3-none-any.whl"
LAB = f"appliance_lab-{__version__}-py3-none-any.whl"
ALLOWED_MB = 250
OWN = {"appliance", "pip", "setuptools"}
"""What an environment has beyond the lock: the program, and what Python puts there."""


def typed(
    *argv: str | Path, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """One command, as in a shell that knows nothing of the checkout."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.run(
        [str(word) for word in argv],
        cwd=cwd,
        env={**clean, **(env or {})},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    release.everything(folder)
    return folder


@pytest.fixture(scope="module")
def place(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the program; the commands are README's."""
    folder = tmp_path_factory.mktemp("installed") / "env"
    # The interpreter below the environment of the tests: its own has their packages.
    python = (
        Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    )
    assert typed(python, "-m", "venv", folder, cwd=dist).returncode == 0
    lock = ("--require-hashes", "-r", "appliance.lock")
    done = typed(folder / "bin/pip", "install", "-q", *lock, cwd=dist)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def rich(place: Path) -> Iterator[Path]:
    """The description of an installed package, which a test may change."""
    (file,) = place.glob("lib/python*/site-packages/rich-*.dist-info/METADATA")
    kept = file.read_text(encoding="utf-8")
    yield file
    file.write_text(kept, encoding="utf-8")


def test_a_site_is_made_judged_and_planned(place: Path, elsewhere: Path) -> None:
    program = place / "bin/appliance"
    version = typed(program, "--version", cwd=elsewhere)
    assert (version.returncode, version.stdout) == (0, f"appliance, version {__version__}\n")
    made = typed(program, "init", "mysite", "--hosts", "4", "--profile", "hpc", cwd=elsewhere)
    assert made.returncode == 0, made.stderr
    judged = typed(program, "profile", "validate", "mysite", cwd=elsewhere)
    assert judged.returncode == 0, judged.stdout + judged.stderr
    # Nothing is contacted before the keys are pinned; the plan has read the site and says so.
    planned = typed(program, "plan", "--site", "mysite", cwd=elsewhere)
    assert planned.returncode == 2
    assert "appliance trust" in planned.stderr


def test_every_playbook_is_read_with_its_roles_and_modules(place: Path, elsewhere: Path) -> None:
    (data,) = place.glob("lib/python*/site-packages/appliance/_data")
    env = {
        "ANSIBLE_ROLES_PATH": str(data / "roles"),
        "ANSIBLE_COLLECTIONS_PATH": str(data / "playbooks/collections"),
    }
    books = sorted(data.glob("playbooks/*.yml"))
    assert len(books) > 5
    found = typed(place / "bin/ansible-playbook", "--syntax-check", *books, cwd=elsewhere, env=env)
    assert found.returncode == 0, found.stderr


def test_manual_pages_and_completion_are_there(place: Path, elsewhere: Path) -> None:
    pages = {page.name for page in (place / "share/man/man1").iterdir()}
    assert {"appliance.1", "appliance-deploy.1"} <= pages
    script = typed(place / "bin/appliance", "completion", "bash", cwd=elsewhere)
    assert script.returncode == 0
    assert "_APPLIANCE_COMPLETE" in script.stdout


def test_only_packages_of_the_lock_are_there_and_they_are_small(place: Path, dist: Path) -> None:
    listed = typed(place / "bin/pip", "list", "--format", "json", cwd=dist)
    found = {one["name"].lower().replace("_", "-") for one in json.loads(listed.stdout)}
    lines = (dist / release.LOCK).read_text(encoding="utf-8").splitlines()
    wanted = [Requirement(line.rstrip(" \\")) for line in lines if line[:1].isalnum()]
    names = {one.name for one in wanted if not one.marker or one.marker.evaluate()}
    assert found - OWN == names - OWN
    size = sum(file.lstat().st_size for file in place.rglob("*") if file.is_file())
    assert size < ALLOWED_MB * 1e6


def test_another_version_of_a_package_is_named(place: Path, elsewhere: Path, rich: Path) -> None:
    rich.write_text(re.sub("^Version: .*", "Version: 1.0", rich.read_text(), flags=re.MULTILINE))
    told = typed(place / "bin/appliance", "--version", cwd=elsewhere)
    assert told.returncode == 1
    assert re.search(r"differ from the lock of this release: rich 1\.0 instead of \d", told.stderr)


@pytest.mark.parametrize("changed", ["wheel", "lock"])
def test_changed_files_are_refused(place: Path, dist: Path, tmp_path: Path, changed: str) -> None:
    for name in (PROGRAM, release.LOCK, release.SUMS):
        shutil.copy(dist / name, tmp_path)
    if changed == "wheel":
        with ZipFile(tmp_path / PROGRAM, "a") as wheel:
            wheel.writestr("appliance/added.py", "")
    else:
        text = (dist / release.LOCK).read_text(encoding="utf-8")
        hashes = r"(?<=--hash=sha256:)\w{64}"
        (tmp_path / release.LOCK).write_text(re.sub(hashes, "0" * 64, text), encoding="utf-8")
    options = ("--dry-run", "--ignore-installed", "--require-hashes", "-r", release.LOCK)
    done = typed(place / "bin/pip", "install", "-q", *options, cwd=tmp_path)
    assert done.returncode == 1
    assert "DO NOT MATCH THE HASHES" in done.stderr
    sums = typed("sha256sum", "--check", "--ignore-missing", release.SUMS, cwd=tmp_path)
    assert sums.returncode == 1


def test_the_virtual_rack_is_asked_for_and_installed(
    place: Path, dist: Path, elsewhere: Path
) -> None:
    program = place / "bin/appliance"
    for argv in (("lab", "status"), ("deploy", "--profile", "hpc", "--yes")):
        missing = typed(program, *argv, cwd=elsewhere)
        assert missing.returncode == 2
        assert missing.stderr.startswith(
            "the virtual rack is not installed; it is a file of the same release\n  fix: "
        )
        assert LAB in missing.stderr
    without = typed(program, "plan", cwd=elsewhere)
    assert without.returncode == 2
    assert "rack" not in without.stderr
    fix = re.search(r"fix: (.*)", missing.stderr)
    assert fix
    done = typed(*fix[1].split(), cwd=dist)
    assert done.returncode == 0, done.stderr
    helped = typed(program, "lab", "up", "--help", cwd=elsewhere)
    assert helped.returncode == 0, helped.stderr
    assert "--plain" in helped.stdout


def test_the_release_names_each_file_and_each_package(dist: Path) -> None:
    checked = typed("sha256sum", "--check", "--strict", release.SUMS, cwd=dist)
    assert checked.returncode == 0
    assert len(checked.stdout.splitlines()) == len(list(dist.iterdir())) - 1
    bill = json.loads((dist / release.BILL).read_text(encoding="utf-8"))
    assert bill["metadata"]["component"]["hashes"] == [
        {"alg": "SHA-256", "content": hashlib.sha256((dist / PROGRAM).read_bytes()).hexdigest()}
    ]
    lock = (dist / release.LOCK).read_text(encoding="utf-8")
    named = {f"{one['name']}=={one['version']}" for one in bill["components"]}
    assert named == set(re.findall(r"^[a-z0-9][\w.-]*==[^\s;]+", lock, re.MULTILINE))


def test_the_release_has_the_same_bytes_again(dist: Path, tmp_path: Path) -> None:
    release.everything(tmp_path)
    for file in dist.iterdir():
        assert (tmp_path / file.name).read_bytes() == file.read_bytes(), file.name
