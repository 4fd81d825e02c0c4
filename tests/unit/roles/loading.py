"""A role's own modules and programs, loaded as files, as Ansible does."""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[3]
SHARED = "ansible.module_utils."


def program(file: Path) -> ModuleType:
    """One that stands alone; ``file`` from the project's root."""
    return _module(file.stem, ROOT / file, is_shared=False)


def _module(name: str, file: Path, is_shared: bool = True) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec
    assert spec.loader
    found = importlib.util.module_from_spec(spec)
    if is_shared:
        sys.modules[name] = found
    spec.loader.exec_module(found)
    return found


@contextmanager
def with_collection(file: Path) -> Iterator[ModuleType]:
    """One that uses the collection appliance.host."""
    collections = str(ROOT / "playbooks/collections")
    sys.path.insert(0, collections)
    try:
        yield program(file)
    finally:
        sys.path.remove(collections)


@contextmanager
def of_role(role: str) -> Iterator[dict[str, ModuleType]]:
    """All of a role by name, as Ansible imports them: its module_utils beside Ansible's own."""
    folder = ROOT / "roles" / role
    before = set(sys.modules)
    collections = str(ROOT / "playbooks/collections")
    sys.path.insert(0, collections)
    found = {}
    try:
        for file in (
            *sorted(folder.glob("module_utils/*.py")),
            *sorted(folder.glob("library/*.py")),
        ):
            found[file.stem] = _module(f"{SHARED}{file.stem}", file)
        yield found
    finally:
        sys.path.remove(collections)
        for name in set(sys.modules) - before:
            if name.removeprefix(SHARED) in found:
                del sys.modules[name]
