"""Each key of a site is set to more than its default in a site of the golden record."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pydantic import BaseModel

from appliance.config.document import read
from appliance.models.base import Model
from appliance.models.site import Site
from tests.golden.record import SITES
from tools.published.keys import inner_of, rows

PLACE = re.compile(r"^(?!secrets\.).*\.(file|env|vault)$")
"""Where a secret is kept that stands with what it opens: read as those of ``secrets`` are, by the same code."""

REFUSED = re.compile(r"^scheduler\.runai(\.|$)")
"""Keys of the other scheduler: these sites have KAI. tests/unit/stages/queues/test_runai_cli.py sets them."""


def set_keys(model: type[BaseModel], given: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Paths, as ``rows`` writes them, of all keys of a document whose value is not their default."""
    for name, value in given.items():
        info = next(i for n, i in model.model_fields.items() if (i.alias or n) == name)
        inner, suffix = inner_of(info.annotation)
        key = f"{prefix}{name}{suffix}"
        default = info.get_default(call_default_factory=True, validated_data={})
        if info.is_required() or str(value) != str(getattr(default, "value", default)):
            yield key
        if isinstance(inner, type) and issubclass(inner, Model):
            for part in _parts(value, suffix):
                yield from set_keys(inner, part, f"{key}.")


def _parts(value: Any, suffix: str) -> list[Any]:
    """What is at the bottom of lists and mappings."""
    if suffix.startswith("[]"):
        return [part for item in value for part in _parts(item, suffix[2:])]
    if suffix.startswith(".NAME"):
        return [part for item in value.values() for part in _parts(item, suffix[5:])]
    return [value]


def unset(documents: Iterator[Mapping[str, Any]]) -> list[str]:
    """Keys that no document sets to more than their default."""
    seen = {key for document in documents for key in set_keys(Site, document)}
    asked = (key for key, *_ in rows("site") if not PLACE.search(key) and not REFUSED.match(key))
    return [key for key in asked if key not in seen]


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> list[Mapping[str, Any]]:
    """The golden record's sites."""
    files = [write(tmp_path_factory.mktemp(name)) for name, write in SITES.items()]
    return [document for file in files if isinstance(document := read(file).data, dict)]


def test_each_key_of_a_site_is_set_to_more_than_its_default(
    documents: list[Mapping[str, Any]],
) -> None:
    assert unset(iter(documents)) == [], "set these in a site of tests/data/full_sites"


def test_a_key_that_stands_at_its_default_is_named(documents: list[Mapping[str, Any]]) -> None:
    usual = [
        {
            **document,
            "observe": {**document.get("observe", {}), "retention_days": 30},
            "access": {},
        }
        for document in documents
    ]
    known = unset(iter(documents))
    assert [key for key in unset(iter(usual)) if key not in known] == [
        *(f"access.{name}" for name in ("user", "port", "private_key", "known_hosts", "become")),
        "observe.retention_days",
    ]
