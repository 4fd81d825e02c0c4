"""What the pages tell people to type is there to be typed: verbs, their flags, tests, make's targets, pages."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from appliance.cli.main import cli

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        ROOT / "SECURITY.md",
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("roles/*/README.md"),
    ]
)
SPAN = re.compile(r"`([^`\n]+)`")
BLOCK = re.compile(r"^```[a-z]*\n(.*?)^```", re.M | re.S)
VERB = re.compile(r"(?:^|(?<=[\s;&|(]))appliance(?= +[a-z])")
END = re.compile(r"\s#|  +(?=[A-Za-z(])|[;&|<>]|,? then |: |, | and | or |\s\($")
WORD = re.compile(r"[a-z][a-z0-9_]*")
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def typed(page: Path) -> Iterator[str]:
    """Every line of code of a page, inline or in blocks."""
    text = page.read_text()
    for block in BLOCK.findall(text):
        yield from block.splitlines()
    yield from SPAN.findall(BLOCK.sub("", text))


def commands(page: Path) -> Iterator[list[str]]:
    """The words behind ``appliance`` of each command; examples end where their explanation begins."""
    for line in typed(page):
        for found in VERB.finditer(line):
            rest = line[found.end() :].strip()
            end = END.search(rest)
            yield rest[: end.start() if end else None].split()


def fault(words: list[str]) -> str:
    """What of a command the program does not have."""
    command: click.Command = cli
    given = words[: words.index("--") if "--" in words else None]
    for before, word in zip(["", *given], given, strict=False):
        if isinstance(command, click.Group) and not word.startswith("-"):
            if not re.fullmatch(r"[a-z][a-z-]*", word):
                return ""
            context = click.Context(command)
            found = command.get_command(context, word)
            if found is None and before.startswith("--") and command.invoke_without_command:
                continue
            if found is None:
                return f"no command {word}"
            command = found
        elif word.startswith("--"):
            options = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
            flag = word.partition("=")[0].rstrip(").,:")
            if flag not in {*options, "--help"}:
                return f"no option {flag}"
    return ""


@each_page
def test_every_command_a_page_names_exists_with_its_flags(page: Path) -> None:
    wrong = [f"appliance {' '.join(w)}: {said}" for w in commands(page) if (said := fault(w))]
    assert wrong == []


@each_page
def test_every_make_target_a_page_names_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = {m for line in typed(page) for m in re.findall(r"^make ([a-z-]+)", line)}
    assert named <= targets


@each_page
def test_every_page_another_links_to_exists(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("start", ["README.md", "docs/index.md"])
def test_both_first_pages_lead_to_every_page(start: str) -> None:
    page = ROOT / start
    links = {link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text())}
    led = {(page.parent / link).resolve() for link in links}
    missed = [p.name for p in sorted(ROOT.glob("docs/*.md")) if p != page and p not in led]
    assert missed == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["plan", "--hosts", "gpu-1"], ""),
        (["lab", "shell", "head", "--", "srun", "--gres=gpu:8"], ""),
        (["plans"], "no command plans"),
        (["queue", "remove"], "no command remove"),
        (["plan", "--host"], "no option --host"),
        (["validate", "--site", "x", "fio", "--nodse"], "no option --nodse"),
        (["validate", "nothing"], "no command nothing"),
    ],
)
def test_what_the_program_does_not_have_is_named(words: list[str], said: str) -> None:
    assert fault(words) == said
    assert sum(len(list(commands(page))) for page in PAGES) > 100


def invocations() -> list[str]:
    """Every call of pytest in the table of what was shown."""
    table = (ROOT / "docs/reality.md").read_text()
    return sorted({span for span in SPAN.findall(table) if span.startswith("pytest ")})


@pytest.mark.parametrize("invocation", invocations())
def test_every_test_the_table_of_what_was_shown_names_is_there(invocation: str) -> None:
    words = shlex.split(invocation)[1:]
    paths = [ROOT / word for word in words if word.startswith("tests")]
    assert [str(path) for path in paths if not path.exists()] == []
    files = [f for path in paths or [ROOT / "tests"] for f in _tests(path)]
    texts = {file: f"{file.name} {file.read_text()}" for file in files}
    assert files
    if "-m" in words:
        marker = words[words.index("-m") + 1]
        marked = rf"pytest\.mark\.{marker}\b"
        assert any(re.search(marked, text) for text in texts.values())
    if "-k" in words:
        asked = set(WORD.findall(words[words.index("-k") + 1])) - {"and", "or", "not"}
        known = " ".join(_names(file, text) for file, text in texts.items())
        if "molecule" in words:
            known += " ".join(path.name for path in ROOT.glob("roles/*"))
        assert [word for word in asked if word not in known] == []


def test_every_file_of_tests_the_table_names_is_there() -> None:
    table = (ROOT / "docs/reality.md").read_text()
    named = set(re.findall(r"\btests/[A-Za-z0-9_./-]*[A-Za-z0-9_/]", table))
    assert named
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def _tests(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.rglob("test_*.py"))


def _names(file: Path, text: str) -> str:
    """What -k looks at, roughly: names of files, functions and cases."""
    return " ".join(
        [file.stem, *re.findall(r"def (test_\w+)", text), *re.findall(r'"([\w -]+)"', text)]
    )
