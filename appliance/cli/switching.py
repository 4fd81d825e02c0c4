"""Options of the verbs that switch machines."""

import click

HARD = click.option(
    "--hard", is_flag=True, help="Cut the power; the system on the host is not asked."
)
FORCE = click.option(
    "--force", is_flag=True, help="Also hosts that carry work, or of which nothing is known."
)
YES = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
HOSTS = click.argument("hosts", nargs=-1, required=True)
