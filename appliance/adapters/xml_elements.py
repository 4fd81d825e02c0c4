"""XML written by another machine: a tree of elements, or refused in one line.

A document type is refused, and with it every entity and external reference. The cost of a document is bounded by its
size (by its reader), its depth and its number of elements. So the interpreter's own expat suffices.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from appliance.text import quoted

DEEPEST = 16
MOST = 200_000


@dataclass
class Element:
    """``text``: its own characters, without its children's."""

    tag: str
    attributes: dict[str, str]
    text: str = ""
    children: list["Element"] = field(default_factory=list)

    def named(self, tag: str) -> Iterator["Element"]:
        """Its children of that name."""
        return (child for child in self.children if child.tag == tag)


def root(text: str) -> Element:
    """The outermost element. Raises ValueError with one short line for anything that is not XML, or exceeds a report's needs."""
    tree = _Tree()
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _no_document_type
    parser.StartElementHandler = tree.start
    parser.EndElementHandler = tree.end
    parser.CharacterDataHandler = tree.characters
    try:
        parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        raise ValueError(f"it is not XML: {error}") from None
    return tree.top.children[0]


class _Tree:
    """What the parser has seen."""

    def __init__(self) -> None:
        self.top = Element("", {})
        self._open = [self.top]
        self._said: list[list[str]] = [[]]
        self._met = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._met += 1
        if len(self._open) > DEEPEST:
            raise ValueError(f"it is nested deeper than {DEEPEST} elements")
        if self._met > MOST:
            raise ValueError(f"it has more than {MOST} elements")
        element = Element(tag, attributes)
        self._open[-1].children.append(element)
        self._open.append(element)
        self._said.append([])

    def end(self, tag: str) -> None:
        self._open.pop().text = "".join(self._said.pop())

    def characters(self, text: str) -> None:
        self._said[-1].append(text)


def _no_document_type(name: str, *more: object) -> NoReturn:
    raise ValueError(f"it declares a document type ({quoted(name)}), which reports never do")
