"""Builds the Ansible collection of modules, roles and inventory plugin: python -m tools.collection FOLDER"""

import shutil
import subprocess  # noqa: TID251 - starts ansible-galaxy
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "playbooks/collections/ansible_collections/appliance/host"
NO_PARTS = shutil.ignore_patterns("molecule", "__pycache__", "ruff.toml", ".*")


def assemble(folder: Path) -> None:
    """Writes the sources of the collection into ``folder``, which must not exist: modules and plugins, roles, licence.

    The roles contain what ``tools.published built`` writes.
    """
    shutil.copytree(SOURCE, folder, ignore=NO_PARTS)
    shutil.copytree(ROOT / "roles", folder / "roles", ignore=NO_PARTS)
    shutil.copy(ROOT / "LICENSE", folder)


def build(target: Path) -> None:
    """Builds the archive into the folder ``target``. Raises CalledProcessError if ansible-galaxy refuses the sources."""
    with TemporaryDirectory() as work:
        sources = Path(work) / "ansible_collections/appliance/host"
        assemble(sources)
        program = Path(sys.executable).parent / "ansible-galaxy"
        subprocess.run(
            (program, "collection", "build", "--force", "--output-path", target.resolve()),
            cwd=sources,
            check=True,
        )


if __name__ == "__main__":
    build(Path(sys.argv[1]))
