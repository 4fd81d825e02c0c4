"""The fingerprint follows what a playbook reads, and nothing that tools and editors leave beside it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.config import data
from appliance.config.roles.context import Shared
from appliance.engine.fingerprint import Digests, changed_inputs, inputs_of
from tests.unit.engine.world import stage_of

MODULES = Path("playbooks/collections/ansible_collections/appliance/host/plugins/modules")
STRAYS = (
    "playbooks/collections/.ruff_cache/0.14/8127",
    "playbooks/collections/.mypy_cache/3.11/x.json",
    f"{MODULES}/__pycache__/files.cpython-311.pyc",
    f"{MODULES}/files.pyc",
    f"{MODULES}/.files.py.swp",
    f"{MODULES}/files.py~",
    f"{MODULES}/#files.py#",
    f"{MODULES}/files.py.orig",
    "roles/base/.ansible/roles/x",
    "roles/base/molecule/default/new.yml",
    "roles/base/templates/.DS_Store",
    "roles/base/tasks/main.yml.bak",
    "roles/base/README.md",
)
CHANGES = (
    ("modules", f"{MODULES}/files.py"),
    ("modules", f"{MODULES}/another.py"),
    ("role base", "roles/base/tasks/main.yml"),
    ("role base", "roles/base/templates/another.j2"),
    ("playbook", "playbooks/base.yml"),
)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Playbooks, collection and one role as they are shipped."""
    folder = tmp_path_factory.mktemp("original")
    shutil.copytree(data.root() / "playbooks", folder / "playbooks")
    shutil.copytree(data.root() / "roles/base", folder / "roles/base")
    return folder


@pytest.fixture
def differs(original: Path, tmp_path: Path) -> Callable[[Callable[[Path], None]], list[str]]:
    """Names of the inputs that differ after a copy was treated so."""

    def compare(treat: Callable[[Path], None]) -> list[str]:
        copy = shutil.copytree(original, tmp_path / "copy")
        treat(copy)
        stage = stage_of("base", ansible_roles=("base",))
        return changed_inputs(
            *(inputs_of(stage, at, {}, Digests(b"salt", Shared())) for at in (original, copy))
        )

    return compare


def _write(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as out:
        out.write("# more\n")


def test_copy_has_the_same_inputs(differs: Callable[[Callable[[Path], None]], list[str]]) -> None:
    assert differs(lambda copy: None) == []


def test_what_tools_and_editors_leave_changes_nothing(
    differs: Callable[[Callable[[Path], None]], list[str]],
) -> None:
    def litter(copy: Path) -> None:
        for stray in STRAYS:
            _write(copy / stray)

    assert differs(litter) == []


def test_checkout_with_another_umask_changes_nothing(
    differs: Callable[[Callable[[Path], None]], list[str]],
) -> None:
    def close(copy: Path) -> None:
        for file in copy.rglob("*"):
            file.chmod(file.stat().st_mode & 0o700)

    assert differs(close) == []


@pytest.mark.parametrize(("name", "file"), CHANGES)
def test_real_change_is_seen_and_named(
    differs: Callable[[Callable[[Path], None]], list[str]], name: str, file: str
) -> None:
    assert differs(lambda copy: _write(copy / file)) == [name]


def test_executable_bit_is_a_change(
    differs: Callable[[Callable[[Path], None]], list[str]],
) -> None:
    assert differs(lambda copy: (copy / "roles/base/tasks/main.yml").chmod(0o755)) == ["role base"]
