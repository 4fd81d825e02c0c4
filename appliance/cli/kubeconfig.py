"""appliance kubeconfig"""

import os
import shlex
from pathlib import Path

import click

from appliance.actions.kubernetes import kubeconfig as action
from appliance.actions.kubernetes import member_kubeconfig
from appliance.actions.sites.opening import Target, locate
from appliance.adapters.kubernetes import KubernetesApi
from appliance.cli import options
from appliance.report.documents import Kubeconfig

DEFAULT_DAYS, MOST_DAYS = 7, 365


@click.command()
@options.target_options
@click.option(
    "--user", metavar="NAME", help="Issue it for this member of a project instead of for you."
)
@options.kubeconfig_option
@click.option(
    "--days",
    type=click.IntRange(1, MOST_DAYS),
    default=DEFAULT_DAYS,
    show_default=True,
    help=f"Validity in days; for a member at most {member_kubeconfig.MOST_DAYS}.",
)
@options.json_option("Print its path as one JSON object.")
def kubeconfig(
    inventory: Path | None,
    profile: str | None,
    user: str | None,
    kubeconfig: Path | None,
    days: int,
    as_json: bool,
) -> int:
    """Get a kubeconfig for the site's cluster, valid for days. For an administrator in your name, or for a member.

    The private key is created on this machine and never leaves it. A control host signs the certificate, over SSH with
    its pinned host key. The result is written to kubeconfig in the site's folder (mode 0600), where queue and validate
    scheduler find it. With --user, the cluster's API signs it, and the file is kubeconfig-NAME. It gives access only to
    the namespaces of projects that list NAME as a user.

    \b
    For a week:     appliance kubeconfig --site mysite
    Use it:         kubectl --kubeconfig mysite/kubeconfig get nodes
    For a member:   appliance kubeconfig --site mysite --user alice@example.com

    Exit: 0 written, 1 no host signed it, 2 the site has no cluster of its own, or the user is not a member.
    """
    target = options.target(inventory, profile)
    if user is not None:
        return _member(target, user, kubeconfig, days, as_json)
    if kubeconfig is not None:
        raise click.UsageError(
            "--kubeconfig selects the cluster that signs for a member: also give --user"
        )
    found = action.fetch(target, days, options.quiet())
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


def _member(target: Target, user: str, admin: Path | None, days: int, as_json: bool) -> int:
    if days > member_kubeconfig.MOST_DAYS:
        raise click.UsageError(
            f"--days {days} is out of range for a member: certificates cannot be revoked; use at most {member_kubeconfig.MOST_DAYS}"
        )
    loaded = locate(target, raise_rack=False, observer=options.quiet())
    with KubernetesApi(action.chosen(admin, loaded)) as api:
        found = member_kubeconfig.issue(loaded, api, user, days)
    if as_json:
        document = Kubeconfig(
            file=os.fspath(found.file),
            server=found.server,
            user=found.user,
            until=found.until,
            namespaces=found.namespaces,
        )
        options.echo_json(document)
        return 0
    options.echo(
        f"{found.file}: {found.user} in {', '.join(found.namespaces)} until {found.until:%Y-%m-%d %H:%M} UTC"
    )
    options.echo("  next: keep the file private; it contains a key")
    return 0
