"""A packed module is kept for the next playbook with its bytecode, and is what would be packed now."""

import os
import pickle
import shutil
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import ZipFile

import pytest
from ansible.executor.module_common import _CachedModule

from appliance.adapters.process import run
from appliance.config import data

COLLECTION = "ansible_collections/appliance/host"
OURS = "ansible_collections.appliance.host.plugins.modules.sysctl-ZIP_DEFLATED-none"
PLAYBOOK = """
- hosts: localhost
  gather_facts: false
  tasks:
    - appliance.host.sysctl: {settings: {}, file: /etc/sysctl.d/60-nothing.conf}
"""


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    """Sources of modules, as a collection has them."""
    folder = tmp_path / "plugins"
    for name in ("modules/sysctl.py", "module_utils/outcome.py"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("pass")
    return folder


@pytest.fixture
def payloads(plugin: Callable[[str], ModuleType], plugins: Path) -> Callable[[], Any]:
    """What one playbook knows of them."""
    return lambda: plugin("callback.payloads").Payloads(plugins / "modules/__pycache__", plugins)


def _packed(source: str) -> bytes:
    """As ansible-core packs a module that is this source."""
    archive = BytesIO()
    with ZipFile(archive, "w") as files:
        files.writestr("packed.py", source)
        files.writestr("told.json", "{}")
    zip_data = b64encode(archive.getvalue())
    module = _CachedModule(zip_data=zip_data, metadata=None, source_mapping={})
    return pickle.dumps(module)


def _archive(packed: bytes) -> bytes:
    return b64decode(pickle.loads(packed).zip_data)


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """ansible-core's folder, as a playbook leaves it."""
    folder = tmp_path / "used"
    folder.mkdir()
    for name in (
        OURS,
        f"{OURS}.lock",
        f"{OURS}-part",
        "ansible.legacy.of_a_role-ZIP_DEFLATED-none",
    ):
        (folder / name).write_bytes(_packed(f"NAME = {name!r}"))
    return folder


def _given(payloads: Any, folder: Path) -> dict[str, str]:
    """The sources that each of them holds."""
    payloads.give(folder)
    return {
        file.name: ZipFile(BytesIO(_archive(file.read_bytes()))).read("packed.py").decode()
        for file in folder.iterdir()
    }


def test_whole_modules_of_ours_are_kept(
    payloads: Callable[[], Any], used: Path, tmp_path: Path
) -> None:
    payloads().take(used)
    assert _given(payloads(), tmp_path / "next") == {OURS: f"NAME = {OURS!r}"}


@pytest.mark.parametrize(("magic", "runs"), [(b"", ".pyc"), (b"\0\0\r\n", ".py")])
def test_the_python_that_packed_runs_the_bytecode_another_the_sources(
    plugin: Callable[[str], ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    magic: bytes,
    runs: str,
) -> None:
    callback = plugin("callback.payloads")
    if magic:
        monkeypatch.setattr(callback, "UNCHECKED", magic + callback.UNCHECKED[len(magic) :])
    archive = tmp_path / "archive.zip"
    archive.write_bytes(_archive(callback.with_bytecode(_packed("assert __doc__ is None"))))
    told = "import packed; print(packed.__file__, end='')"
    done = run((sys.executable, "-c", told), env={"PYTHONPATH": str(archive)}, timeout=60)
    assert done.stdout == f"{archive}/packed{runs}"


def test_nobody_else_may_write_what_is_kept(
    payloads: Callable[[], Any], used: Path, plugins: Path
) -> None:
    before = os.umask(0)
    try:
        payloads().take(used)
    finally:
        os.umask(before)
    folder = plugins / "modules/__pycache__"
    assert [oct(path.stat().st_mode & 0o777) for path in (folder, *folder.iterdir())] == [
        "0o755",
        "0o644",
    ]


@pytest.mark.parametrize(
    "source", ["modules/sysctl.py", "module_utils/outcome.py", "module_utils/new.py"]
)
def test_what_other_sources_left_is_not_used_and_goes(
    payloads: Callable[[], Any], used: Path, plugins: Path, tmp_path: Path, source: str
) -> None:
    payloads().take(used)
    (plugins / source).write_text("changed")
    assert _given(payloads(), tmp_path / "next") == {}
    payloads().take(used)
    assert len(list((plugins / "modules/__pycache__").iterdir())) == 1


def test_another_ansible_packs_anew(
    payloads: Callable[[], Any],
    plugin: Callable[[str], ModuleType],
    used: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    payloads().take(used)
    monkeypatch.setattr(plugin("callback.payloads"), "__version__", "2.99")
    assert _given(payloads(), tmp_path / "next") == {}


@pytest.mark.parametrize("left", [0, 10, 40])
def test_a_damaged_one_is_packed_anew(
    payloads: Callable[[], Any], used: Path, plugins: Path, tmp_path: Path, left: int
) -> None:
    payloads().take(used)
    (kept,) = (plugins / "modules/__pycache__").iterdir()
    os.truncate(kept, left)
    assert _given(payloads(), tmp_path / "next") == {}
    payloads().take(used)
    assert _given(payloads(), tmp_path / "after") == {OURS: f"NAME = {OURS!r}"}


def test_ansible_takes_what_the_playbook_before_it_packed(tmp_path: Path) -> None:
    """The real ansible-playbook, whose folder and names these are."""
    shutil.copytree(
        data.root() / "playbooks/collections" / COLLECTION,
        tmp_path / COLLECTION,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    playbook = tmp_path / "playbook.yml"
    playbook.write_text(PLAYBOOK)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "ANSIBLE_COLLECTIONS_PATH": str(tmp_path),
        "ANSIBLE_CALLBACKS_ENABLED": "appliance.host.payloads",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_DEBUG": "true",
        "PYTHONDONTWRITEBYTECODE": "",
    }
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    python = f"ansible_python_interpreter={sys.executable}"
    argv = (program, "-c", "local", "-i", "localhost,", "-e", python, "--check", str(playbook))
    first, second = (
        run(argv, env=environment, cwd=tmp_path, check=False, timeout=120) for _ in range(2)
    )
    assert (first.returncode, second.returncode) == (0, 0), first.stdout[-2000:]
    assert "ANSIBALLZ: Creating module" in first.stdout
    assert "ANSIBALLZ: Creating module" not in second.stdout
    assert "ANSIBALLZ: using cached module" in second.stdout
