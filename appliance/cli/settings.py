"""--set KEY=VALUE: settings that are rarely changed, in one option; their former options are hidden."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import click
from click.core import ParameterSource

from appliance.cli.renamed import Retired


@dataclass(frozen=True)
class Setting:
    """A key with its default and its type; ``many``: it may be given several times, and its value is a tuple."""

    key: str
    default: Any = None
    type: click.ParamType[Any] = click.STRING
    many: bool = False

    @property
    def name(self) -> str:
        """The name of the parameter."""
        return self.key.replace("-", "_")


def set_options(settings: Sequence[Setting]) -> tuple[click.Option, ...]:
    """``--set`` for these keys, and one hidden option for each, as before; none without a key."""
    if not settings:
        return ()
    shown = click.Option(
        ["--set", "values"],
        multiple=True,
        metavar="KEY=VALUE",
        callback=partial(_read, {one.key: one for one in settings}),
        help=f"Change a setting (repeatable): {', '.join(_help(one) for one in settings)}.",
    )
    return shown, *(_former(one) for one in settings)


def settled(given: Mapping[str, Any], settings: Sequence[Setting]) -> dict[str, Any]:
    """The values of these settings by name: of ``--set``, else of the former option, else the default."""
    source = click.get_current_context().get_parameter_source
    found = {}
    for one in settings:
        found[one.name] = () if one.many else one.default
        if source(one.name) is ParameterSource.COMMANDLINE:
            found[one.name] = given[one.name]
        if one.key in given["values"]:
            found[one.name] = given["values"][one.key]
    return found


def _help(one: Setting) -> str:
    return one.key if one.many or one.default in ("", False) else f"{one.key}={one.default}"


def _former(one: Setting) -> click.Option:
    instead = f"--set {one.key}={'yes' if one.type is click.BOOL else 'VALUE'}"
    if one.type is click.BOOL:
        return Retired([f"--{one.key}"], is_flag=True, instead=instead)
    default = None if one.many else one.default
    return Retired(
        [f"--{one.key}"], type=one.type, default=default, multiple=one.many, instead=instead
    )


def _read(
    known: Mapping[str, Setting],
    context: click.Context,
    parameter: click.Parameter,
    words: tuple[str, ...],
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word in words:
        key, _, text = word.partition("=")
        if key not in known:
            raise click.BadParameter(f"'{word}': write KEY=VALUE; keys: {', '.join(known)}")
        value = known[key].type.convert(text, parameter, context)
        if key in found and not known[key].many:
            raise click.BadParameter(f"{key} is given twice")
        found[key] = (*found.get(key, ()), value) if known[key].many else value
    return found
