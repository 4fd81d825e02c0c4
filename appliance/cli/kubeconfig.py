"""appliance kubeconfig"""

import os
import shlex
from pathlib import Path

import click

from appliance.actions import kubeconfig as action
from appliance.actions import member
from appliance.actions.opening import Target, locate
from appliance.adapters.kubernetes import KubernetesApi
from appliance.cli import options
from appliance.report.documents import Kubeconfig

DEFAULT_DAYS, MOST_DAYS = 7, 365


@click.command()
@options.target_options
@click.option("--user", metavar="NAME", help="For this member of a project, in place of yourself.")
@options.kubeconfig_option
@click.option(
    "--days",
    type=click.IntRange(1, MOST_DAYS),
    default=DEFAULT_DAYS,
    show_default=True,
    help=f"How long it shall be good; a member's {member.MOST_DAYS} at most.",
)
@options.json_option("Where it lies, as one JSON object.")
def kubeconfig(
    inventory: Path | None,
    profile: str | None,
    user: str | None,
    kubeconfig: Path | None,
    days: int,
    as_json: bool,
) -> int:
    """Get a kubeconfig for the site's cluster, for days. An administrator's in your name, or a member's.

    The key is made here and stays here; a control host signs it, asked over SSH with its pinned host key. It is
    written to kubeconfig in the site's folder (mode 0600), where queue and validate scheduler find it.
    With --user the cluster signs it through its API, asked as that administrator, and the file is kubeconfig-NAME: it opens the
    namespaces of the projects whose users name him, and nothing else.

    \b
    For a week:     appliance kubeconfig --inventory mysite
    Use it:         kubectl --kubeconfig mysite/kubeconfig get nodes
    For a member:   appliance kubeconfig --inventory mysite --user alice@example.com

    Exit: 0 written, 1 nobody signed it, 2 the site has no cluster of its own, or the user is no member.
    """
    target = options.target(inventory, profile)
    if user is not None:
        return _member(target, user, kubeconfig, days, as_json)
    if kubeconfig is not None:
        raise click.UsageError("--kubeconfig names whom to ask for a member: give --user, too")
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
    if days > member.MOST_DAYS:
        raise click.UsageError(
            f"--days {days} is too long for a member: a certificate cannot be called back, take {member.MOST_DAYS} at most"
        )
    loaded = locate(target, raise_rack=False, observer=options.quiet())
    with KubernetesApi(action.chosen(admin, loaded)) as api:
        found = member.issue(loaded, api, user, days)
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
    options.echo("  next: keep it from all others; it holds a key")
    return 0
