"""Fields of a Redfish document: each of its type or missing, whatever the vendor wrote."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeVar

from appliance.adapters.redfish import Document
from appliance.models.bmc import Condition, Part

P = TypeVar("P", bound=Part)

LARGEST = 2**62
ABSENT = "Absent"
"""Status.State of an empty slot or bay (Redfish Resource)."""
GENERIC = frozenset({"Software Inventory", "Processor", "Processors", "DRAM"})
"""Names that some vendors give to all parts of a kind."""


def section(document: Document, *keys: str) -> Document:
    """The object at the end of these keys; empty if there is none."""
    found: object = document
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def text(document: Document, *keys: str) -> str:
    """The first of these fields that is a non-empty text."""
    values = (document.get(key) for key in keys)
    return next((v.strip() for v in values if isinstance(v, str) and v.strip()), "")


def whole(document: Document, *keys: str) -> int | None:
    """The first of these fields that is a count; vendors write some as text ("32") or fractions (32.0)."""
    for key in keys:
        found = real({key: document.get(key)}, key)
        if found is not None and 0 <= found <= LARGEST:
            return int(found)
    return None


def real(document: Document, key: str) -> float | None:
    """The field as a number."""
    value = document.get(key)
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and abs(value) <= LARGEST else None


def truth(document: Document, key: str) -> bool | None:
    """The field as a boolean."""
    value = document.get(key)
    return value if isinstance(value, bool) else None


def condition(document: Document) -> Condition:
    """Status.Health; HealthRollup of the part if the BMC reports it."""
    return condition_of(text(section(document, "Status"), "HealthRollup", "Health"))


def condition_of(word: str) -> Condition:
    """One of the three values of the schema; anything else is unknown."""
    return next((c for c in Condition if c and c.lower() == word.lower()), Condition.UNKNOWN)


def is_absent(document: Document) -> bool:
    """Whether the slot or bay is empty."""
    return text(section(document, "Status"), "State") == ABSENT


def identity(document: Document) -> str:
    """What distinguishes a part: a name within its collection, or a number in older lists."""
    number = whole(document, "MemberId", "Id")
    return text(document, "Id", "MemberId") or ("" if number is None else str(number))


def named_fields(document: Document, *keys: str) -> dict[str, str]:
    """Name and id of a part, next to its model."""
    name, own = text(document, *(keys or ("Name",))), identity(document)
    return {"name": own or name if name in GENERIC else name or own or "unnamed", "id": own}


def distinct(parts: Iterable[P]) -> tuple[P, ...]:
    """The same; if several parts have the same name, with the id appended."""
    found = list(parts)
    counts = Counter(part.name for part in found)
    return tuple(
        part.model_copy(update={"name": f"{part.name} {part.id}"})
        if counts[part.name] > 1 and part.id
        else part
        for part in found
    )


def link(document: Document, *keys: str) -> str:
    """The path of the object at the end of these keys; "" if it is not a link."""
    return text(section(document, *keys), "@odata.id")


def objects(document: Document, key: str) -> Iterator[Document]:
    """The objects of a list; other values are skipped."""
    found = document.get(key)
    yield from (item for item in found if isinstance(item, dict)) if isinstance(found, list) else ()


def links(document: Document, key: str) -> list[str]:
    """The links of a list."""
    return [at for item in objects(document, key) if (at := text(item, "@odata.id"))]
