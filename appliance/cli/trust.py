"""appliance trust"""

from pathlib import Path

import click

from appliance.actions import trust as action
from appliance.actions import trust_bmc
from appliance.actions.bounds import check_ids
from appliance.cli import options
from appliance.config.load import load_site

ONE_KEY = (
    "show one and the same key: one machine answers for all, or they were cloned; compare hostname on each, then on clones: "
    "rm /etc/ssh/ssh_host_*, ssh-keygen -A, restart sshd, and run this again"
)
ONE_CERTIFICATE = (
    "show one and the same certificate: it came with the controllers, and its key is in everybody's hands; "
    "have each make one of its own, then run this again"
)
LISTED = 8


@click.command()
@options.target_options
@options.host_option
@click.option("--bmc", is_flag=True, help="The certificates of the management controllers instead.")
@click.option(
    "-y", "--yes", is_flag=True, help="Pin new keys unseen. A changed key is always asked about."
)
def trust(
    inventory: Path | None, profile: str | None, hosts: tuple[str, ...], bmc: bool, yes: bool
) -> int:
    """Pin the hosts' SSH keys. Shows each fingerprint, writes those you confirm into known_hosts.

    Compare a fingerprint with the host's console before you say yes. With --bmc: fingerprints of the management
    controllers' certificates, into known_bmcs; compare them with the controller's own page. Exit: 0 all pinned, 1 some host did not
    answer or was declined.
    """
    target = options.target(inventory, profile)
    if target.inventory is None:
        raise click.UsageError(
            "name a site with --inventory DIR, or change to its folder; the virtual rack pins its own keys"
        )
    loaded = load_site(target.inventory, profile, check_ids=check_ids())
    if bmc:
        found, silent = trust_bmc.offers(loaded, hosts)
        many, why = trust_bmc.shared(found), ONE_CERTIFICATE
    else:
        found, silent = action.offers(loaded, hosts)
        many, why = action.shared(loaded, found), ONE_KEY
    for alike in many:
        click.echo(f"  warning: {_list(alike)} {why}", err=True)

    def confirm(offer: action.Offer) -> bool:
        if offer.state == "new" and yes:
            return True
        warning = "CHANGED from the pinned key! " if offer.state == "changed" else ""
        question = f"{offer.host}  {offer.kind} {offer.fingerprint}  {warning}Pin it?"
        return click.confirm(question, default=False)

    accepted = (trust_bmc.pin if bmc else action.pin)(loaded, found, confirm)
    for offer in found:
        state = "pinned now" if offer in accepted else offer.state
        options.echo(f"  {offer.host:<16} {offer.fingerprint}  {state}")
    for host, error in silent.items():
        options.echo(f"  {host:<16} {error.message}  fix: {error.hint}")
    declined = [o for o in found if o.state != "pinned" and o not in accepted]
    return 1 if silent or declined else 0


def _list(hosts: tuple[str, ...]) -> str:
    """Their names on one line; of many the first, and how many more."""
    more = len(hosts) - LISTED
    return ", ".join(hosts[:LISTED]) + (f" and {more} more" if more > 0 else "")
