"""What the program makes of known sites is what it made before; where that shall change, the change is read and recorded."""

import json
from difflib import unified_diff
from pathlib import Path

import pytest

from tests.golden.compact import compact
from tests.golden.record import (
    BESIDE,
    DIFFERENCES,
    FULL,
    RECORD,
    SITES,
    at_work,
    difference,
    documents,
    full,
)
from tests.golden.sections import ELSE, LONG, OF, Sections, common_first, differences, text_of

MOST = 60


def changes(name: str, before: str, now: str) -> list[str]:
    return list(unified_diff(before.splitlines(), now.splitlines(), name, "now", lineterm="", n=1))


def told(changed: list[str]) -> str:
    return "\n".join(["if this is meant: make golden", *changed[:MOST]])


def test_nothing_changed_on_the_full_site_that_was_not_recorded() -> None:
    now = full()
    before = {file.name: file.read_text() for file in (RECORD / FULL).iterdir()}
    assert now.keys() == before.keys()
    changed = [line for file, text in now.items() for line in changes(file, before[file], text)]
    assert not changed, told(changed)


@pytest.mark.parametrize("name", BESIDE)
def test_a_site_differs_from_another_as_was_recorded(name: str) -> None:
    head, *_ = difference(name).splitlines()
    (before,) = (
        text.rstrip("\n") + "\n"
        for text in DIFFERENCES.read_text().split("\n\n##### ")
        for text in ["##### " + text.removeprefix("##### ")]
        if text.startswith(head)
    )
    changed = changes(name, before, difference(name))
    assert not changed, told(changed)


def test_every_site_is_recorded() -> None:
    assert {FULL, *BESIDE} == set(SITES)


@pytest.mark.parametrize("name", SITES)
def test_the_recorded_facts_hold_what_is_judged(name: str, tmp_path: Path) -> None:
    with at_work(name, tmp_path) as site:
        results = documents(site)["results"]
    assert {(one.id, one.host) for one in results if one.cause == "not read"} == set(), (
        "add what these checks read to tests/data/golden/facts, then: make golden"
    )


BEFORE: Sections = {
    f"base{OF}head": ["a", "b"],
    f"base{OF}gpu": ["a", *"123456"],
    f"slurm{OF}head": ["s"],
}


def test_a_difference_names_what_came_went_and_changed() -> None:
    now: Sections = {
        f"base{OF}head": ["a", "c"],
        f"base{OF}gpu": ["a"],
        f"base{OF}spare": ["a", "d"],
        f"gpu{OF}gpu": ["g"],
    }
    assert differences("files", BEFORE, now) == [
        "-== files: slurm",
        f"== files: base{OF}head",
        "-b",
        "+c",
        f"== files: base{OF}gpu",
        "-1",
        "-...",
        "-6",
        f"== files: base{OF}spare, beside head",
        "-b",
        "+d",
        f"+== files: gpu{OF}gpu",
        "+g",
    ]
    assert len("123456") > LONG
    assert differences("files", BEFORE, BEFORE) == []


def test_what_kinds_of_host_have_alike_stands_once() -> None:
    alike: Sections = {f"base{OF}head": ["a"], f"base{OF}gpu": ["a"], f"slurm{OF}gpu": ["b"]}
    assert text_of(alike) == f"== base{OF}head; gpu\na\n== slurm{OF}gpu\nb\n"
    now: Sections = {f"base{OF}head": ["c"], f"base{OF}gpu": ["c"]}
    before: Sections = {f"base{OF}head": ["a"], f"base{OF}gpu": ["a"]}
    assert differences("x", before, now) == [f"== x: base{OF}head; gpu", "-a", "+c"]


def test_variables_that_all_kinds_of_host_have_stand_first_and_once() -> None:
    given: Sections = {
        f"base{OF}head": ["a: {", ' "x": 1', "}", "b: 1"],
        f"base{OF}gpu": ["a: {", ' "x": 1', "}", "b: 2"],
        f"gpu{OF}gpu": ["c: 3"],
    }
    text = text_of(common_first(given))
    assert text.splitlines() == [
        *(f"== base{OF}head; gpu", "a: {", ' "x": 1', "}"),
        *(f"== base{OF}head{ELSE}", "b: 1"),
        *(f"== base{OF}gpu{ELSE}", "b: 2"),
        *(f"== gpu{OF}gpu", "c: 3"),
    ]


@pytest.mark.parametrize("value", [{}, [], {"a": [1, {"b": "ü" * 100}]}, ["x" * 50] * 3, None])
def test_compact_json_is_the_same_document_on_short_lines(value: object) -> None:
    text = compact(value, "key: ", 60)
    assert json.loads(text) == value
    assert all(len(line) < 60 or '"ü' in line for line in text.splitlines())
