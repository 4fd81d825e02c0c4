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


def files(roles: Path) -> dict[str, str]:
    """Defaults and README of every role, by path below ``roles``, brought up to date; "" for a file that must go."""
    found: dict[str, str] = {}
    for role in sorted(path.parents[1] for path in roles.glob("*/meta/argument_specs.yml")):
        given, page = options(role), (role / "README.md").read_text(encoding="utf-8")
        found[f"{role.name}/defaults/main.yml"] = defaults(given)
        found[f"{role.name}/README.md"] = with_table(page, given)
    return found


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
