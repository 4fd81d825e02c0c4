"""A role's own programs, loaded as files: they stand alone on a host."""

import importlib.util
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def program(file: Path) -> ModuleType:
    """One that stands alone; ``file`` from the project's root, with an ending or without."""
    loader = SourceFileLoader(file.stem.replace("-", "_"), str(ROOT / file))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec
    found = importlib.util.module_from_spec(spec)
    loader.exec_module(found)
    return found
