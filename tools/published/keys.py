"""The keys of profile and site as tables in docs/."""

import json
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from appliance.config.accepted_values import in_words
from appliance.config.json_schema import MODELS

SECTION = re.compile(r"[.\[]")
BEGIN, END = "<!-- keys: written by make published -->", "<!-- /keys -->"


def table(kind: str) -> str:
    """Every key of "profile" or "site" as Markdown tables, one for each section, under a heading that menus and links know."""
    sections: dict[str, list[str]] = {}
    for key, *cells in rows(kind):
        takes, without, text = (cell.replace("|", "\\|") for cell in cells)
        section = SECTION.split(key)[0] if _has_keys(kind, key) else ""
        row = f"| `{key}` | {takes} | {without} | {text} |"
        sections.setdefault(section, []).append(row)
    head = "| key | takes | without it | meaning |\n|---|---|---|---|"
    return "\n\n".join(
        "\n".join((*([f"### {section}\n"] if section else []), head, *lines))
        for section, lines in sections.items()
    )


def _has_keys(kind: str, key: str) -> bool:
    """Whether a key is of a section, or one; else it stands for itself."""
    name = SECTION.split(key)[0]
    return name != key or _is_model(inner_of(MODELS[kind].model_fields[name].annotation)[0])


def rows(kind: str) -> Iterator[tuple[str, str, str, str]]:
    """Key path, accepted values, default and meaning of every key, in the model's order."""
    yield from _rows(MODELS[kind], "")


def with_table(text: str, kind: str) -> str:
    """A page with the table between its marks brought up to date. Raises ValueError without marks."""
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"the page has no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{table(kind)}\n{END}{after}"


def pages(checkout: Path) -> dict[str, str]:
    """The pages of docs/ that hold the tables, by path, brought up to date."""
    names = {kind: f"docs/{kind}.md" for kind in MODELS}
    return {
        name: with_table((checkout / name).read_text(encoding="utf-8"), kind)
        for kind, name in names.items()
    }


def _rows(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str, str]]:
    document = model.model_json_schema()
    definitions = document.get("$defs", {})
    for name, info in model.model_fields.items():
        key = f"{prefix}{info.alias or name}"
        inner, suffix = inner_of(info.annotation)
        takes = in_words(document["properties"][info.alias or name], definitions)
        yield key + suffix, takes, _default(info), info.description or ""
        if _is_model(inner):
            yield from _rows(inner, f"{key}{suffix}.")


def inner_of(annotation: Any) -> tuple[Any, str]:
    """What is at the bottom of lists and mappings, and how a path says so: ``[]``, ``.NAME``."""
    bare = _without_none(annotation)
    if get_origin(bare) is tuple:
        inner, suffix = inner_of(get_args(bare)[0])
        return inner, "[]" + suffix
    if get_origin(bare) is dict:
        inner, suffix = inner_of(get_args(bare)[1])
        return inner, ".NAME" + suffix
    return bare, ""


def _without_none(annotation: Any) -> Any:
    annotation = get_args(annotation)[0] if hasattr(annotation, "__metadata__") else annotation
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [a for a in get_args(annotation) if a is not type(None)]
        return _without_none(rest[0]) if len(rest) == 1 else annotation
    return annotation


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "**needed**"
    value = info.get_default(call_default_factory=True, validated_data={})
    if value in (None, (), {}, "") or isinstance(value, BaseModel):
        return "-"
    if isinstance(value, tuple):
        return ", ".join(f"`{getattr(item, 'name', item)}`" for item in value)
    return f"`{json.dumps(value) if isinstance(value, bool) else value}`"


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
