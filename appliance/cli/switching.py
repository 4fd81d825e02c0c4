"""Options and error output shared by the verbs that switch machines."""

import click

from appliance.cli import options
from appliance.errors import ApplianceError

HARD = click.option(
    "--hard", is_flag=True, help="Cut the power without a shutdown of the operating system."
)
FORCE = click.option(
    "--force", is_flag=True, help="Also hosts that carry work, or whose state is unknown."
)
YES = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
HOSTS = click.argument("hosts", nargs=-1, required=True)


def tell(host: str, error: ApplianceError) -> None:
    """Prints what is wrong with one machine, and its remedy."""
    options.echo(f"  {host:<16} {error.message}")
    if error.hint:
        options.echo(f"  {'':<16} fix: {error.hint}")
