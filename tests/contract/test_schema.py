"""Every text of profile, site and image lock has a pattern or says why not, and everything in them has an end."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from appliance.config.validation_messages import PATTERNS
from appliance.models import site, text_types
from appliance.models.base import Model
from appliance.models.images import ImageLock
from appliance.models.profile import Profile
from appliance.models.site import Site

MODELS: dict[str, type[Model]] = {"profile": Profile, "site": Site, "lock": ImageLock}
JUDGED_BY_RULES = {
    "limits.NAME.value": "a number in the check's range or one of its words: config/rules/limits.py",
    "base.admins[].keys[]": "decoded as a whole, and shown in no message: config/public_key.py",
    "base.users[].keys[]": "as those of admins",
    "backup.recipient": "a private key is never quoted: stages/backup/rules.py",
    "workloads.jupyter.config.NAME.NAME": "any setting of JupyterHub: stages/workloads/rules.py",
}
"""Texts and numbers the schema leaves open, and what judges them."""
HOSTILE = (
    "a\n",
    "a\nb",
    "a\0",
    "a\x1b[2J",
    "a\u202eb",
    "a{{ b }}",
    "a{% raw",
    "a$(id)",
    "a`id`",
    "a;id",
    "a|id",
    "a&id",
    "a>b",
    "a'b",
    'a"b',
    "a\\b",
    "-oProxyCommand=id",
    "",
    " ",
    "\uff41",
    "\u0661\u0662",
    "a" * 20_000,
)
"""What would be more than a name to a shell, a template, a file of settings or a terminal."""

OTHER_SCRIPTS = {"\uff41", "\u0661\u0662"}
TAKEN = {
    # Nothing is made of a line but lines of a report, whose writers escape it.
    text_types.LINE: {t for t in HOSTILE if len(t) < 100 and not set(t) & set("\0\n\x1b\u202e{")},
    # Whoever writes the site names files of this machine as they are called.
    text_types.FILE: OTHER_SCRIPTS,
    text_types.PROFILE: OTHER_SCRIPTS,
    # Key and known_hosts reach ssh by a name of ours in the run's private folder, never by their own.
    site.FILE_PATH: {t for t in HOSTILE if len(t) < 1000 and not set(t) & set("\0\n\x1b")},
    # Switches call themselves "MF0;leaf-1:MQM8700/U1"; they are compared, and written nowhere.
    text_types.SWITCH: {"a;id"},
    text_types.UNIT: {""},
    text_types.DATE: {""},
}
"""What a pattern takes of that all the same, and why it does no harm."""

Node = dict[str, Any]


def walk(node: Node, defs: dict[str, Node], at: str = "") -> Iterator[tuple[str, Node]]:
    """Every value of a schema by the path people write, names of mappings as NAME (and its key as NAME~)."""
    node = defs[node["$ref"].rpartition("/")[2]] if "$ref" in node else node
    for option in (o for o in node.get("anyOf", ()) if o.get("type") != "null"):
        yield from walk(option, defs, at)
    if "type" in node or "anyOf" not in node:
        yield at, node
    for name, inner in node.get("properties", {}).items():
        yield from walk(inner, defs, f"{at}.{name}" if at else name)
    for pattern, inner in node.get("patternProperties", {}).items():
        yield f"{at}.NAME~", {"type": "string", "pattern": pattern}
        yield from walk(inner, defs, f"{at}.NAME")
    if "items" in node:
        yield from walk(node["items"], defs, f"{at}[]")


@cache
def values(kind: str) -> list[tuple[str, Node]]:
    schema = MODELS[kind].model_json_schema()
    return [
        (at, node)
        for at, node in walk(schema, schema.get("$defs", {}))
        if at not in JUDGED_BY_RULES and "const" not in node
    ]


def widest(pattern: str) -> int:
    """Characters the longest text of a pattern has."""
    return int(re._parser.parse(pattern).getwidth()[1])  # type: ignore[attr-defined]


def values_of_texts(kind: str) -> list[tuple[str, Node]]:
    return [(at, n) for at, n in values(kind) if n.get("type") == "string" and "enum" not in n]


each_kind = pytest.mark.parametrize("kind", MODELS)


@each_kind
def test_every_text_has_a_pattern_or_a_format(kind: str) -> None:
    assert [at for at, node in values_of_texts(kind) if not {"pattern", "format"} & set(node)] == []


@each_kind
def test_nothing_is_of_any_type(kind: str) -> None:
    assert [at for at, node in values(kind) if "type" not in node and "enum" not in node] == []


@each_kind
def test_every_text_has_an_end(kind: str) -> None:
    endless = [
        at
        for at, node in values_of_texts(kind)
        if "format" not in node
        and node.get("maxLength", widest(node.get("pattern", ".*"))) > 16_384
    ]
    assert endless == []


@each_kind
def test_every_list_and_mapping_has_an_end(kind: str) -> None:
    lists = [at for at, n in values(kind) if n.get("type") == "array" and "maxItems" not in n]
    objects = [(at, n) for at, n in values(kind) if n.get("type") == "object"]
    mappings = [at for at, n in objects if "patternProperties" in n and "maxProperties" not in n]
    open_ones = [at for at, n in objects if n.get("additionalProperties", False) is not False]
    assert (lists, mappings, open_ones) == ([], [], [])


@each_kind
def test_every_number_has_two_ends(kind: str) -> None:
    lower, upper = {"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"}
    numbers = [
        (at, n)
        for at, n in values(kind)
        if n.get("type") in ("integer", "number") and "enum" not in n
    ]
    assert [at for at, n in numbers if not (lower & set(n) and upper & set(n))] == []


@each_kind
def test_every_pattern_has_words_and_a_remedy(kind: str) -> None:
    found = {node["pattern"] for _, node in values_of_texts(kind) if "pattern" in node}
    assert found <= set(PATTERNS), (
        "say them in WORDS beside the pattern, or in config/validation_messages.py"
    )


@each_kind
def test_no_pattern_takes_what_is_more_than_a_name(kind: str) -> None:
    patterns = {n["pattern"]: n for _, n in values_of_texts(kind) if "pattern" in n}
    taken = {p: {text for text in HOSTILE if _takes(n, text)} for p, n in patterns.items()}
    assert {p: found for p, found in taken.items() if found - TAKEN.get(p, set())} == {}


def _takes(node: Node, text: str) -> bool:
    """By pydantic's own engine, whose ``$`` is the end of the text."""
    try:
        _form(node["pattern"], node.get("maxLength")).validate_python(text)
    except ValidationError:
        return False
    return True


@cache
def _form(pattern: str, longest: int | None) -> TypeAdapter[str]:
    return TypeAdapter(Annotated[str, Field(pattern=pattern, max_length=longest)])


def test_what_is_left_to_rules_is_there() -> None:
    everywhere = {
        at
        for kind in MODELS
        for schema in [MODELS[kind].model_json_schema()]
        for at, _ in walk(schema, schema.get("$defs", {}))
    }
    assert set(JUDGED_BY_RULES) <= everywhere
