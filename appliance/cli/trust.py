"""appliance trust"""

from pathlib import Path

import click

from appliance.actions import trust as action
from appliance.actions.opening import check_ids
from appliance.cli import options
from appliance.config.load import load_site


@click.command()
@options.target_options
@click.option("--host", "hosts", multiple=True, help="Only this host (repeatable).")
@click.option(
    "-y", "--yes", is_flag=True, help="Pin new keys unseen. A changed key is always asked about."
)
def trust(inventory: Path | None, profile: str | None, hosts: tuple[str, ...], yes: bool) -> int:
    """Pin the hosts' SSH keys. Shows each fingerprint, writes those you confirm into known_hosts.

    Compare a fingerprint with the host's console before you say yes. Exit: 0 all pinned, 1 some host did not
    answer or was declined.
    """
    if inventory is None:
        raise click.UsageError(
            "name a site with --inventory DIR; the virtual rack pins its own keys"
        )
    loaded = load_site(inventory, profile, check_ids=check_ids())
    found, silent = action.offers(loaded, hosts)

    def confirm(offer: action.Offer) -> bool:
        if offer.state == "new" and yes:
            return True
        warning = "CHANGED from the pinned key! " if offer.state == "changed" else ""
        question = f"{offer.host}  {offer.kind} {offer.fingerprint}  {warning}Pin it?"
        return click.confirm(question, default=False)

    accepted = action.pin(loaded, found, confirm)
    for offer in found:
        state = "pinned now" if offer in accepted else offer.state
        click.echo(f"  {offer.host:<16} {offer.fingerprint}  {state}")
    for host, error in silent.items():
        click.echo(f"  {host:<16} {error.message}  fix: {error.hint}")
    declined = [o for o in found if o.state != "pinned" and o not in accepted]
    return 1 if silent or declined else 0
