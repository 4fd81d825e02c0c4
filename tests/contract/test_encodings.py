"""No file of text depends on the locale of whoever runs the program: each names its encoding."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((*ROOT.glob("appliance/**/*.py"), *ROOT.glob("boards/*.py")))
OTHERS = {"os", "tarfile", "gzip", "self._opener", "opener", "sandbox", "opened", "browser"}
"""Whose ``open`` opens no file of text."""


def unnamed(tree: ast.AST) -> Iterator[int]:
    """Lines of calls that leave the encoding to the locale."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or any(
            k.arg in {"encoding", None} for k in node.keywords
        ):
            continue
        of = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        name = ast.unparse(node.func).rpartition(".")[2]
        if name in {"write_text", "read_text"} and len(node.args) <= (name == "write_text"):
            yield node.lineno
        if name in {"open", "fdopen"} and not (name == "open" and of in OTHERS):
            given = [k.value for k in node.keywords if k.arg == "mode"]
            given += node.args[1:2] if name == "fdopen" or not of else node.args[:1]
            if not (given and "b" in ast.unparse(given[0])):
                yield node.lineno


@pytest.mark.parametrize(
    ("line", "is_unnamed"),
    [
        ("file.write_text(text)", True),
        ("file.read_text()", True),
        ("open(file)", True),
        ("file.open('w')", True),
        ("os.fdopen(number, 'w')", True),
        ("file.read_text('utf-8')", False),
        ("file.open('wb')", False),
        ("os.open(file, os.O_RDONLY)", False),
        ("file.write_text(text, encoding='utf-8')", False),
    ],
)
def test_the_rule_knows_what_it_looks_for(line: str, is_unnamed: bool) -> None:
    assert bool(list(unnamed(ast.parse(line)))) is is_unnamed


def test_every_file_of_text_names_its_encoding() -> None:
    found = {
        str(file.relative_to(ROOT)): lines
        for file in FILES
        if (lines := list(unnamed(ast.parse(file.read_text(encoding="utf-8")))))
    }
    assert found == {}
