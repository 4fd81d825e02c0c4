"""Reads YAML strictly into plain data, and keeps the line of every key."""

import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import yaml  # noqa: TID251  config is the door to YAML
from yaml.composer import Composer  # noqa: TID251
from yaml.resolver import Resolver  # noqa: TID251

from appliance.config.bounded_files import NoFile, TooLarge, read_bytes
from appliance.config.finding import Finding, InvalidConfig, KeyPath, dotted

MAX_BYTES = 1_000_000
MAX_DEPTH = 24
PLAIN = re.compile(r"[\n\x20-\x7e\xa1-\u167f\u2010-\u2027]*")
"""Texts on which PyYAML's two parsers agree: no tabs, and only ASCII spaces and line ends. (They also differ in where an
empty text begins.)"""
PREFIX = "tag:yaml.org,2002:"
HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories of characters that are not allowed in a value."""


@dataclass(frozen=True)
class Document:
    """One file's data (dict, list, str, int, float, bool, None) and the line of each key path.

    ``texts`` holds numbers as written: 1.30 is the number 1.3.
    """

    file: Path
    data: object
    lines: Mapping[KeyPath, int]
    texts: Mapping[KeyPath, str] = field(default_factory=dict)

    def line(self, path: KeyPath) -> int:
        """The line of ``path``, or of its closest existing ancestor."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def finding(self, path: KeyPath, message: str, remedy: str) -> Finding:
        """A problem at ``path`` of this file."""
        return Finding(self.file, self.line(path), dotted(path), message, remedy)


def text_of(document: Mapping[str, object]) -> str:
    """Plain data as YAML that ``read`` accepts; keys keep their order."""
    return yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True, width=120)


class _Refused(yaml.MarkedYAMLError):
    """A YAML feature that these files must not use."""


class _Composer(Composer, Resolver):
    """YAML 1.2's core types only: no ``yes``, no ``12:30`` in base 60, no dates, anchors or tags.

    In YAML 1.1, the MAC address 52:54:00:12:34:56 is the number 41188971296, hence the resolvers below.
    """

    yaml_implicit_resolvers = {}  # noqa: RUF012  PyYAML's own name for the table
    _depth = 0

    if TYPE_CHECKING:

        def peek_event(self) -> Any: ...

    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node | None:
        event = self.peek_event()
        if getattr(event, "anchor", None):
            raise _Refused(None, None, "anchors and aliases are not supported", event.start_mark)
        if getattr(event, "tag", None):
            raise _Refused(None, None, f"the tag {event.tag} is not supported", event.start_mark)
        if self._depth >= MAX_DEPTH:
            raise _Refused(None, None, f"nested deeper than {MAX_DEPTH} levels", event.start_mark)
        self._depth += 1
        try:
            return super().compose_node(parent, index)  # type: ignore[arg-type]
        finally:
            self._depth -= 1


class _Loader(_Composer, yaml.SafeLoader):
    """The pure Python parser, whose messages are known."""


