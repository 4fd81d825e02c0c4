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
from appliance.report import plugin

FAILED = 1
USAGE = 2
INTERRUPTED = 130
NO_ANSWER = (
    "standard input ended before the question was answered; nothing was changed\n"
    "  fix: answer on a terminal, or add --yes where the verb has it"
)
BEGUN = "\nInterrupted. What is finished is kept; the same command continues."
NOT_BEGUN = "\nInterrupted; nothing was changed."


@click.group(
    cls=Verbs,
    commands=Commands(),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", prog_name="appliance")
def cli() -> None:
    """Provision GPU appliances, prove them, and hand them over.

    \b
    First look, nothing needed:   appliance deploy --profile hpc
    A site of your own:           appliance init mysite --hosts 4 --profile hpc
    At night:                     appliance health --inventory mysite
    """


def main() -> None:
    """Runs a command line; exits 0, 1, 2, 3 or 130 as the README says, and 3 wherever a Nagios plugin cannot judge."""
    settle()
    forget()
    is_plugin = plugin.is_asked(sys.argv[1:])
    code, said, at_once = _ended(is_plugin)
    if is_plugin and said:
        click.echo(plugin.unknown(said))
        code = int(plugin.Code.UNKNOWN)
    elif said:
        click.echo(said, err=True)
    if lost := loss(sys.stdout):
        click.echo(
            f"standard output: {lost.strerror}; what was printed is not complete\n"
            "  fix: make room there or print elsewhere; runs and their reports are kept all the same",
            err=True,
        )
        code = int(plugin.Code.UNKNOWN) if is_plugin else code or FAILED
    loss(sys.stderr)
    if at_once:
        # Threads may hang with their hosts.
        leftovers.sweep()
        os._exit(code)
    rest()
    sys.exit(code)


def _ended(is_plugin: bool) -> tuple[int, str, bool]:
    """Exit code of the command line, what is to be said of its end, and whether not to wait for threads."""
    try:
        code = cli.main(prog_name="appliance", standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt) as error:
        # Click makes an Abort of Ctrl-C, with its cause; of one at a question, without.
        cause = error.__cause__ or error
        if isinstance(cause, KeyboardInterrupt):
            return INTERRUPTED, NOT_BEGUN if isinstance(cause, Interrupted) else BEGUN, True
        if not sys.stdin.isatty():
            return USAGE, f"\n{NO_ANSWER}", False
        return INTERRUPTED, NOT_BEGUN, False
    except click.ClickException as error:
        return USAGE, error.format_message() if is_plugin else _usage(error), False
    except ApplianceError as error:
        return error.exit_code, _told(error), False
    except (OSError, MemoryError, RuntimeError) as error:
        if not (trouble := of_machine(error)):
            raise
        return FAILED, trouble, True
    except Exception:
        if not is_plugin:
            raise
        # Exit 1, as Python ends with a traceback, would be a warning of the site to a plugin's caller.
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


def _told(error: ApplianceError) -> str:
    place = f"{error.host}: " if error.host else ""
    lines = [advice(f"{place}{error.message}")]
    if error.hint:
        lines.append(advice(f"  fix: {error.hint}"))
    if isinstance(error, ConfigError):
        lines.append(f"  exit {error.exit_code}")
    return "\n".join(lines)
