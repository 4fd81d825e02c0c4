"""appliance waive"""

from datetime import datetime
from pathlib import Path

import click

from appliance.actions.acceptance import waive as action
from appliance.actions.acceptance.waive import SiteWaivers
from appliance.cli import options
from appliance.report.documents import GivenWaiver, Waivers
from appliance.report.formatting import waiver_words


@click.command()
@click.argument("finding", metavar="CHECK[@TARGET]", required=False)
@options.target_options
@click.option("--reason", metavar="TEXT", help="Why the finding is acceptable.")
@click.option(
    "--until",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="Last day of the waiver, such as 2027-01-31; at most a year from now.",
)
@click.option("--by", default="", metavar="NAME", help="Who accepts it; default: you.")
@click.option("--withdraw", is_flag=True, help="Withdraw the waiver.")
@click.option("--list", "listed", is_flag=True, help="List the site's waivers.")
@options.json_option("Print the site's waivers as one JSON object.")
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
    """Waive a finding until a date. Every report keeps showing it in red, with the person, the reason and the date.

    \b
    A check on one host:    appliance waive gpu.ecc@gpu-3 --reason "GPU ordered" --until 2027-01-31
    A gate of acceptance:   appliance waive gpt3.5b --reason "customer trains later" --until 2027-01-31
    List the waivers:       appliance waive --list
    Withdraw a waiver:      appliance waive --withdraw gpu.ecc@gpu-3

    A check such as gpu.xid can have several findings on one target. The waiver covers those of the last health or
    deploy, and none that appear later.

    A waiver improves no verdict and no exit code; acceptance shows "yes, with 1 waiver". Simulated hardware, a host that
    does not answer, and a site or stage that is not deployed cannot be waived. Exit: 0 done, 2 unusable input.
    """
    _require_one(finding, listed)
    target = options.target(inventory, profile)
    if finding is None:
        kept = action.listed(target, options.quiet())
    elif withdraw:
        if reason or until:
            raise click.UsageError("--withdraw excludes --reason and --until")
        kept = action.withdraw_waiver(target, finding, by, options.quiet())
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
        raise click.UsageError("--list excludes a finding")
    if not listed and finding is None:
        raise click.UsageError("name what to waive as CHECK[@TARGET], or add --list")


def _show(kept: SiteWaivers) -> None:
    for waiver in kept.waivers:
        over = "" if waiver.is_active(kept.today) else "  (expired)"
        click.secho(f"  {waiver_words(waiver)}{over}", fg=None if over else "red")
    if not kept.waivers:
        click.echo(f"  site {kept.site} has no waivers")


def _document(kept: SiteWaivers) -> Waivers:
    told = (
        GivenWaiver(**waiver.model_dump(), counts=waiver.is_active(kept.today))
        for waiver in kept.waivers
    )
    return Waivers(site=kept.site, waivers=tuple(told))
