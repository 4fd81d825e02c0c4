"""What goes into a stage on a host, digested: equal inputs mean there is nothing new to apply."""

import hashlib
import json
import stat
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from appliance.config.roles.context import Shared
from appliance.config.secrets import Secret
from appliance.stages.stage import Stage

STRAYS = (
    *(".*", "__pycache__", "*.pyc", "*~", "#*#", "*.bak", "*.orig", "*.rej", "*.swp", "*.tmp"),
    *("molecule", "README.md", "CHANGELOG.md", "ruff.toml"),
)
"""Names below roles and collections that no playbook reads: what tools and editors leave, and what only people read."""

Inputs = dict[str, str]
"""Name of an input ("role slurm", "slurm_partitions") -> its digest."""


class Digests:
    """Digests of variables, each that all hosts share made once.

    ``salt`` keys them, for variables may hold secrets: a receipt tells nobody what they are.
    """

    def __init__(self, salt: bytes, shared: Shared) -> None:
        self._salt = salt
        self._shared = shared
        self._known: dict[int, str] = {}

    def of(self, value: object) -> str:
        """The digest of one variable's value."""
        if not self._shared.holds(value):
            return self._digest(value)
        if id(value) not in self._known:
            self._known[id(value)] = self._digest(value)
        return self._known[id(value)]

    def _digest(self, value: object) -> str:
        text = json.dumps(value, sort_keys=True, default=_plain)
        return hashlib.blake2b(text.encode(), key=self._salt, digest_size=12).hexdigest()


def inputs_of(
    stage: Stage, data: Path, variables: Mapping[str, object], digests: Digests
) -> Inputs:
    """Digests of the stage's roles, playbook, modules and variables."""
    found = {f"role {name}": _tree(data / "roles" / name) for name in stage.ansible_roles}
    found["playbook"] = _file(data / "playbooks" / f"{stage.name}.yml")
    found["modules"] = _tree(data / "playbooks" / "collections")
    return found | {name: digests.of(value) for name, value in variables.items()}


def fingerprint(inputs: Inputs) -> str:
    """One digest of all inputs."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:32]


def changed_inputs(before: Inputs, now: Inputs) -> list[str]:
    """Names of inputs that differ, are new or are gone, sorted."""
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def _plain(value: object) -> str:
    return str(value) if isinstance(value, Secret) else repr(value)


@cache
def _tree(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        if path.is_file() and not any(map(_is_stray, relative.parts)):
            # Of the mode git keeps only this; the rest is the umask of whoever checked out.
            runs = bool(path.stat().st_mode & stat.S_IXUSR)
            digest.update(f"{relative}\0{runs}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:24]


def _is_stray(name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in STRAYS)


@cache
def _file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:24]
