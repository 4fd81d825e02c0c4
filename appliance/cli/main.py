"""The program: finds the verb and turns errors into one line and an exit code."""

import os
import sys
from io import StringIO

import click

from appliance import __version__
from appliance.adapters import leftovers
from appliance.cli.collector import rest
from appliance.cli.machine import of_machine
from appliance.cli.spoken import advice
from appliance.cli.streams import loss, settle
from appliance.cli.verbs import Commands, Interrupted, Verbs
from appliance.errors import ApplianceError, ConfigError
from appliance.hidden import forget
from appliance.report import monitoring_plugin

FAILED = 1
USAGE = 2
INTERRUPTED = 130
NO_ANSWER = (
    "standard input ended before the question was answered; nothing was changed\n"
    "  fix: answer in a terminal, or add --yes if the verb has that option"
)
BEGUN = "\nInterrupted. Finished steps are kept; the same command continues."
NOT_BEGUN = "\nInterrupted; nothing was changed."


def _show_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if not asked or context.resilient_parsing:
        return
    # Nothing else is read for it.
    from appliance.adapters import installed

    click.echo(f"appliance, version {__version__}")
    for remark in installed.remarks():
        click.echo(remark, err=True)
    context.exit(FAILED if installed.differences() else 0)


@click.group(
    cls=Verbs,
    commands=Commands(),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    hidden=True,
)
def cli() -> None:
    """\b
    Provision GPU clusters, verify them, and hand them over.
    Try it without hardware: appliance deploy --profile hpc. Version: --version
    """


def main() -> None:
    """Runs a command line; exits with 0, 1, 2, 3 or 130 as in the README. Under Nagios, 3 means that nothing could be judged."""
    settle()
    forget()
    is_plugin = monitoring_plugin.is_asked(sys.argv[1:])
    code, said, at_once = _ended(is_plugin)
    if is_plugin and said:
        click.echo(monitoring_plugin.unknown(said))
        code = int(monitoring_plugin.Code.UNKNOWN)
    elif said:
        click.echo(said, err=True)
    if lost := loss(sys.stdout):
        click.echo(
            f"standard output: {lost.strerror}; the output is incomplete\n"
            "  fix: free space there or print elsewhere; runs and their reports are kept anyway",
            err=True,
        )
        code = int(monitoring_plugin.Code.UNKNOWN) if is_plugin else code or FAILED
    loss(sys.stderr)
    if at_once:
        # Threads may hang with their hosts.
        leftovers.sweep()
        os._exit(code)
    rest()
    sys.exit(code)


def _ended(is_plugin: bool) -> tuple[int, str, bool]:
    """The exit code of a command line, its last message, and whether to exit without waiting for threads."""
    try:
        code = cli.main(prog_name="appliance", standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt) as error:
        # Click turns Ctrl-C into an Abort with a cause; Ctrl-C at a prompt has no cause.
        cause = error.__cause__ or error
        if isinstance(cause, KeyboardInterrupt):
            return INTERRUPTED, NOT_BEGUN if isinstance(cause, Interrupted) else BEGUN, True
        if not sys.stdin.isatty():
            return USAGE, f"\n{NO_ANSWER}", False
        return INTERRUPTED, NOT_BEGUN, False
    except click.ClickException as error:
        return USAGE, error.format_message() if is_plugin else _usage(error), False
    except ApplianceError as error:
        return error.exit_code, _error_text(error), False
    except (OSError, MemoryError, RuntimeError) as error:
        if not (trouble := of_machine(error)):
            raise
        return FAILED, trouble, True
    except Exception:
        if not is_plugin:
            raise
        # Python exits with 1 after a traceback; for the caller of a Nagios plugin that is a warning about the site.
        sys.excepthook(*sys.exc_info())
        return (
            FAILED,
            "this is a defect of the program\n  fix: report it with its standard error",
            True,
        )
    return code if isinstance(code, int) else 0, "", False


def _usage(error: click.ClickException) -> str:
    text = StringIO()
    error.show(file=text)
    return text.getvalue().rstrip("\n")


def _error_text(error: ApplianceError) -> str:
    place = f"{error.host}: " if error.host else ""
    lines = [advice(f"{place}{error.message}")]
    if error.hint:
        lines.append(advice(f"  fix: {error.hint}"))
    if isinstance(error, ConfigError):
        lines.append(f"  exit {error.exit_code}")
    return "\n".join(lines)
