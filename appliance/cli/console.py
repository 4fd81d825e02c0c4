"""appliance console"""

import os
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

import click

from appliance.actions.monitoring import health
from appliance.actions.sites.opening import Target, locate
from appliance.adapters import leftovers
from appliance.cli import options
from appliance.cli.health_table import print_health
from appliance.errors import ApplianceError

LIBRARY = "textual"
MISSING = "the console needs Textual, which is not installed"
WEB_LIBRARY = "textual_serve"
WEB_MISSING = "the console in a browser needs textual-serve, which is not installed"
WEB_INSTALL = "pip install 'appliance[web]', in the environment of this program"
WEB_DRIVER = "textual.drivers.web_driver:WebDriver"
INSTALL = "pip install 'appliance[console]', in the environment of this program"


@click.command()
@options.target_options
@click.option(
    "--web",
    type=click.IntRange(1024, 65535),
    metavar="PORT",
    help="Show it in a browser of this machine, on this port of 127.0.0.1.",
)
def console(inventory: Path | None, profile: str | None, web: int | None) -> int:
    """Show the site full screen: state, findings, hosts.

    Further pages show queues, the deployment as it runs, and gates. Reads only, by keyboard; ? shows the keys. Without a terminal, or with TERM=dumb, prints what appliance health prints.

    Exit: 0 after q. Without a terminal as appliance health: 0 good, 1 failed, 2 unusable input, 3 incomplete.
    """
    target = options.target(inventory, profile)
    if web is not None:
        return _in_browser(target, web)
    if not _is_screen():
        return _plain(target, options.command_line(inventory, profile, "plan"))
    if find_spec(LIBRARY) is None:
        raise ApplianceError(MISSING, INSTALL)
    return _full_screen(target)


def _in_browser(target: Target, port: int) -> int:
    if find_spec(WEB_LIBRARY) is None:
        raise ApplianceError(WEB_MISSING, WEB_INSTALL)
    from appliance.console.web import serve

    name = locate(target).site.name
    words = shlex.split(options.command_line(target.inventory, target.profile, "console"))[1:]
    serve(words, port, name, lambda address: click.echo(f"Open {address}\nCtrl-C ends it."))
    return 0


def _is_screen() -> bool:
    """Whether keys can be read and the whole screen be drawn, also by a browser (--web)."""
    if os.environ.get("TEXTUAL_DRIVER") == WEB_DRIVER:
        return True
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    return is_terminal and os.environ.get("TERM", "dumb") not in {"dumb", "unknown", ""}


def _plain(target: Target, plan: str) -> int:
    seen = health.look(target, options.quiet(), gates=True)
    print_health(seen, everything=False, plan=plan)
    return seen.verdict.exit_code


def _full_screen(target: Target) -> int:
    # Textual takes a third of a second to import.
    from appliance.console.app import show
    from appliance.console.sources import of_target

    is_ascii = not (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    if show(of_target(target), ascii_only=is_ascii):
        # A silent host would keep the program for its whole deadline; the load changes nothing.
        leftovers.sweep()
        sys.stdout.flush()
        os._exit(0)
    return 0
