"""appliance init"""

import os
import shlex
from collections.abc import Mapping
from ipaddress import IPv4Network
from pathlib import Path

import click

from appliance.actions.sites import init as action
from appliance.cli import options
from appliance.cli.renamed import renamed, with_options
from appliance.config.load import LoadedSite


def _network(context: click.Context, parameter: click.Parameter, value: str) -> IPv4Network:
    try:
        return IPv4Network(value)
    except ValueError as error:
        raise click.BadParameter(f"{error}; write it as 10.0.0.0/24") from None


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@with_options(
    renamed(
        "--hosts",
        *("--count", "hosts"),
        type=click.IntRange(1),
        help="Number of hosts: one head host, the others GPU hosts.",
    )
)
@click.option(
    "--gpu-hosts",
    metavar="CLASS=N",
    multiple=True,
    callback=options.of_classes,
    help="Number of GPU hosts of a class, in addition to a head host (repeatable); instead of --count.",
)
@click.option(
    "-p",
    "--profile",
    metavar="NAME|FILE",
    help="Hardware class of hosts without a class of their own; with --gpu-hosts, default: the first class.",
)
@click.option("--name", help="Name of the site; default: the name of the folder.")
@click.option(
    "--network",
    metavar="CIDR",
    callback=_network,
    default="10.0.0.0/24",
    show_default=True,
    help="Management network, such as 10.0.0.0/24.",
)
@click.option(
    "--with",
    "beside",
    multiple=True,
    type=click.Choice(["slurm"]),
    help="Add Slurm to Kubernetes: the last of several GPU hosts runs Slurm jobs.",
)
@click.option(
    "--without",
    "left_out",
    multiple=True,
    type=click.Choice(["kubernetes"]),
    help="No Kubernetes; with --with slurm: Slurm only.",
)
@click.option("--kubernetes", is_flag=True, hidden=True, help="Deprecated: use --with slurm.")
def init(
    folder: Path,
    hosts: int | None,
    gpu_hosts: Mapping[str, int],
    profile: str | None,
    name: str | None,
    network: IPv4Network,
    beside: tuple[str, ...],
    left_out: tuple[str, ...],
    kubernetes: bool,
) -> int:
    """Write a new site into DIR. With Kubernetes, KAI and two example projects.

    Writes site.yml with comments, new secrets and a key pair. DIR must be new or empty. Contacts no host. Exit: 0 written,
    2 refused.

    \b
    One hardware class:      appliance init mysite --count 4 --profile hpc
    Several classes:         appliance init mysite --gpu-hosts balanced=2 --gpu-hosts hpc=2
    """
    if hosts and gpu_hosts:
        raise click.UsageError("--count and --gpu-hosts exclude each other; give one of them")
    if not hosts and not gpu_hosts:
        raise click.UsageError("Missing option '--count'; or give --gpu-hosts CLASS=N")
    chosen = profile or next(iter(gpu_hosts), None)
    if chosen is None:
        raise click.UsageError("Missing option '-p' / '--profile'.")
    loaded = action.init(
        folder,
        hosts or 0,
        chosen,
        name,
        network,
        kubernetes="kubernetes" not in left_out,
        slurm="slurm" in beside or kubernetes,
        classes=gpu_hosts,
    )
    click.echo(_summary(loaded))
    return 0


def _summary(loaded: LoadedSite) -> str:
    folder, site = loaded.site_document.file.parent, loaded.site
    first = site.hosts[0]
    quoted = shlex.quote(os.fspath(folder))
    steps = (
        (f"$EDITOR {quoted}/site.yml", "edit names, addresses and people"),
        (f"appliance profile validate {quoted}", "check the site"),
        (
            f"ssh-copy-id -i {quoted}/secrets/id_ed25519.pub root@{first.address}",
            "repeat for every host",
        ),
        (f"appliance trust --site {quoted}", "confirm the hosts' keys, once"),
        (f"appliance plan --site {quoted}", "show what would be done"),
        (f"appliance deploy --site {quoted}", "deploy the site"),
    )
    width = max(len(command) for command, _ in steps)
    count = len(site.hosts)
    names = [profile.name for profile in site.profiles(loaded.profile)]
    classes = f"profile{'s' if len(names) > 1 else ''} {', '.join(names)}"
    lines = [f"{folder}: site {site.name}, {count} host{'s' if count > 1 else ''}, {classes}"]
    lines += [f"  {command:<{width}}   {why}" for command, why in steps]
    return "\n".join(lines)
