"""Documents, messages and docstrings use the words of docs/glossary.md, in short sentences. The numbers are maxima: lower them as texts improve."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", *sorted(f"docs/{p.name}" for p in ROOT.glob("docs/*.md")))  # fmt: skip
LONGEST = 25
"""Words in a sentence."""
LONG_SENTENCES = 185

COINED = {
    r"strangers?": (1, 0),
    r"(?:no|some|any)body(?:'s)?": (1, 0),
    r"anew": (0, 0),
    r"mend(?:s|ed|ing)?": (0, 0),
    r"beside": (0, 0),
    r"(?:is|are|was|were|be|been) (?:told|asked)": (0, 0),
    r"tells?|telling": (1, 0),
    r"says?|said": (0, 0),
    r"sp(?:eaks?|oke|oken) of": (0, 0),
    r"another than": (0, 0),
    r"(?:stands?|lies?) (?:in|at|on|there|beside|within)": (0, 0),
    r"makers?": (1, 0),
    r"goes on|go on": (0, 0),
    r"management controllers?": (3, 1),
    r"in place of": (0, 0),
    r"where (?:it|they|the|a|there) (?:is|are|has|have|does|do|can)": (0, 0),
    r"takes? away|taken away": (0, 0),
    r"(?:take|takes|taken) (?:it|them|\w+) out": (0, 0),
    r"(?:be|was|were) had": (0, 0),
    r"hangs? on": (0, 0),
    r"red ink": (0, 0),
    r"no more than": (0, 0),
    r"(?:is|are|was|were) none of": (0, 0),
    r"(?:is|are) meant so": (0, 0),
    r"(?:is|are) gone": (0, 0),
    r"for (?:it|they|no|none|what) (?:is|are|has|have|does|can|was|would)": (0, 0),
    r"a person's": (0, 0),
    r"whoever": (0, 0),
    r"doctored": (0, 0),  # falsified
    r"made[ -]up": (0, 0),  # invented
    r"ends? well": (0, 0),  # succeeds
    r"in force": (0, 0),  # enabled, active
    r"stays? shut": (0, 0),  # stays closed
    r"puts? back": (0, 0),  # restores
    r"any more": (0, 0),  # no longer
    r"save for|but for": (0, 0),  # except
    r"held against": (0, 0),  # compared with
    r"reckon(?:s|ed)?": (0, 0),  # calculates
    r"lets? go": (0, 0),  # releases, drops
    r"as (?:it|they) (?:is|are) typed": (0, 0),  # exactly as typed
    r"for want of": (0, 0),  # without, because there is no
    r"looked at": (0, 0),  # examined
    r"a look": (0, 0),  # a check, a run
    r"takes? for|taken for": (0, 0),  # treats as, counts as
    r"come(?:s)? of": (0, 0),  # is caused by
    r"at work": (1, 0),  # active, running
    r"honest": (0, 0),  # legitimate, correct
}
"""By pattern: its maximum in documents and in strings of the program."""

DOCSTRINGS = {"acceptance": 0, "adapters": 2, "benchmarks": 11, "lab": 3}
"""By package of appliance/: the maximum of all patterns together in its docstrings and comments."""

CODE = re.compile(r"^( *)```.*?^\1```", re.M | re.S)
COMMENT = re.compile(r"<!--.*?-->", re.S)
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z*`\"])")
BLOCK = re.compile(r"^\s*(?:[-*]|\d+\.|#+|>)\s+", re.M)
LONG_TEXT = re.compile(r'"""(?:[^\\]|\\.)*?"""', re.S)
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
PLACEHOLDER = re.compile(r"\{[^{}]*\}")


def prose(markdown: str) -> str:
    """The text of a page without code, comments and addresses."""
    text = LINK.sub(r"\1", COMMENT.sub("", CODE.sub("\n", markdown)))
    return re.sub(r"`[^`\n]*`", "CODE", text)


def sentences(markdown: str) -> Iterator[str]:
    """The sentences of a page; a table's cell and a list's item end one."""
    for line in BLOCK.sub("\n\n", prose(markdown)).replace("|", "\n\n").split("\n\n"):
        yield from (s.strip() for s in END.split(" ".join(line.split())) if s.strip())


def messages(source: str) -> Iterator[str]:
    """String literals of several words in a module, except docstrings."""
    for found in LITERAL.finditer(LONG_TEXT.sub("", source)):
        text = PLACEHOLDER.sub("X", found.group(1))
        if text.count(" ") > 1:
            yield text


def remarks(source: str) -> Iterator[str]:
    """Docstrings and comments of a module, and the strings that describe its constants."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield text


@cache
def texts() -> tuple[dict[str, str], dict[str, str]]:
    """The documents' prose and the program's messages, by path."""
    pages = {name: prose((ROOT / name).read_text(encoding="utf-8")) for name in DOCUMENTS}
    modules = sorted((ROOT / "appliance").rglob("*.py"))
    strings = {
        str(file.relative_to(ROOT)): "\n".join(messages(file.read_text(encoding="utf-8")))
        for file in modules
    }
    return pages, strings


def uses(pattern: str, of: dict[str, str]) -> list[str]:
    """Where a pattern stands as words of their own, with the words around it."""
    found = re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])", re.I)
    return [
        f"{name}: {text[max(0, m.start() - 40) : m.end() + 40]!r}"
        for name, text in of.items()
        for m in found.finditer(text)
    ]


def long_sentences() -> list[str]:
    """Sentences of the documents with more than ``LONGEST`` words."""
    pages = {name: (ROOT / name).read_text(encoding="utf-8") for name in DOCUMENTS}
    return [
        f"{name}: {sentence}"
        for name, text in pages.items()
        for sentence in sentences(text)
        if len(sentence.split()) > LONGEST
    ]


@pytest.mark.parametrize("pattern", COINED)
def test_coined_words_become_no_more(pattern: str) -> None:
    for most, of in zip(COINED[pattern], texts(), strict=True):
        found = uses(pattern, of)
        assert len(found) <= most, found


@pytest.mark.parametrize("package", DOCSTRINGS)
def test_coined_words_become_no_more_in_docstrings(package: str) -> None:
    modules = {
        str(file.relative_to(ROOT)): "\n".join(remarks(file.read_text(encoding="utf-8")))
        for file in sorted((ROOT / "appliance" / package).rglob("*.py"))
    }
    found = [use for pattern in COINED for use in uses(pattern, modules)]
    assert modules
    assert len(found) <= DOCSTRINGS[package], found


def test_long_sentences_become_no_more() -> None:
    assert len(long_sentences()) <= LONG_SENTENCES


def test_a_coined_word_is_found_as_a_word_of_its_own() -> None:
    assert len(uses("beside", {"a": "Kubernetes beside it. Besides, beside-x."})) == 1


def test_a_sentence_ends_at_its_point_cell_or_item() -> None:
    page = "# Title\n\nOne two. Three `a b. C`:\n- four\n- five\n\n| six | seven |\n```\ncode. Code\n```\n"
    assert list(sentences(page)) == [
        "Title",
        "One two.",
        "Three CODE:",
        "four",
        "five",
        "six",
        "seven",
    ]


def test_messages_are_literals_of_words_without_docstrings() -> None:
    source = 'x = f"disk {name} is full"\n"""A docstring that is long."""\ny = "short one"\n'
    assert list(messages(source)) == ["disk X is full"]


def test_remarks_are_docstrings_and_comments_but_no_other_strings() -> None:
    source = 'def run():\n    """Says it."""\n    # A comment.\n    return """not this"""\n'
    assert sorted(remarks(source)) == ["# A comment.", "Says it."]
