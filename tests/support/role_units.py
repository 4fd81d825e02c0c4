"""Which units a role restarts, which files restart them, and which of the role's options these files are made of: read from its own text."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml  # noqa: TID251 - reads the roles' own files

from appliance.config.data import root

NAME = re.compile(r"\b(_{0,2}[a-z]+_[a-z0-9_]+)\b")
PLAIN = re.compile(r"\{\{\s*(__\w+)(?:\s*\|[^}]*)?\s*\}\}")
PATH = re.compile(r"'(/[^']+)'")
INLINE_PATH = re.compile(r"\{'path': (\w+), 'state': ([^}]+)\}")
INLINE = re.compile(r"\{'name': '([^']+)', 'watches': \[([^\]]+)\]")
REQUIRES = re.compile(r"^(?:Requires|PartOf|BindsTo)=(.+)$", re.M)
DROP_IN = re.compile(r"/etc/systemd/system/([^/]+)\.d/")
STATIC_PODS = "/etc/kubernetes/manifests/"
OF_ENTRY = frozenset(
    {"name", "when", "vars", "loop", "after_change", "ignore_failure", "pauses_for"}
)
TASK_OF = {"command": "ansible.builtin.command"}
RESTARTS = frozenset({"restarted", "reloaded"})


@dataclass
class Watched:
    """A unit that a role restarts; ``files`` restart it, ``options`` of the role decide on them or on its state.

    ``condition``: whether something else that a task finds restarts it.
    """

    files: set[str] = field(default_factory=set)
    options: set[str] = field(default_factory=set)
    condition: bool = False


class RoleText:
    """A role as it is written, of all families of systems at once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.folder = root() / "roles" / name

    @cached_property
    def options(self) -> frozenset[str]:
        """Names of what the program gives the role."""
        spec = _read(self.folder / "meta/argument_specs.yml")
        return frozenset(spec["argument_specs"]["main"]["options"])

    @cached_property
    def own(self) -> dict[str, list[Any]]:
        """The role's own variables; one that differs by family has several values."""
        found: dict[str, list[Any]] = {}
        for file in sorted((self.folder / "vars").glob("*.yml")):
            for name, value in (_read(file) or {}).items():
                found.setdefault(name, []).append(value)
        return found

    @cached_property
    def tasks(self) -> list[dict[str, Any]]:
        """All tasks, those within blocks too; an entry of appliance.host.apply as the task that it would be by itself."""
        files = sorted((self.folder / "tasks").glob("*.yml"))
        found = [task for file in files for task in _flat(_read(file))]
        return [one for task in found for one in (_entries(task) or [task])]

    def expanded(self, text: str) -> set[str]:
        """The text with the role's own variables put in, once for each family."""
        found = PLAIN.search(text)
        values = [v for v in self.own.get(found[1], []) if isinstance(v, str)] if found else []
        if not found or not values:
            return {text}
        made = (text[: found.start()] + value + text[found.end() :] for value in values)
        return {whole for one in made for whole in self.expanded(one)}

    def paths(self, value: Any) -> set[str]:
        """Absolute paths that an expression or a list comes to."""
        if isinstance(value, list):
            return {path for item in value for path in self.paths(item)}
        whole = self.expanded(str(value))
        found = {text for text in whole if text.startswith("/")}
        for text in whole - found:
            found |= set(PATH.findall(text))
            for name in NAME.findall(text):
                found |= {path for v in self.own.get(name, []) for path in self.paths(v)}
        return found

    def options_in(self, value: Any) -> set[str]:
        """Options of the role that a text reads, by way of its own variables too."""
        found: set[str] = set()
        seen: set[str] = set()
        left = set(NAME.findall(str(value)))
        while left:
            seen |= left
            found |= left & self.options
            left = {n for name in left for v in self.own.get(name, []) for n in _names(v)} - seen
        return found

    @cached_property
    def files(self) -> dict[str, set[str]]:
        """Options that a file of the role is made of, by its path."""
        found: dict[str, set[str]] = {}
        for item in _dicts([*self.own.values(), self.tasks]):
            if "path" in item and isinstance(item["path"], str) and "target" not in item:
                for path in self.expanded(item["path"]):
                    found.setdefault(path, set()).update(self.options_in(self._source(path, item)))
        for text in _texts([*self.own.values(), self.tasks]):
            for name, state in INLINE_PATH.findall(text):
                for path in self.paths(f"{{{{ {name} }}}}"):
                    item = {"path": path, "state": state}
                    found.setdefault(path, set()).update(self.options_in(self._source(path, item)))
        return found

    def _source(self, path: str, item: dict[str, Any]) -> list[str]:
        texts = [str(item.get(key, "")) for key in ("content", "content_base64", "state")]
        name = item.get("src") or f"{path.lstrip('/')}.j2"
        file = self.folder / "templates" / name
        return [*texts, file.read_text() if file.is_file() else ""]

    @cached_property
    def units(self) -> dict[str, Watched]:
        """Units that a changed file or a condition restarts, and static pods."""
        found: dict[str, Watched] = {}
        for name, watches, state in self._restarted():
            for unit in self.expanded(name):
                watched = found.setdefault(unit.removesuffix(".service"), Watched())
                watched.files |= self.paths(watches)
                watched.options |= self.options_in(state)
                watched.condition |= any(word in state for word in RESTARTS)
        for path in self.files:
            if path.startswith(STATIC_PODS):
                found[Path(path).stem] = Watched({path})
        for one in found.values():
            one.options.update(*(self.files.get(path, set()) for path in one.files))
        self._follow(found)
        return found

    def _restarted(self) -> Iterator[tuple[str, Any, str]]:
        for item in _dicts([*self.own.values(), self.tasks]):
            state = str(item.get("state", ""))
            if "name" in item and ("watches" in item or any(word in state for word in RESTARTS)):
                yield item["name"], item.get("watches", []), state
        for text in _texts([*self.own.values(), self.tasks]):
            yield from ((n, [f"{{{{ {w} }}}}"], "") for n, w in INLINE.findall(text))

    def _follow(self, found: dict[str, Watched]) -> None:
        """Systemd restarts with a unit those that require it."""
        before = {name: (set(one.files), set(one.options)) for name, one in found.items()}
        for unit, required in self._requires():
            if required in before and unit in found:
                found[unit].files |= before[required][0]
                found[unit].options |= before[required][1]

    def _requires(self) -> Iterator[tuple[str, str]]:
        for item in _dicts([*self.own.values()]):
            if "path" not in item:
                continue
            for path in self.expanded(str(item["path"])):
                drop_in = DROP_IN.match(path)
                for required in REQUIRES.findall("\n".join(self._source(path, item))):
                    unit = drop_in[1] if drop_in else Path(path).name
                    yield unit.removesuffix(".service"), required.removesuffix(".service")


def _read(file: Path) -> Any:
    return yaml.safe_load(file.read_text())


def _flat(entries: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for task in entries:
        yield task
        for key in ("block", "rescue", "always"):
            yield from _flat(task.get(key, []))


def _entries(task: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            TASK_OF.get(key, f"appliance.host.{key}") if key not in OF_ENTRY else key: value
            for key, value in entry.items()
        }
        for entry in task.get("appliance.host.apply", {}).get("resources", [])
    ]


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _dicts(item)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _names(value: Any) -> set[str]:
    return set(NAME.findall(str(value)))
