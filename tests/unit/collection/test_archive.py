"""The collection as an archive: another user's playbook takes roles of it by their full names."""

import os
import re
import sys
import tarfile
from pathlib import Path

import pytest

from appliance.adapters.process import Completed, run
from tools.collection import build

ROOT = Path(__file__).parents[3]
BIN = Path(sys.executable).parent
PLAYBOOK = """\
- hosts: localhost
  connection: local
  gather_facts: false
  roles:
    - role: appliance.host.limits
      vars: {limits_state: absent, limits_program: "", limits_identity: me, limits_prometheus: "http://127.0.0.1:9090"}
    - role: appliance.host.storage
      vars: {storage_server: none, storage_client: none}
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    build(folder)
    (found,) = folder.iterdir()
    return found


def foreign(folder: Path, *argv: str) -> Completed:
    """A program of Ansible in another user's folder, without this checkout."""
    environment = {
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_HOME": str(folder / "ansible"),
        "ANSIBLE_COLLECTIONS_PATH": str(folder / "collections"),
        "PYTHONPATH": "",
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }
    return run(
        (str(BIN / argv[0]), *argv[1:]), cwd=folder, env=environment, timeout=300, check=False
    )


def test_archive_has_modules_roles_and_plugin_and_no_tests(archive: Path) -> None:
    with tarfile.open(archive) as packed:
        names = packed.getnames()
    roles = {path.name for path in (ROOT / "roles").iterdir() if path.is_dir()} - {".ruff_cache"}
    assert {name.split("/")[1] for name in names if name.startswith("roles/")} == roles
    assert {
        "LICENSE",
        "plugins/modules/apply.py",
        "plugins/inventory/site.py",
        "roles/observe/files/usr/local/share/appliance/boards/gpu.json",
    } <= set(names)
    assert not [n for n in names if "molecule" in n or "__pycache__" in n or "/." in n]


def test_playbook_of_another_user_takes_two_roles(archive: Path, tmp_path: Path) -> None:
    done = foreign(tmp_path, "ansible-galaxy", "collection", "install", "--offline", str(archive))
    assert done.returncode == 0, done.stderr
    (tmp_path / "site.yml").write_text(PLAYBOOK)
    played = foreign(tmp_path, "ansible-playbook", "--check", "site.yml")
    assert "failed=0" in played.stdout, played.stdout + played.stderr
    for role in ("limits", "storage"):
        assert f"TASK [appliance.host.{role} : " in played.stdout
    shown = foreign(tmp_path, "ansible-doc", "-t", "inventory", "appliance.host.site")
    assert "appliance inventory --ansible" in shown.stdout


def test_documentation_of_every_module_is_read_by_ansible(archive: Path, tmp_path: Path) -> None:
    foreign(tmp_path, "ansible-galaxy", "collection", "install", "--offline", str(archive))
    folder = tmp_path / "collections/ansible_collections/appliance/host/plugins/modules"
    modules = [f"appliance.host.{file.stem}" for file in folder.glob("*.py")]
    shown = foreign(tmp_path, "ansible-doc", "-t", "module", *modules)
    assert shown.returncode == 0, shown.stderr
    assert set(
        re.findall(r"^> MODULE \S*?(appliance\.host\.\w+)", shown.stdout, re.MULTILINE)
    ) == set(modules)
