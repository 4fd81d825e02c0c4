"""What hosts are asked is read by somebody: a fact that nothing reads costs every host at every look."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from appliance.models.facts import HostFacts

APPLIANCE = Path(__file__).parents[2] / "appliance"
ATTRIBUTE = re.compile(r"\.([a-z_0-9]+)\b")
UNREAD = {
    "HostFacts.cpu_seconds": "what a look costs the host: docs/benchmarks.md is written from it",
    "Demand.wishes": "written by the program that hosts keep, in which people read it",
}
"""Facts that no code reads, and why they are taken all the same."""


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Models of an annotation, within lists, mappings and choices."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


def facts(model: type[BaseModel], seen: set[type[BaseModel]]) -> Iterator[str]:
    """Every field below a model, as ``Gpu.power``."""
    seen.add(model)
    for name, info in model.model_fields.items():
        yield f"{model.__name__}.{name}"
        for inner in models_in(info.annotation):
            if inner not in seen:
                yield from facts(inner, seen)


def unread(sources: Iterable[str]) -> set[str]:
    """Facts whose name no source reads as an attribute."""
    read = {name for source in sources for name in ATTRIBUTE.findall(source)}
    return {fact for fact in facts(HostFacts, set()) if fact.split(".")[1] not in read}


def sources() -> list[str]:
    files = [file for kind in ("*.py", "*.j2") for file in APPLIANCE.rglob(kind)]
    return [file.read_text() for file in files]


def test_each_fact_is_read_by_a_check_a_role_or_the_report() -> None:
    assert unread(sources()) == set(UNREAD)


def test_a_fact_that_nothing_reads_is_named() -> None:
    without = [source.replace(".remap_pending", "") for source in sources()]
    assert unread(without) - set(UNREAD) == {"Gpu.remap_pending"}
