"""A role's own modules and programs, loaded as files, as Ansible does."""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[3]


def program(file: Path) -> ModuleType:
    """One that stands alone; ``file`` from the project's root."""
    spec = importlib.util.spec_from_file_location(file.stem, ROOT / file)
    assert spec
    assert spec.loader
    found = importlib.util.module_from_spec(spec)
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
