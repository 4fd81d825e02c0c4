"""The output of ``dcgmi diag -j``: different documents of DCGM 3.x and 4.x, as one list of tests and GPUs."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import Field, field_validator

from appliance.benchmarks.reading import Foreign, Unread, document, shaped
from appliance.text import one_line, shortened

ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
"""Root elements of 4.x and of 3.x. If a 4.x finds nothing to run, it prints the older one, too (seen in 4.2.3)."""
TEXT = 300
GPU = "GPU"
NUMBER = re.compile(r"[0-9]{1,4}")


class Word(StrEnum):
    """A test's verdict. ``unknown``: a word of a release to come, which is no pass."""

    PASS = "pass"
    FAIL = "fail"
    WARN = "warn"
    SKIP = "skip"
    NOT_RUN = "not run"
    UNKNOWN = "unknown"


class Result(Foreign):
    """One verdict. 3.x names GPUs, one or all of them, 4.x an entity of a group. ``warnings``: texts, or errors with numbers."""

    status: str = Field(max_length=64)
    gpu_ids: str | int | None = None
    entity_group: str | None = Field(default=None, max_length=64)
    entity_id: int | None = None
    warnings: Any = None
    info: Any = None


class Test(Foreign):
    """One test. 4.x summarises results of other components in ``test_summary``."""

    name: str = Field(max_length=128)
    results: tuple[Result, ...] = Field(default=(), max_length=4096)
    test_summary: Result | None = None

    @field_validator("results", mode="before")
    @classmethod
    def _whole(cls, given: Any) -> Any:
        return () if given is None else given


class Category(Foreign):
    """Tests of a kind. 3.x leaves null between them."""

    category: str = Field(default="", max_length=128)
    tests: tuple[Test | None, ...] = Field(default=(), max_length=256)


class Diagnostic(Foreign):
    """The content of the root element."""

    test_categories: tuple[Category, ...] = Field(default=(), max_length=64)
    version: str | None = Field(default=None, max_length=64)
    runtime_error: str | None = Field(default=None, max_length=4096)


class Anything(Foreign):
    """The document itself, whichever root it has."""

    model_config = Foreign.model_config | {"extra": "allow"}


@dataclass(frozen=True)
class Verdict:
    """A test on one GPU, or on several components (``gpu`` None). ``said``: warnings or information, one line.

    ``of``: the GPUs that it names; empty for a processor or a switch, or for a summary.
    """

    test: str
    gpu: int | None
    word: Word
    said: str
    of: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Report:
    """All verdicts. ``version``: DCGM's, "" if the document has none."""

    version: str
    verdicts: tuple[Verdict, ...]


def read(output: str) -> Report:
    """Raises Unread if there is no document, or if it contains no test."""
    found = document(Anything, output).model_extra or {}
    if all(name in found for name in ROOTS):
        raise Unread("it contains two diagnostics, of DCGM 3 and of 4")
    root = next((name for name in ROOTS if name in found), None)
    if root is None:
        raise Unread(f"it contains neither {ROOTS[0]} nor {ROOTS[1]}")
    body = shaped(Diagnostic, found[root])
    if body.runtime_error:
        raise Unread(f"DCGM could not run: {shortened(one_line(body.runtime_error), TEXT)}")
    verdicts = tuple(_verdicts(body))
    if not verdicts:
        raise Unread("it contains no test")
    return Report(body.version or _version(found), verdicts)


def _version(found: Mapping[str, Any]) -> str:
    metadata = found.get("metadata")
    version = metadata.get("version") if isinstance(metadata, dict) else None
    return shortened(one_line(str(version)), 40) if version else ""


def _verdicts(body: Diagnostic) -> Iterator[Verdict]:
    for category in body.test_categories:
        for test in filter(None, category.tests):
            name = shortened(one_line(test.name), 60)
            for result in test.results:
                of = _gpus(result)
                gpu = next(iter(of)) if len(of) == 1 else None
                yield Verdict(name, gpu, _verdict(result), _result_text(result), of)
            whole = test.test_summary
            if whole and (not test.results or _unsaid(whole, test.results)):
                yield Verdict(name, None, _verdict(whole), _result_text(whole))


def _verdict(result: Result) -> Word:
    """A pass with a warning is not a pass: the subject of the warning was not tested, or only in part (DCGM#284)."""
    word = _word(result.status)
    return Word.WARN if word is Word.PASS and any(_texts(result.warnings)) else word


def _unsaid(whole: Result, results: tuple[Result, ...]) -> bool:
    """Whether a summary has a warning that no result has."""
    return any(_texts(whole.warnings)) and not any(
        text for result in results for text in _texts(result.warnings)
    )


def _gpus(result: Result) -> frozenset[int]:
    """The GPUs of a test, "0,1" in 3.x; empty for components that are not GPUs: a processor, a switch."""
    if result.entity_id is not None:
        return frozenset({result.entity_id} if result.entity_group in {None, GPU} else ())
    words = [] if result.gpu_ids is None else str(result.gpu_ids).split(",")
    return frozenset(int(word) for word in words if NUMBER.fullmatch(word.strip()))


def _word(status: str) -> Word:
    """Parses the states of 3.x and 4.x, ignoring the case."""
    words = {
        "pass": Word.PASS,
        "fail": Word.FAIL,
        "warn": Word.WARN,
        "skip": Word.SKIP,
        "skipped": Word.SKIP,
        "not run": Word.NOT_RUN,
        "notrun": Word.NOT_RUN,
    }
    return words.get(" ".join(status.lower().split()), Word.UNKNOWN)


def _result_text(result: Result) -> str:
    return shortened("; ".join(_texts(result.warnings or result.info)), TEXT)


def _texts(found: Any) -> Iterator[str]:
    """Texts of warnings: one, a list of them, or of objects with "warning" and "error_id"."""
    match found:
        case str():
            if words := one_line(found):
                yield words
        case list():
            for one in found[:8]:
                yield from _texts(one)
        case dict():
            number = found.get("error_id")
            words = one_line(str(found.get("warning", "")))
            yield f"{words} (error {number})" if isinstance(number, int) else words
