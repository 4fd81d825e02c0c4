"""appliance waive"""

from datetime import datetime
from pathlib import Path

import click

from appliance.actions import waive as action
from appliance.actions.waive import Kept
from appliance.cli import options
from appliance.report.documents import GivenWaiver, Waivers
from appliance.report.wording import waiver_words


@click.command()
@click.argument("finding", metavar="CHECK[@TARGET]", required=False)
@options.target_options
@click.option("--reason", metavar="TEXT", help="Why the finding may stand.")
@click.option(
    "--until",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="Last day it counts, as 2027-01-31; a year at most.",
)
@click.option("--by", default="", metavar="NAME", help="Who accepts it; default: you.")
@click.option("--withdraw", is_flag=True, help="Take the waiver back.")
@click.option("--list", "listed", is_flag=True, help="List the site's waivers.")
@options.json_option("The site's waivers as one JSON object.")
def waive(
    finding: str | None,
    inventory: Path | None,
    profile: str | None,
    reason: str | None,
    until: datetime | None,
    by: str,
    withdraw: bool,
    listed: bool,
    as_json: bool,
) -> int:
    """Accept a finding for a time. It stays what it is: every report shows it in red, with who, why and until when.

    \b
    A check on one host:    appliance waive gpu.ecc@gpu-3 --reason "GPU ordered" --until 2027-01-31
    A gate of acceptance:   appliance waive gpt3.5b --reason "customer trains later" --until 2027-01-31
    What is waived:         appliance waive --list
    Taken back:             appliance waive --withdraw gpu.ecc@gpu-3

    No run gets a better verdict or exit code by it; acceptance says "yes, with 1 waiver". Simulated hardware, a silent
    host, and a site or stage that is not deployed cannot be waived. Exit: 0 done, 2 unusable input.
    """
    _require_one(finding, listed)
    target = options.target(inventory, profile)
    if finding is None:
        kept = action.listed(target, options.quiet())
    elif withdraw:
        if reason or until:
            raise click.UsageError("--withdraw takes no --reason and no --until")
        kept = action.take_back(target, finding, by, options.quiet())
    else:
        if reason is None or until is None:
            raise click.UsageError("a waiver needs --reason and --until")
        kept = action.waive(target, finding, reason, until.date(), by, options.quiet())
    if as_json:
        options.echo_json(_document(kept))
    else:
        _show(kept)
    return 0


def _require_one(finding: str | None, listed: bool) -> None:
    if listed and finding:
        raise click.UsageError("--list takes no finding")
    if not listed and finding is None:
        raise click.UsageError("name what to waive as CHECK[@TARGET], or add --list")


def _show(kept: Kept) -> None:
    for waiver in kept.waivers:
        over = "" if waiver.is_active(kept.today) else "  (over: it counts no more)"
        click.secho(f"  {waiver_words(waiver)}{over}", fg=None if over else "red")
    if not kept.waivers:
        click.echo(f"  site {kept.site} has no waiver")


def _document(kept: Kept) -> Waivers:
    told = (
        GivenWaiver(**waiver.model_dump(), counts=waiver.is_active(kept.today))
        for waiver in kept.waivers
    )
    return Waivers(site=kept.site, waivers=tuple(told))