for _name, _pattern, _first in (
    ("bool", r"^(true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("null", r"^(~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("int", r"^[-+]?[0-9]{1,18}$", "-+0123456789"),
    ("float", r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$", "-+.0123456789"),
):
    _Composer.add_implicit_resolver(PREFIX + _name, re.compile(_pattern), list(_first))


def _quick_loader() -> Callable[[str], _Composer] | None:
    """The same with libyaml's parser, which takes a sixth of the time; None if PyYAML was built without it."""
    if not yaml.__with_libyaml__:
        return None

    class _QuickLoader(_Composer, yaml.CSafeLoader):
        def __init__(self, stream: str) -> None:
            yaml.CSafeLoader.__init__(self, stream)
            Composer.__init__(self)

    return _QuickLoader


_Quick = _quick_loader()


def read(file: Path) -> Document:
    """Parses one file. Raises InvalidConfig: unreadable, too large, not UTF-8, not YAML, a duplicate key."""
    return parse(_text(file), file)


def parse(text: str, file: Path) -> Document:
    """Parses text from ``file``. Raises InvalidConfig."""
    node = _quick(text) or compose(text, file)
    return built(node, file)


def built(node: yaml.Node | None, file: Path) -> Document:
    """The data of a text's nodes. Raises InvalidConfig."""
    if node is None:
        raise InvalidConfig(
            [
                Finding(
                    file,
                    0,
                    "",
                    "is empty",
                    "create a new site: appliance init DIR --count 4 --profile hpc",
                )
            ]
        )
    builder = _Builder(file)
    data = builder.build(node, ())
    if builder.findings:
        raise InvalidConfig(builder.findings)
    return Document(file, data, builder.lines, builder.texts)


def _quick(text: str) -> yaml.Node | None:
    """The nodes from libyaml; None passes the text to the Python parser, as for every refused text."""
    if _Quick is None or not PLAIN.fullmatch(text):
        return None
    try:
        node = _Quick(text).get_single_node()
    except yaml.YAMLError:
        return None
    return None if isinstance(node, yaml.ScalarNode) else node


def compose(text: str, file: Path) -> yaml.Node | None:
    """The nodes of a text with their positions. Raises InvalidConfig."""
    try:
        loader = _Loader(text)
        try:
            return loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise InvalidConfig([_syntax(file, text, error)]) from None


def _text(file: Path) -> str:
    try:
        raw = read_bytes(file, MAX_BYTES)
        text = raw.decode("utf-8-sig")
    except TooLarge:
        raise InvalidConfig(
            [
                Finding(
                    file, 0, "", "is larger than 1 MB", "name a profile or site; none is that large"
                )
            ]
        ) from None
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        remedy = "name a file" if isinstance(error, NoFile) else "check its owner and mode"
        raise InvalidConfig(
            [
                Finding(
                    file,
                    0,
                    "",
                    f"cannot be read ({error.strerror})",
                    "check the path" if missing else remedy,
                )
            ]
        ) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InvalidConfig(
            [Finding(file, line, "", "is not UTF-8 text", "save it as UTF-8")]
        ) from None
    return text


def _syntax(file: Path, text: str, error: yaml.YAMLError) -> Finding:
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return Finding(file, line, "", "contains a control character", "delete it")
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line = mark.line + 1 if mark else 0
    problem = " ".join(str(getattr(error, "problem", None) or error).split())
    if isinstance(error, _Refused):
        return Finding(file, line, "", problem, "write the value out")
    source = (text.splitlines() or [""])[min(line, len(text.splitlines())) - 1] if line else ""
    near = text.splitlines()[max(line - 2, 0) : line]
    if any("\N{NO-BREAK SPACE}" in one for one in near):
        return Finding(
            file,
            line,
            "",
            "contains a no-break space in this line or in the line above",
            "replace it with a plain space",
        )
    if "\t" in source:
        return Finding(file, line, "", "is indented with a tab", "indent with spaces")
    if "single document" in str(getattr(error, "context", "")):
        return Finding(
            file, line, "", "contains more than one document", "keep one document, without ---"
        )
    return Finding(
        file, line, "", f"is not valid YAML: {problem}", "check this line and the line above it"
    )


class _Builder:
    """Turns nodes into data, refuses duplicate keys, and records lines."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.lines: dict[KeyPath, int] = {}
        self.texts: dict[KeyPath, str] = {}
        self.findings: list[Finding] = []

    def build(self, node: yaml.Node, path: KeyPath) -> object:
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return {key: self.build(value, (*path, key)) for key, value in self._pairs(node, path)}
        if isinstance(node, yaml.SequenceNode):
            return [self.build(item, (*path, i)) for i, item in enumerate(node.value)]
        return self._scalar(cast(yaml.ScalarNode, node), path)

    def _pairs(self, node: yaml.MappingNode, path: KeyPath) -> Iterator[tuple[str, yaml.Node]]:
        for key_node, value in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self._add(
                    line,
                    path,
                    "a list or mapping cannot be a key",
                    "write a plain key before the colon",
                )
                continue
            where = (*path, str(key_node.value))
            if where in self.lines:
                self._add(
                    line, where, f"is given twice (also line {self.lines[where]})", "keep one"
                )
                continue
            self.lines[where] = line
            self._encodable(key_node, where)
            yield str(key_node.value), value

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> object:
        self._encodable(node, path)
        text = str(node.value)
        match node.tag.removeprefix(PREFIX):
            case "bool":
                return text.lower() == "true"
            case "null":
                return None
            case "int" | "float" as kind if math.isfinite(float(text)):
                self.texts[path] = text
                return int(text) if kind == "int" else float(text)
        return text

    def _encodable(self, node: yaml.ScalarNode, path: KeyPath) -> None:
        bad = next((c for c in str(node.value) if _unusable(c)), None)
        if bad is not None:
            message = f"contains the character U+{ord(bad):04X}, which is not allowed"
            self._add(node.start_mark.line + 1, path, message, "remove it")

    def _add(self, line: int, path: KeyPath, message: str, remedy: str) -> None:
        self.findings.append(Finding(self.file, line, dotted(path), message, remedy))


def _unusable(character: str) -> bool:
    """Invisible characters and those that reorder text: controls other than tab and line feed, marks of direction and of
    width (Unicode's Cf), other line ends, and surrogate halves."""
    return character not in "\t\n" and unicodedata.category(character) in HIDDEN
