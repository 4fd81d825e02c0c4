"""Describes the accepted values of a key, from its JSON Schema."""

from collections.abc import Iterator, Mapping
from typing import Any

from appliance.config.validation_messages import PATTERNS

Node = Mapping[str, Any]
"""One place of a JSON Schema (2020-12)."""
KINDS = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true, false"}
FORMATS = {"ipv4": "address", "ipv4network": "network"}
LEAST, MOST = "minimum", "maximum"
RANGES = {
    "array": ("minItems", "maxItems", " entries"),
    "object": ("minProperties", "maxProperties", " entries"),
    "string": ("minLength", "maxLength", " characters"),
}


def in_words(node: Node, definitions: Mapping[str, Node]) -> str:
    """The accepted values of ``node``: type or choices, format and range; for lists also the length. Empty for a section of keys."""
    return "; ".join(dict.fromkeys(_parts(node, definitions)))


def _parts(node: Node, definitions: Mapping[str, Node]) -> Iterator[str]:
    if "$ref" in node:
        node = definitions[node["$ref"].rpartition("/")[2]]
    if "anyOf" in node:
        choices = [choice for choice in node["anyOf"] if choice != {"type": "null"}]
        if len(choices) > 1:
            yield ", ".join(in_words(choice, definitions) for choice in choices)
        else:
            yield from _parts(choices[0], definitions)
    elif "const" in node or "enum" in node:
        yield ", ".join(map(str, node.get("enum") or [node["const"]]))
    elif "type" not in node:
        yield "any value"
    elif node["type"] == "array":
        yield from _parts(node["items"], definitions)
        yield from _range(node)
    elif node["type"] == "object":
        yield from _named(node, definitions)
        yield from _range(node)
    else:
        yield ", ".join((_kind(node), *_range(node)))


def _named(node: Node, definitions: Mapping[str, Node]) -> Iterator[str]:
    """For keys with free names: the accepted values and names."""
    for pattern, inner in node.get("patternProperties", {}).items():
        yield from _parts(inner, definitions)
        if pattern in PATTERNS:
            yield f"NAME is {_form(pattern)}"
    inner = node.get("additionalProperties")
    if isinstance(inner, dict):
        yield from _parts(inner, definitions)


def _kind(node: Node) -> str:
    if node.get("pattern") in PATTERNS:
        return _form(node["pattern"])
    return FORMATS.get(node.get("format", ""), KINDS[node["type"]])


def _form(pattern: str) -> str:
    what, shape = PATTERNS[pattern]
    return f"{what} ({shape})"


def _range(node: Node) -> Iterator[str]:
    least, most, unit = RANGES.get(node["type"], (LEAST, MOST, ""))
    low, high = node.get(least), node.get(most)
    if low is not None and high is not None:
        yield f"{low} to {high}{unit}"
    elif low is not None:
        yield f"{low} or more{unit}"
    elif high is not None:
        yield f"up to {high}{unit}"
    for word, sign in (("exclusiveMinimum", "more than"), ("exclusiveMaximum", "less than")):
        if word in node:
            yield f"{sign} {node[word]}"
