"""Options under a new name; the old one is hidden, and works for one minor version with a warning."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import click
from click.core import ParameterSource

F = TypeVar("F", bound=Callable[..., object])
UNTIL = "until version 0.3.0"


def warn(context: click.Context, text: str) -> None:
    """Prints one line to standard error, except while a shell completes words."""
    if not context.resilient_parsing:
        click.echo(f"warning: {text}", err=True)


class Renamed(click.Option):
    """An option that also takes the value given under its old name."""

    def __init__(self, *args: Any, old: str, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.old = old

    def consume_value(
        self, ctx: click.Context, opts: Mapping[str, Any]
    ) -> tuple[Any, ParameterSource]:
        """The value of either name; of both if the option is repeatable. Raises UsageError for both otherwise."""
        given, name = dict(opts), str(self.name)
        if former(name) not in given:
            return super().consume_value(ctx, opts)
        old, new = given[former(name)], max(self.opts, key=len)
        warn(ctx, f"{self.old} is now {new}; the old name works {UNTIL}")
        if name in given and not self.multiple:
            raise click.UsageError(f"{self.old} and {new} are the same option: give one", ctx)
        given[name] = [*given.get(name, ()), *old] if self.multiple else old
        return super().consume_value(ctx, given)


def former(name: str) -> str:
    """The name of the parameter that holds the value of the old name."""
    return f"former_{name}"


def renamed(old: str, *names: str, short: str = "", **attributes: Any) -> tuple[click.Option, ...]:
    """An option and its hidden old name; ``short``: a letter that goes with the old name."""
    shown = Renamed(names, old=old, **attributes)
    hidden = click.Option(
        [*filter(None, (short, old)), former(str(shown.name))],
        type=click.UNPROCESSED,
        multiple=shown.multiple,
        hidden=True,
        expose_value=False,
    )
    return shown, hidden


class Retired(click.Option):
    """A hidden option that works as before, and warns with what replaces it."""

    def __init__(self, *args: Any, instead: str, **attributes: Any) -> None:
        super().__init__(*args, **{**attributes, "hidden": True, "callback": self._warned})
        self.instead = instead

    def _warned(self, context: click.Context, _: click.Parameter, value: Any) -> Any:
        if context.get_parameter_source(str(self.name)) is ParameterSource.COMMANDLINE:
            warn(context, f"{self.opts[0]} works {UNTIL}: use {self.instead}")
        return value


def with_options(options: tuple[click.Option, ...]) -> Callable[[F], F]:
    """A decorator that adds these options to a command, in their order."""

    def decorated(command: F) -> F:
        for option in reversed(options):
            made: Any = partial(_same, option)
            command = click.option(cls=made)(command)
        return command

    return decorated


def _same(option: click.Option, *_: object, **__: object) -> click.Option:
    """Takes the place of an option's class: the option exists already."""
    return option
