"""Digests the inputs of a stage on a host: with equal inputs there is nothing new to apply."""

import hashlib
import json
import marshal
import re
import stat
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from appliance.config.secrets import Secret
from appliance.stages.context import Shared
from appliance.stages.stage import Stage

STRAYS = (
    *(".*", "__pycache__", "*.pyc", "*~", "#*#", "*.bak", "*.orig", "*.rej", "*.swp", "*.tmp"),
    *("molecule", "README.md", "CHANGELOG.md", "ruff.toml"),
)
"""Names below roles and collections that no playbook reads: files of tools and editors, and documents."""

Inputs = dict[str, str]
"""Name of an input ("role slurm", "module slurm_node", "slurm_partitions") and its digest."""
NUMBERS = frozenset({int, bool})
"""Types of variables whose equal values, within one type, have equal digests."""
ALL_MODULES = "modules"
"""The input in receipts up to 0.1.0 that stood for all modules of the collection."""
PLUGINS = Path("playbooks/collections/ansible_collections/appliance/host/plugins")
RESOURCES = Path("module_utils/resources")
CALLS = re.compile(r"\bappliance\.host\.(\w+):")
NAMES = re.compile(r"^ +(?:- )?(\w+):", re.M)
"""Keys of tasks and of the entries of appliance.host.apply."""
SHARES = re.compile(
    r"^from ansible_collections\.appliance\.host\.plugins\.(\w+utils[.\w]*) import ", re.M
)


class Digests:
    """Digests of variables; a value that hosts share is digested once.

    ``salt`` keys them, because variables may hold secrets that a receipt must not reveal.
    """

    def __init__(self, salt: bytes, shared: Shared) -> None:
        self._salt = salt
        self._shared = shared
        self._known: dict[object, str] = {}
        self._empty = hashlib.blake2b(key=salt, digest_size=12)
        self._last: dict[str, tuple[Any, str]] = {}

    def of_all(self, variables: Mapping[str, object]) -> Inputs:
        """Return the digest of each variable by name."""
        last = self._last
        for name, value in variables.items():
            known = last.get(name)
            # The previous host usually had the same object.
            if known is None or known[0] is not value:
                last[name] = value, self.of(value)
        return {name: last[name][1] for name in variables}

    def of(self, value: Any) -> str:
        """Return the digest of one variable's value."""
        key: object
        kind = type(value)
        if kind is str:
            key = value
        elif kind in NUMBERS:
            # 1 and True are equal, but their texts differ.
            key = kind, value
        elif self._shared.holds(value):
            key = id(value)
        else:
            try:
                # Most hosts get the same lists: serialising one costs a tenth of its digest.
                key = marshal.dumps(value, 2)
            except ValueError:  # a type that only this project serialises
                return self._digest(value)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._digest(value)
        return known

    def _digest(self, value: object) -> str:
        digest = self._empty.copy()
        digest.update(_TEXT.encode(value).encode())
        return digest.hexdigest()


def inputs_of(
    stage: Stage, data: Path, variables: Mapping[str, object], digests: Digests
) -> Inputs:
    """Return digests of the stage's roles, playbook, variables, and the modules these roles call."""
    return {**files_of(stage, data), **digests.of_all(variables)}


def files_of(stage: Stage, data: Path) -> Mapping[str, str]:
    """Return digests of the stage's roles, playbook and modules, which are the same on all hosts."""
    return _files(stage.name, stage.ansible_roles, data)


def fingerprint(inputs: Inputs) -> str:
    """Return one digest of all inputs."""
    return hashlib.sha256(_TEXT.encode(inputs).encode()).hexdigest()[:32]


def changed_inputs(before: Inputs, now: Inputs) -> list[str]:
    """Return the sorted names of inputs that differ, are new, or are gone."""
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def _plain(value: object) -> str:
    return str(value) if isinstance(value, Secret) else repr(value)


_TEXT = json.JSONEncoder(sort_keys=True, default=_plain)


@cache
def _files(stage: str, roles: tuple[str, ...], data: Path) -> Mapping[str, str]:
    """Return digests of what is the same for all hosts."""
    found = {f"role {name}": _tree(data / "roles" / name) for name in roles}
    found["playbook"] = _file(data / "playbooks" / f"{stage}.yml")
    called = sorted({m for name in roles for m in _called(data / "roles" / name, data / PLUGINS)})
    return found | {f"module {name}": _module(data / PLUGINS, name) for name in called}


@cache
def _tree(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_file() and not any(map(_is_stray, relative.parts)):
            # Git keeps only this bit of the mode; the rest is the umask of the checkout.
            runs = bool(path.stat().st_mode & stat.S_IXUSR)
            digest.update(f"{relative}\0{runs}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:24]


@cache
def _called(role: Path, plugins: Path) -> frozenset[str]:
    """Return modules of the collection that the role's tasks call, directly or as entries of appliance.host.apply."""
    texts = [path.read_text(encoding="utf-8") for path in role.glob("tasks/*.yml")]
    called = {name for text in texts for name in CALLS.findall(text)}
    if "apply" in called:
        known = {path.stem for path in (plugins / RESOURCES).glob("*.py")}
        called |= known.intersection(name for text in texts for name in NAMES.findall(text))
    return frozenset(called)


@cache
def _module(plugins: Path, name: str) -> str:
    """Return the files of a module: its action plugin and all that modules share."""
    digest = hashlib.sha256()
    for path in sorted(_parts(plugins, name)):
        digest.update(f"{path.relative_to(plugins)}\0{_file(path)}\0".encode())
    return digest.hexdigest()[:24]


def _parts(plugins: Path, name: str) -> set[Path]:
    folders = (Path("modules"), Path("action"), RESOURCES)
    found: set[Path] = set()
    left = {path for folder in folders if (path := plugins / folder / f"{name}.py").is_file()}
    while left:
        found |= left
        shared = {
            other for path in left for other in SHARES.findall(path.read_text(encoding="utf-8"))
        }
        files = {plugins / f"{other.replace('.', '/')}.py" for other in shared}
        left = {path for path in files if path.is_file()} - found
    return found


def _is_stray(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in STRAYS)


@cache
def _file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:24]
