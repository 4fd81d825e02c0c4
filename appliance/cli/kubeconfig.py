"""appliance kubeconfig"""

import os
import shlex
from pathlib import Path

import click

from appliance.actions import kubeconfig as action
from appliance.cli import options
from appliance.report.documents import Kubeconfig

DEFAULT_DAYS, MOST_DAYS = 7, 365


@click.command()
@options.target_options
@click.option(
    "--days",
    type=click.IntRange(1, MOST_DAYS),
    default=DEFAULT_DAYS,
    show_default=True,
    help="How long it shall be good.",
)
@options.json_option("Where it lies, as one JSON object.")
def kubeconfig(inventory: Path | None, profile: str | None, days: int, as_json: bool) -> int:
    """Get an administrator's kubeconfig for the site's cluster. In your name and for a few days.

    The key is made here and stays here; a control host signs it, asked over SSH with its pinned host key. It is
    written to kubeconfig in the site's folder (mode 0600), where queue and validate scheduler find it.

    \b
    For a week:     appliance kubeconfig --inventory mysite
    Use it:         kubectl --kubeconfig mysite/kubeconfig get nodes

    Exit: 0 written, 1 no control host could, 2 the site has no cluster of its own.
    """
    found = action.fetch(options.target(inventory, profile), days, options.quiet())
    if as_json:
        document = Kubeconfig(
            file=os.fspath(found.file), server=found.server, user=found.user, until=found.until
        )
        options.echo_json(document)
        return 0
    options.echo(
        f"{found.file}: {found.user} at {found.server} until {found.until:%Y-%m-%d %H:%M} UTC"
    )
    options.echo(f"  next: kubectl --kubeconfig {shlex.quote(str(found.file))} get nodes")
    return 0
