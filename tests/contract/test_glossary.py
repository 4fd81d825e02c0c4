"""The glossary is in order, and explains words the project uses."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs/glossary.md"
ENTRY = re.compile(r"^- \*\*([^*]+)\*\*: ", re.M)


def terms(text: str) -> list[str]:
    return ENTRY.findall(text)


@cache
def used() -> str:
    """All other pages, and all code, as text."""
    pages = (page for page in ROOT.glob("docs/*.md") if page != GLOSSARY)
    files = (ROOT / "README.md", *pages, *ROOT.glob("appliance/**/*.py"))
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def is_used(term: str, text: str) -> bool:
    return bool(re.search(rf"(?<![\w-]){re.escape(term)}(?![\w-])", text, re.I))


def test_terms_are_sorted_and_stand_once() -> None:
    found = terms(GLOSSARY.read_text())
    assert len(found) > 30
    assert found == sorted(set(found), key=str.casefold)
    assert GLOSSARY.read_text().count("\n- ") == len(found)


def test_every_term_is_used_elsewhere() -> None:
    assert [term for term in terms(GLOSSARY.read_text()) if not is_used(term, used())] == []


@pytest.mark.parametrize(("term", "found"), [("drift", True), ("drif", False), ("ladder", False)])
def test_a_term_is_found_as_a_word_alone(term: str, found: bool) -> None:
    assert is_used(term, "The plan names Drift.") is found
