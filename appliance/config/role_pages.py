"""What follows from the options of a role (``meta/argument_specs.yml``): its defaults, and the table of its README."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml  # noqa: TID251  config is the door to YAML

WRITTEN = "# Written by make published from meta/argument_specs.yml.\n"
MARKUP = re.compile(r"\b[CEIOV]\(([^()]+)\)")
"""Ansible's own marks of code, environment, emphasis, options and values (antsibull-docs)."""
HEAD = "| variable | default | meaning |\n|---|---|---|\n"


class _Indented(yaml.SafeDumper):
    """Lists stand further in than their key, as yamllint wants them."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


Options = Mapping[str, Mapping[str, Any]]


def options(role: Path) -> Options:
    """A role's options by name, in their order."""
    document = yaml.safe_load((role / "meta/argument_specs.yml").read_text(encoding="utf-8"))
    found: Options = document["argument_specs"]["main"]["options"]
    return found


def defaults(given: Options) -> str:
    """``defaults/main.yml``: every option that has a default; "" where none has."""
    values = {name: option["default"] for name, option in given.items() if "default" in option}
    if not values:
        return ""
    written = yaml.dump(values, Dumper=_Indented, sort_keys=False, width=130, allow_unicode=True)
    return f"---\n{WRITTEN}{written}"


def table(given: Options) -> str:
    """The options as a Markdown table."""
    rows = (
        f"| `{name}` | {_default(option)} | {_line(option['description'])} |\n"
        for name, option in given.items()
    )
    return HEAD + "".join(rows)


def with_table(text: str, given: Options) -> str:
    """A README with its table of variables brought up to date. Raises ValueError without one."""
    before, found, rest = text.partition(HEAD)
    if not found:
        raise ValueError("the page has no table of variables")
    after = rest[rest.index("\n\n") + 1 :] if "\n\n" in rest else ""
    return f"{before}{table(given)}{after}"


def publish(roles: Path) -> None:
    """Bring defaults and READMEs of all roles up to date; run after a change of their options."""
    for role in sorted(path.parents[1] for path in roles.glob("*/meta/argument_specs.yml")):
        given, page, file = options(role), role / "README.md", role / "defaults/main.yml"
        if text := defaults(given):
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        else:
            file.unlink(missing_ok=True)
        page.write_text(with_table(page.read_text(encoding="utf-8"), given), encoding="utf-8")


def _default(option: Mapping[str, Any]) -> str:
    if option.get("required"):
        return "required"
    if option.get("default") is None:
        return "-"
    value = option["default"]
    return f"`{value if isinstance(value, str) and value else json.dumps(value)}`"


def _line(text: str) -> str:
    """As a cell: one line, begun small and without a final stop, as cells are."""
    marked = MARKUP.sub(r"`\1`", " ".join(text.split()))
    plain = marked.removesuffix(".").replace("|", "\\|")
    first = plain.split(" ", 1)[0]
    return plain if not first[1:].islower() else plain[0].lower() + plain[1:]
