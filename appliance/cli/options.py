"""Flags several verbs share, and how their output is chosen."""

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click
from rich.console import Console

from appliance.actions.opening import Target
from appliance.actions.planned import Narrowing, stage_names
from appliance.models.events import Observer
from appliance.report.progress import JsonObserver, PlainObserver, TerminalObserver

PIPE_WIDTH = 160
F = TypeVar("F", bound=Callable[..., object])


def target_options(command: F) -> F:
    """``--inventory`` and ``--profile``."""
    command = click.option(
        "-p", "--profile", metavar="NAME|FILE", help="Hardware class; default: what the site names."
    )(command)
    return click.option(
        "-i",
        "--inventory",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="The site's folder. Without it: the embedded virtual rack.",
    )(command)


def narrowing_options(command: F) -> F:
    """``--limit``, ``--stage``, ``--until`` and ``--full``."""
    stages = click.Choice(stage_names())
    for option in (
        click.option("--full", is_flag=True, help="Run every stage, whatever the receipts say."),
        click.option("--until", type=stages, help="Stop after this stage."),
        click.option(
            "--stage", "stages", type=stages, multiple=True, help="Only this stage (repeatable)."
        ),
        click.option("--limit", multiple=True, metavar="HOST", help="Only this host (repeatable)."),
    ):
        command = option(command)
    return command


kubeconfig_option = click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The cluster, as a file of mode 0600. Without it: KUBECONFIG, then the site's own (appliance kubeconfig).",
)


def json_option(text: str) -> Callable[[F], F]:
    """``--json``."""
    return click.option("--json", "as_json", is_flag=True, help=text)


def target(inventory: Path | None, profile: str | None) -> Target:
    """The Target the flags name."""
    return Target(inventory, profile)


def narrowing(
    limit: tuple[str, ...], stages: tuple[str, ...], until: str | None, full: bool
) -> Narrowing:
    """The Narrowing the flags name. ``--stage`` and ``--until`` exclude each other."""
    if stages and until:
        raise click.UsageError("--stage and --until exclude each other")
    return Narrowing(tuple(n for item in limit for n in item.split(",")), stages, until, full)


def observer(
    as_json: bool, verbose: bool = False
) -> TerminalObserver | PlainObserver | JsonObserver:
    """Progress on a terminal, lines in a pipe, or one JSON object per line."""
    if as_json:
        return JsonObserver(sys.stdout)
    if sys.stdout.isatty() and not verbose:
        return TerminalObserver(console())
    return PlainObserver(console(), verbose)


def console(*, stderr: bool = False) -> Console:
    """Where people read; a log has no edge, so lines in a pipe are folded late."""
    stream = sys.stderr if stderr else sys.stdout
    bounded = stream.isatty() or "COLUMNS" in os.environ
    return Console(stderr=stderr, width=None if bounded else PIPE_WIDTH)


class Silent:
    """An observer for verbs whose answer is the output."""

    def handle(self, event: object) -> None:
        """Nothing to say."""


def quiet() -> Observer:
    """An observer that says nothing."""
    return Silent()


def command_line(inventory: Path | None, profile: str | None, verb: str, *rest: str) -> str:
    """The command that goes on from here, as the user would type it."""
    words = ["appliance", verb]
    if profile:
        words += ["--profile", shlex.quote(profile)]
    if inventory:
        words += ["--inventory", shlex.quote(str(inventory))]
    return " ".join([*words, *rest])
