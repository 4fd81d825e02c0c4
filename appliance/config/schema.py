"""Turns data into models; pydantic's errors become plain messages at their line."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from appliance.config.document import Document
from appliance.config.finding import Finding, KeyPath
from appliance.config.validation_messages import explain, intended

M = TypeVar("M", bound=BaseModel)
ROUNDS = 200
# Keys that nothing else depends on: the rest is judged without them.
STAND_INS: dict[str | int, object] = {
    "version": 1,
    "name": "unnamed",
    "title": "untitled",
    "networks": {},
    "hosts": [{"name": "nobody", "roles": ["login"], "address": "0.0.0.0"}],
}


@dataclass(frozen=True)
class Checked(Generic[M]):
    """The model of a document's valid parts, and what is wrong with the others.

    ``model`` is None if too little is left. ``cut`` holds the paths that were left out.
    """

    document: Document
    model: M | None
    findings: tuple[Finding, ...] = ()
    cut: frozenset[KeyPath] = frozenset()
    origins: dict[KeyPath, list[int]] = field(default_factory=dict)

    def whole(self, *path: str | int) -> bool:
        """Nothing at or below ``path`` was left out, so its absence is meaningful."""
        return not any(c[: len(path)] == path or path[: len(c)] == c for c in self.cut)

    def listed(self, *path: str | int) -> bool:
        """No direct item of ``path`` was left out; parts of an item may have been."""
        return not any(
            path[: len(c)] == c or (len(c) == len(path) + 1 and c[:-1] == path) for c in self.cut
        )

    def original(self, path: KeyPath) -> KeyPath:
        """A path of the model as a path of the document (list items may have been left out)."""
        seen: KeyPath = ()
        for part in path:
            kept = self.origins.get(seen)
            seen = (*seen, kept[part] if isinstance(part, int) and kept else part)
        return seen

    def finding(self, path: KeyPath, message: str, remedy: str) -> Finding:
        """A problem at ``path`` of the model."""
        return self.document.finding(self.original(path), message, remedy)


def check(document: Document, model: type[M]) -> Checked[M]:
    """Validates a document; invalid parts are reported and left out, so that the rest can be judged too."""
    errors = _errors(document.data, model)
    groups = _by_path(document.data, errors)
    misspelled = _misspelled(model, groups)
    findings = [
        document.finding(path, *explain(model, path, group, document.texts.get(path)))
        for path, group in groups.items()
        if group[0]["type"] != "missing" or path not in misspelled
    ]
    if not errors:
        return Checked(document, _build(document.data, model))
    data, cut, origins = _Pruner(document.data, model).prune(errors)
    try:
        sound = _build(data, model)
    except ValidationError:
        sound = None
    if sound is not None and ("hosts",) in cut:
        # A site has at least one host; if none is valid, rules see none.
        sound = sound.model_copy(update={"hosts": ()})
    return Checked(document, sound, tuple(findings), frozenset(cut) | misspelled, origins)


def _build(data: object, model: type[M]) -> M:
    # JSON input in strict mode: text stays text (no 10 -> 0.0.0.10, no "yes" -> true), lists become tuples.
    return model.model_validate_json(json.dumps(data), strict=True)


def _errors(data: object, model: type[BaseModel]) -> list[ErrorDetails]:
    try:
        _build(data, model)
    except ValidationError as error:
        # "too_short" counts valid items only: a list that is not empty has other, more precise errors.
        found = error.errors(include_url=False)
        # A default that depends on other keys is missing only because one of those has an error of its own.
        return [
            e
            for e in found
            if e["type"] != "default_factory_not_called"
            and not (e["type"] == "too_short" and e["input"])
        ]
    return []


def _misspelled(
    model: type[BaseModel], groups: Mapping[KeyPath, Sequence[ErrorDetails]]
) -> set[KeyPath]:
    """Keys that an unknown key resembles. None of them is reported as missing as well."""
    return {
        (*path[:-1], name)
        for path, group in groups.items()
        if group[0]["type"] == "extra_forbidden"
        for name in intended(model, path)
    }


def _by_path(data: object, errors: list[ErrorDetails]) -> dict[KeyPath, list[ErrorDetails]]:
    found: dict[KeyPath, list[ErrorDetails]] = {}
    for error in errors:
        found.setdefault(_path(data, error), []).append(error)
    return found


def _path(data: object, error: ErrorDetails) -> KeyPath:
    """The error's place in the data; pydantic appends union branches and ``[key]`` to it."""
    path: KeyPath = ()
    for part in error["loc"]:
        inside = isinstance(data, dict) and part in data
        listed = isinstance(data, list) and isinstance(part, int) and part < len(data)
        if not (inside or listed):
            return (*path, part) if error["type"] == "missing" else path
        data = data[part]  # type: ignore[index]
        path = (*path, part)
    return path


class _Pruner:
    """Removes what does not validate, one level further each round, and records the original positions of the rest."""

    def __init__(self, data: object, model: type[BaseModel]) -> None:
        self.data = json.loads(json.dumps(data))
        self.model = model
        self.cut: set[KeyPath] = set()
        self.origins: dict[KeyPath, list[int]] = {}

    def prune(
        self, errors: list[ErrorDetails]
    ) -> tuple[object, set[KeyPath], dict[KeyPath, list[int]]]:
        for _ in range(ROUNDS):
            if not errors:
                break
            for path in sorted({self._victim(e) for e in errors}, key=_deepest_last_first):
                self._remove(path)
            errors = _errors(self.data, self.model)
        return self.data, self.cut, self.origins

    def _victim(self, error: ErrorDetails) -> KeyPath:
        path = _path(self.data, error)
        stands_in = len(path) == 1 and path[0] in STAND_INS
        return path[:-1] if error["type"] == "missing" and not stands_in else path

    def _remove(self, path: KeyPath) -> None:
        if not path:
            self.cut.add(())
            self.data = None
            return
        if len(path) == 1 and path[0] in STAND_INS and isinstance(self.data, dict):
            self.cut.add(path)
            self.data[path[0]] = STAND_INS[path[0]]
            return
        parent = self._at(path[:-1])
        if isinstance(parent, dict) and path[-1] in parent:
            self.cut.add(self._original(path))
            del parent[path[-1]]
        elif isinstance(parent, list) and isinstance(path[-1], int) and path[-1] < len(parent):
            self.cut.add(self._original(path))
            kept = self._kept(self._original(path[:-1]), len(parent))
            del kept[path[-1]]
            del parent[path[-1]]

    def _kept(self, where: KeyPath, length: int) -> list[int]:
        return self.origins.setdefault(where, list(range(length)))

    def _at(self, path: KeyPath) -> object:
        value: object = self.data
        for part in path:
            if isinstance(value, dict) or (isinstance(value, list) and isinstance(part, int)):
                value = value[part]  # type: ignore[index]
            else:
                return None
        return value

    def _original(self, path: KeyPath) -> KeyPath:
        return Checked[BaseModel](_NOWHERE, None, origins=self.origins).original(path)


_NOWHERE = Document(file=Path(), data=None, lines={})


def _deepest_last_first(path: KeyPath) -> tuple[int, list[tuple[bool, float, str]]]:
    parts = [(isinstance(p, int), -p if isinstance(p, int) else 0.0, str(p)) for p in path]
    return (-len(path), parts)


Rule = Callable[[Checked[M]], list[Finding]]
