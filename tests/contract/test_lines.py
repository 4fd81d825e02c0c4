"""Programs that run on hosts end lines at newlines alone.

Text of the kernel, of programs and of users has names in it that users give. str.splitlines and files in text mode also end a
line at a carriage return, str.splitlines at a form feed, U+0085 and U+2028, too: such a name would write lines of its own.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COLLECTION = "playbooks/collections/ansible_collections/appliance/host/plugins"
ON_HOSTS = sorted(
    file
    for pattern in (
        *(f"appliance/{part}/**/*.py" for part in ("probe", "watch", "mig", "limits")),
        *("appliance/stages/*/collect.py", "appliance/stages/*/collect/*.py"),
        f"{COLLECTION}/**/*.py",
        *("roles/*/files/**/*.py", "roles/*/files/**/appliance-*"),
    )
    for file in ROOT.glob(pattern)
    if file.is_file() and (file.suffix == ".py" or b"python" in file.read_bytes()[:30])
)
OF_CONTROL = (
    "it reads root's files of a control host, and what kubeadm, openssl and etcdctl say of these"
)
ALLOWED = {
    f"roles/kubernetes/files/usr/local/sbin/{name}": OF_CONTROL
    for name in ("appliance-certificates", "appliance-etcd", "appliance-etcd-restore")
}
"""By file, and why nobody but root writes what it splits otherwise."""


def _texts(tree: ast.AST) -> set[str]:
    """Names of files that are open as text."""
    return {
        item.optional_vars.id
        for node in ast.walk(tree)
        if isinstance(node, ast.With)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name)
        and isinstance(item.context_expr, ast.Call)
        and ast.unparse(item.context_expr.func) == "open"
        and not any(
            isinstance(mode, ast.Constant) and "b" in str(mode.value)
            for mode in (
                *item.context_expr.args[1:2],
                *(k.value for k in item.context_expr.keywords if k.arg == "mode"),
            )
        )
    }


def splits(tree: ast.AST) -> Iterator[str]:
    """What ends lines at more than newlines."""
    texts = _texts(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="splitlines" | "readlines" | "readline" as name)):
                yield f"line {node.lineno}: {name}; lines_of ends lines at newlines"
            case ast.Call() if any(
                k.arg in {"text", "universal_newlines"} and ast.unparse(k.value) == "True"
                for k in node.keywords
            ) and "run" in ast.unparse(node.func):
                yield f"line {node.lineno}: text=True; take bytes, or name encoding and errors"
            case ast.For(iter=ast.Name(id=name)) | ast.comprehension(iter=ast.Name(id=name)) if (
                name in texts
            ):
                yield f"line {node.iter.lineno}: lines of a file in text mode; open it with rb"


@pytest.mark.parametrize(
    ("source", "is_told"),
    [
        ("text.splitlines()", True),
        ("text.splitlines(keepends=True)", True),
        ("file.readlines()", True),
        ("subprocess.run(argv, text=True)", True),
        ("with open(x) as file:\n    for line in file: pass", True),
        ("with open(x, encoding='utf-8') as file:\n    y = [line for line in file]", True),
        ("with open(x, 'rb') as file:\n    for line in file: pass", False),
        ("lines_of(text)", False),
        ("text.split('\\n')", False),
        ("for line in lines: pass", False),
    ],
)
def test_what_splits_at_more_is_found(source: str, *, is_told: bool) -> None:
    assert bool([*splits(ast.parse(source))]) is is_told


def test_the_programs_are_there() -> None:
    names = {str(file.relative_to(ROOT)) for file in ON_HOSTS}
    assert {"appliance/probe/mounts.py", f"{COLLECTION}/module_utils/resources/live.py"} < names
    assert "roles/slurm/files/usr/local/libexec/appliance/job_places.py" in names
    assert set(ALLOWED) <= names


def test_programs_on_hosts_end_lines_at_newlines_alone() -> None:
    found = [
        f"{name}: {said}"
        for file in ON_HOSTS
        if (name := str(file.relative_to(ROOT))) not in ALLOWED
        for said in splits(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert not found, "\n".join(found)
