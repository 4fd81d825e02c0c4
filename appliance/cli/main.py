"""The program: assembles the verbs and turns errors into one line and an exit code."""

import errno
import os
import sys
from contextlib import suppress
from typing import NoReturn

import click
from click.shell_completion import get_completion_class

from appliance import __version__
from appliance.cli.deploy import deploy
from appliance.cli.etcd import etcd
from appliance.cli.explain import explain
from appliance.cli.fabric import fabric
from appliance.cli.health import health
from appliance.cli.images import images
from appliance.cli.init import init
from appliance.cli.kubeconfig import kubeconfig
from appliance.cli.lab import lab
from appliance.cli.mig import mig
from appliance.cli.node import node
from appliance.cli.plan import plan
from appliance.cli.profile import profile
from appliance.cli.queue import queue
from appliance.cli.report import report
from appliance.cli.trust import trust
from appliance.cli.validate import validate
from appliance.errors import ApplianceError, ConfigError
from appliance.report.symbols import readable

USAGE = 2
INTERRUPTED = 130
FULL = {errno.ENOSPC, errno.EDQUOT}
CLOSED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP}
"""What a folder answers that its user has no business in, wherever it is met."""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", prog_name="appliance")
def cli() -> None:
    """Provision GPU appliances, prove them, and hand them over.

    \b
    First look, nothing needed:   appliance deploy --profile hpc
    A site of your own:           appliance init mysite --hosts 4 --profile hpc
    At night:                     appliance health --inventory mysite
    """


for _verb in (
    init,
    trust,
    plan,
    deploy,
    mig,
    node,
    validate,
    health,
    fabric,
    report,
    explain,
    profile,
    kubeconfig,
    etcd,
    images,
    queue,
    lab,
):
    cli.add_command(_verb)


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the shell's completion script. For bash: source <(appliance completion bash)."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "appliance", "_APPLIANCE_COMPLETE").source())
    return 0


def main() -> None:
    """Runs a command line; exits 0, 1, 2, 3 or 130 as the README says."""
    readable(sys.stdout)
    readable(sys.stderr)
    try:
        code = cli.main(prog_name="appliance", standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt) as error:
        # Click makes an Abort of Ctrl-C, with its cause; of one at a question, without.
        if isinstance(error.__cause__ or error, KeyboardInterrupt):
            _leave("\nInterrupted. What is finished is kept; the same command continues.")
        click.echo("\nInterrupted; nothing was changed.", err=True)
        sys.exit(INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(USAGE)
    except ApplianceError as error:
        _show(error)
        sys.exit(error.exit_code)
    except OSError as error:
        place = error.filename or "what this is printed to"
        if error.errno in FULL:
            _leave(f"{place}: no space left\n  fix: make room there, then run the same command", 1)
        if error.errno not in CLOSED or not error.filename:
            raise
        _leave(
            f"{place}: {error.strerror}\n  fix: name a place you may use, or correct its owner and mode",
            1,
        )
    sys.exit(code if isinstance(code, int) else 0)


def _leave(said: str, code: int = INTERRUPTED) -> NoReturn:
    """Ends the program without waiting for threads that may hang with their hosts."""
    click.echo(said, err=True)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def _show(error: ApplianceError) -> None:
    place = f"{error.host}: " if error.host else ""
    click.echo(f"{place}{error.message}", err=True)
    if error.hint:
        click.echo(f"  fix: {error.hint}", err=True)
    if isinstance(error, ConfigError):
        click.echo(f"  exit {error.exit_code}", err=True)
