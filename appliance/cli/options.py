"""Options shared by several verbs, and the selection of the output format."""

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import click
from rich.console import Console

from appliance.actions.sites.opening import Target, site_here
from appliance.cli.files import InputFile
from appliance.cli.renamed import renamed, with_options
from appliance.cli.spoken import advice, advice_elsewhere, speak_of
from appliance.engine.plan.selection import Filters
from appliance.models.base import Document
from appliance.models.events import Event, Message, Observer
from appliance.models.text_types import HOSTS as MOST_HOSTS
from appliance.report.progress import JsonObserver, PlainObserver, TerminalObserver
from appliance.stages import NAMES

PIPE_WIDTH = 160
HOSTS = "Limit to these hosts, such as gpu-1 or 'gpu-[1-4]' (repeatable)."
F = TypeVar("F", bound=Callable[..., object])
Shown = TerminalObserver | PlainObserver | JsonObserver


SITE = renamed(
    "--inventory",
    *("-s", "--site", "inventory"),
    short="-i",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The site's folder; default: here, or the rack.",
)
PROFILE = click.Option(
    ["-p", "--profile"],
    metavar="NAME|FILE",
    help="Hardware class; default: the site's profile.",
)
TARGET = (*SITE, PROFILE)
target_options = with_options(TARGET)


def narrowing_options(command: F) -> F:
    """``--hosts``, ``--stage``, ``--until`` and ``--full``."""
    stages = click.Choice(NAMES)
    for option in (
        click.option("--full", is_flag=True, help="Run every stage, regardless of receipts."),
        click.option("--until", type=stages, help="Stop after this stage."),
        click.option(
            "--stage",
            "stages",
            type=stages,
            multiple=True,
            help="Run only this stage (repeatable).",
        ),
        with_options(
            renamed("--limit", "--hosts", "limit", multiple=True, metavar="HOSTS", help=HOSTS)
        ),
    ):
        command = option(command)
    return command


host_option = with_options(
    renamed("--host", "--hosts", "hosts", multiple=True, metavar="HOSTS", help=HOSTS)
)
KUBECONFIG = click.Option(
    ["--kubeconfig"],
    type=InputFile(),
    metavar="FILE",
    help="Kubeconfig file of the cluster, mode 0600. Default: the site's own (appliance kubeconfig), or KUBECONFIG.",
)
kubeconfig_option = with_options((KUBECONFIG,))


def json_option(text: str) -> Callable[[F], F]:
    """``--json``."""
    return click.option("--json", "as_json", is_flag=True, help=text)


def formats(*shapes: str) -> tuple[click.Option, ...]:
    """``--format`` with a table as default, and its short form ``--json``; see chosen_format."""
    return (
        click.Option(
            ["--format", "shape"],
            type=click.Choice(["table", "json", *shapes]),
            default="table",
            show_default=True,
            help="--json: short for json.",
        ),
        click.Option(["--json", "as_json"], is_flag=True, hidden=True),
    )


def format_option(*shapes: str) -> Callable[[F], F]:
    """Adds ``formats`` to a command."""
    return with_options(formats(*shapes))


def chosen_format(shape: str, as_json: bool) -> str:
    """The format given by ``--format`` and ``--json``. Raises UsageError if they exclude each other."""
    if as_json and shape not in ("table", "json"):
        raise click.UsageError(f"--json and --format {shape} exclude each other")
    return "json" if as_json else shape


def target(inventory: Path | None, profile: str | None) -> Target:
    """The Target named by the flags, or the current folder; from now on, remedies name it, too.

    Raises ConfigError if that folder cannot be read.
    """
    here = site_here() if inventory is None else None
    found = Target(inventory or here, profile, is_here=here is not None)
    speak_of(found.address)
    return found


def echo(text: str, *, nl: bool = True, err: bool = False) -> None:
    """Prints a text that may contain commands."""
    click.echo(advice(text), nl=nl, err=err)


def echo_json(document: Document) -> None:
    """Prints a document, for readers in other folders."""
    click.echo(advice_elsewhere(document).model_dump_json(indent=1))


def require_answer(yes: bool, as_json: bool = False) -> None:
    """Raises UsageError if a confirmation is needed and cannot be asked for."""
    if yes:
        return
    if as_json:
        raise click.UsageError(
            "--json cannot ask for confirmation: add --yes to continue without it"
        )
    if not sys.stdin.isatty():
        raise click.UsageError(
            "standard input is not a terminal: add --yes to continue without confirmation"
        )


def filters(
    limit: tuple[str, ...], stages: tuple[str, ...], until: str | None, full: bool
) -> Filters:
    """The Filters given by the flags. ``--stage`` and ``--until`` exclude each other."""
    if stages and until:
        raise click.UsageError("--stage and --until exclude each other")
    return Filters(limit, stages, until, full)


class Advised:
    """An observer that adds the site to commands in events, by ``told``."""

    def __init__(self, inner: Shown, told: Callable[[Event], Event]) -> None:
        self._inner, self._told = inner, told

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._inner.__exit__(kind, error, at)

    def handle(self, event: Event) -> None:
        """Passes the event on."""
        self._inner.handle(self._told(event))


def observer(as_json: bool, verbose: bool = False) -> Advised:
    """Progress on a terminal, lines in a pipe, or one JSON object per line."""
    shown = _observer(as_json, verbose)
    return Advised(shown, advice_elsewhere if as_json else advice)


def _observer(as_json: bool, verbose: bool) -> Shown:
    if as_json:
        return JsonObserver(sys.stdout)
    if sys.stdout.isatty() and not verbose:
        return TerminalObserver(console())
    return PlainObserver(console(), verbose)


def console(*, stderr: bool = False) -> Console:
    """Standard output for people. Lines in a pipe are wrapped late, because a log has no width.

    Markup is off: text of other programs that looks like rich's markup is printed as it is.
    """
    stream = sys.stderr if stderr else sys.stdout
    bounded = stream.isatty() or "COLUMNS" in os.environ
    return Console(stderr=stderr, width=None if bounded else PIPE_WIDTH, markup=False)


class Silent:
    """An observer for verbs whose result is the output: prints only warnings, to standard error."""

    def handle(self, event: object) -> None:
        """Prints a warning."""
        if isinstance(event, Message) and event.level == "warning":
            click.echo(f"warning: {advice(event.text)}", err=True)


def quiet() -> Observer:
    """An observer that prints warnings only."""
    return Silent()


def command_line(inventory: Path | None, profile: str | None, verb: str, *rest: str) -> str:
    """The next command, as the user would type it."""
    words = ["appliance", verb]
    if profile:
        words += ["--profile", shlex.quote(profile)]
    if inventory:
        words += ["--site", shlex.quote(str(inventory))]
    return " ".join([*words, *rest])


def of_classes(
    context: click.Context, parameter: click.Parameter, value: tuple[str, ...]
) -> dict[str, int]:
    """The callback of ``--gpu-hosts CLASS=N``: the number of hosts per class."""
    found: dict[str, int] = {}
    for text in value:
        name, _, count = text.rpartition("=")
        if not name or not count.isdecimal() or not 1 <= int(count) <= MOST_HOSTS:
            raise click.BadParameter(f'"{text}": write CLASS=N, such as balanced=2')
        if name in found:
            raise click.BadParameter(f'"{name}" is given twice')
        found[name] = int(count)
    return found
