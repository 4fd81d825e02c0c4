"""What the verbs that switch machines share: their options, and how a machine's own failure is told."""

import click

from appliance.cli import options
from appliance.errors import ApplianceError

HARD = click.option(
    "--hard", is_flag=True, help="Cut the power; the system on the host is not asked."
)
FORCE = click.option(
    "--force", is_flag=True, help="Also hosts that carry work, or of which nothing is known."
)
YES = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
HOSTS = click.argument("hosts", nargs=-1, required=True)


def tell(host: str, error: ApplianceError) -> None:
    """Prints what is wrong with one machine, and what to do about it."""
    options.echo(f"  {host:<16} {error.message}")
    if error.hint:
        options.echo(f"  {'':<16} fix: {error.hint}")
