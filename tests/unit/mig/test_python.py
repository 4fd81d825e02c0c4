"""Programs that hosts keep run on the oldest Python they promise, though nobody here has it as a rule."""

import ast
from pathlib import Path

import pytest

import appliance

ROOMS = ("probe", "mig", "limits", "watch")
HERE = Path(appliance.__file__).parent
SOURCES = sorted(path for room in ROOMS for path in (HERE / room).rglob("*.py"))
GENERIC = frozenset({"dict", "list", "set", "frozenset", "tuple", "type"})
METHODS = frozenset({"removeprefix", "removesuffix", "bit_count"})


class Run(ast.NodeVisitor):
    """What of a module is run: neither annotations nor what only type checkers read."""

    def __init__(self) -> None:
        self.newer: list[str] = []

    def visit_If(self, node: ast.If) -> None:
        parts = [] if ast.unparse(node.test) == "TYPE_CHECKING" else node.body
        for part in [node.test, *parts, *node.orelse]:
            self.visit(part)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value:
            self.visit(node.value)

    def visit_arguments(self, node: ast.arguments) -> None:
        for default in [*node.defaults, *(d for d in node.kw_defaults if d)]:
            self.visit(default)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for part in [*node.decorator_list, node.args, *node.body]:
            self.visit(part)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.value, ast.Name) and node.value.id in GENERIC:
            self.newer.append(ast.unparse(node))
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in METHODS:
            self.newer.append(node.attr)
        self.generic_visit(node)


def newer(source: str) -> list[str]:
    run = Run()
    run.visit(ast.parse(source, feature_version=(3, 8)))
    return run.newer


@pytest.mark.parametrize("path", SOURCES, ids=[str(p.relative_to(HERE)) for p in SOURCES])
def test_nothing_is_run_that_python_3_8_lacks(path: Path) -> None:
    # What packs them runs on the control host.
    assert path.name == "bundle.py" or newer(path.read_text()) == []


def test_what_is_newer_is_found_where_it_is_run() -> None:
    assert newer("found = dict[int, str]()") == ["dict[int, str]"]
    assert newer("def f(a: list[str] = list[str]()) -> None:\n    a[0].removeprefix('x')") == [
        "list[str]",
        "removeprefix",
    ]
    assert newer("if TYPE_CHECKING:\n    A = list[str]\ndef f(a: list[str]) -> set[int]: ...") == []
