"""appliance init"""

import os
import shlex
from ipaddress import IPv4Network
from pathlib import Path

import click

from appliance.actions import init as action
from appliance.config.load import LoadedSite


def _network(context: click.Context, parameter: click.Parameter, value: str) -> IPv4Network:
    try:
        return IPv4Network(value)
    except ValueError as error:
        raise click.BadParameter(f"{error}; write it as 10.0.0.0/24") from None


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--hosts", type=click.IntRange(1), required=True, help="Machines: a head, the rest GPU hosts."
)
@click.option("-p", "--profile", metavar="NAME|FILE", required=True, help="Hardware class.")
@click.option("--name", help="Name of the site; default: the folder's.")
@click.option(
    "--network",
    metavar="CIDR",
    callback=_network,
    default="10.0.0.0/24",
    show_default=True,
    help="Management network.",
)
@click.option("--kubernetes", is_flag=True, help="With a Kubernetes cluster beside Slurm.")
def init(
    folder: Path, hosts: int, profile: str, name: str | None, network: IPv4Network, kubernetes: bool
) -> int:
    """Write a new site into DIR. That is a site.yml with comments, fresh secrets, a key pair.

    DIR must be new or empty. Nothing is contacted. Exit: 0 written, 2 refused.
    """
    loaded = action.init(folder, hosts, profile, name, network, kubernetes=kubernetes)
    click.echo(_summary(loaded))
    return 0


def _summary(loaded: LoadedSite) -> str:
    folder, site = loaded.site_document.file.parent, loaded.site
    first = site.hosts[0]
    quoted = shlex.quote(os.fspath(folder))
    steps = (
        (f"$EDITOR {quoted}/site.yml", "names, addresses, people"),
        (f"appliance profile validate {quoted}", "is it sound?"),
        (
            f"ssh-copy-id -i {quoted}/secrets/id_ed25519.pub root@{first.address}",
            "and each other host",
        ),
        (f"appliance trust --inventory {quoted}", "confirm the hosts' keys, once"),
        (f"appliance plan --inventory {quoted}", "see what would be done"),
        (f"appliance deploy --inventory {quoted}", "do it"),
    )
    width = max(len(command) for command, _ in steps)
    count = len(site.hosts)
    lines = [
        f"{folder}: site {site.name}, {count} host{'s' if count > 1 else ''}, profile {loaded.profile.name}"
    ]
    lines += [f"  {command:<{width}}   {why}" for command, why in steps]
    return "\n".join(lines)
