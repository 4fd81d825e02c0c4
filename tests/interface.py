"""The public interface in short: names, types and defaults that a release promises (CONTRIBUTING.md, "Versions and tags").

Run as a program, a part of ``make golden``, it records them in tests/data/interface.txt, which a release is compared with.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel, TypeAdapter

from appliance.alerts import ALERTS
from appliance.cli.main import cli
from appliance.config.json_schema import MODELS
from appliance.stages.catalog import EVERY_CHECK
from tools.published.forms import PRINTED
from tools.published.keys import inner_of

RECORDED = Path(__file__).parent / "data/interface.txt"
WIDTH = 118
RACK = "appliance lab "
Schema = Mapping[str, Any]


def summary() -> str:
    """Everything, a line for each key, option, check and alert, and a paragraph for each form of --json."""
    parts = {
        "keys of site.yml": keys(MODELS["site"]),
        "keys of a profile": keys(MODELS["profile"]),
        "commands and options": commands(cli, "appliance"),
        "what --json prints": forms(),
        "checks": (check.id for check in EVERY_CHECK),
        "alerts": (f"{alert.name} ({alert.severity})" for alert in ALERTS),
    }
    return (
        "\n".join(line for title, lines in parts.items() for line in (f"# {title}", *lines)) + "\n"
    )


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """``hosts[].bmc.port: integer = 443``; a key that is needed has no default."""
    document = model.model_json_schema()
    for name, info in model.model_fields.items():
        inner, suffix = inner_of(info.annotation)
        key = f"{prefix}{info.alias or name}{suffix}"
        form = document["properties"][info.alias or name]
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield key if info.is_required() else f"{key} (optional)"
            yield from keys(inner, f"{key}.")
        else:
            default = f" = {json.dumps(form['default'])}" if "default" in form else " (optional)"
            told = kind(form, document.get("$defs", {}))
            yield f"{key}: {told}{'' if info.is_required() else default}"


def kind(form: Schema, forms: Mapping[str, Schema] | None = None) -> str:
    """A type in a word or a few: ``integer``, ``[string]``, ``kai | run:ai``, or the name of a form.

    ``forms``: those whose names are not enough, as choices of a key.
    """
    if "$ref" in form:
        name = str(form["$ref"]).rpartition("/")[2]
        return kind(forms[name], forms) if forms and "enum" in forms[name] else name
    if "enum" in form or "const" in form:
        return " | ".join(map(str, form.get("enum", [form.get("const")])))
    for choice in ("anyOf", "oneOf"):
        if choice in form:
            return " | ".join(dict.fromkeys(kind(one, forms) for one in form[choice]))
    if form.get("type") == "array":
        return f"[{kind(form.get('items', {}), forms)}]"
    if form.get("type") == "object":
        inner: Any = form.get("additionalProperties") or next(
            iter(form.get("patternProperties", {}).values()), {}
        )
        return f"{{{kind(inner, forms) if isinstance(inner, dict) else ''}}}"
    return str(form.get("type", "any"))


def commands(command: click.Command, words: str) -> Iterator[str]:
    """``appliance deploy --until: choice``, and arguments by their place."""
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                yield from commands(inner, f"{words} {name}")
        if not command.invoke_without_command:
            return
    yield words
    for param in command.params:
        if getattr(param, "hidden", False) and not param.expose_value:
            continue
        names = ", ".join((*param.opts, *param.secondary_opts))
        if isinstance(param, click.Argument):
            names = f"<{param.human_readable_name}>"
        flag = isinstance(param, click.Option) and param.is_flag
        # The rack's choices are GPUs and faults, which come by a row of a table.
        listed = isinstance(param.type, click.Choice) and not words.startswith(RACK)
        taken = " | ".join(map(str, param.type.choices)) if listed else param.type.name  # type: ignore[attr-defined]
        many = "..." if param.multiple or param.nargs == -1 else ""
        yield f"{words} {names}{'' if flag else f': {taken}'}{many}"


def forms() -> Iterator[str]:
    """Each form with its fields, and each that these name, once; ``?`` where a field may be missing."""
    known: dict[str, list[str]] = {}
    for one in PRINTED:
        schema = TypeAdapter(one.form).json_schema(mode="serialization")
        known[f"{one.name}.json"] = [_fields(schema)]
        for name, inner in schema.get("$defs", {}).items():
            said = known.setdefault(name, [])
            if _fields(inner) not in said:
                said.append(_fields(inner))
    for name, fields in known.items():
        for text in fields:
            yield from _wrapped(f"{name}: {text}")


def _fields(schema: Schema) -> str:
    if "properties" not in schema:
        return kind(schema)
    needed = schema.get("required", ())
    return ", ".join(
        f"{name}{'' if name in needed else '?'} {kind(inner)}"
        for name, inner in schema["properties"].items()
    )


def _wrapped(text: str) -> Iterator[str]:
    """Breaks at commas, so that a difference shows few fields."""
    line = ""
    for part in text.split(", "):
        if line and len(line) + len(part) > WIDTH:
            yield f"{line},"
            line = f"  {part}"
        else:
            line = f"{line}, {part}" if line else part
    yield line


if __name__ == "__main__":
    RECORDED.write_text(summary(), encoding="utf-8")
