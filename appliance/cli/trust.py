"""appliance trust"""

from pathlib import Path

import click

from appliance.actions.bmc import trust as trust_bmc
from appliance.actions.hosts import trust as action
from appliance.actions.profiles.limit_bounds import check_ids
from appliance.cli import options
from appliance.config.load import load_site

ONE_KEY = (
    "show the same host key: one machine answers for all of them, or they were cloned; compare the hostname of each, then on clones: "
    "rm /etc/ssh/ssh_host_*, ssh-keygen -A, restart sshd, and run this command again"
)
ONE_CERTIFICATE = (
    "show the same certificate: it is the vendor's default, and its private key is public; "
    "create a certificate on each BMC, then run this command again"
)
LISTED = 8


@click.command()
@options.target_options
@options.host_option
@click.option("--bmc", is_flag=True, help="Pin the certificates of the BMCs instead.")
@click.option(
    "-y",
    "--yes",
    is_flag=True,
    help="Pin new keys without asking. Changed keys always need confirmation.",
)
def trust(
    inventory: Path | None, profile: str | None, hosts: tuple[str, ...], bmc: bool, yes: bool
) -> int:
    """Pin the hosts' SSH keys. Shows each fingerprint, and writes the confirmed keys to known_hosts.

    Compare each fingerprint with the console of the host before you confirm. With --bmc: pins the certificates of the
    BMCs in known_bmcs; compare the fingerprints with the web page of the BMC. Exit: 0 all pinned, 1 some host did not
    answer or was declined.
    """
    target = options.target(inventory, profile)
    if target.inventory is None:
        raise click.UsageError(
            "name a site with --site DIR, or change to its folder; the virtual rack pins its own keys"
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
    """Their names on one line; for many, the first ones and the number of the others."""
    more = len(hosts) - LISTED
    return ", ".join(hosts[:LISTED]) + (f" and {more} more" if more > 0 else "")
