"""appliance init"""

import os
import shlex
from collections.abc import Mapping
from ipaddress import IPv4Network
from pathlib import Path

import click

from appliance.actions.sites import init as action
from appliance.actions.sites.machine_list import MachineList
from appliance.actions.sites.machine_lists import read_list
from appliance.cli import options
from appliance.cli.files import InputFile
from appliance.cli.renamed import renamed, with_options
from appliance.config.load import LoadedSite
from appliance.text import plural


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
    "--from-csv",
    "files",
    metavar="FILE",
    multiple=True,
    type=InputFile(),
    help="Hosts, or cables, listed in a CSV file (repeatable); instead of --count.",
)
@click.option(
    "--from-netbox",
    "netbox",
    metavar="URL",
    help="Hosts and cables of a NetBox, as https://HOST/?site=NAME; token in NETBOX_TOKEN, or --token.",
)
@click.option(
    "--token",
    metavar="FILE",
    type=InputFile(),
    help="File with the token of NetBox, mode 0600.",
)
@click.option(
    "--authority",
    metavar="FILE",
    type=InputFile(),
    help="CA certificate of NetBox, if this machine does not trust it.",
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
    files: tuple[Path, ...],
    netbox: str | None,
    token: Path | None,
    authority: Path | None,
    profile: str | None,
    name: str | None,
    network: IPv4Network,
    beside: tuple[str, ...],
    left_out: tuple[str, ...],
    kubernetes: bool,
) -> int:
    """Write a new site into DIR. With Kubernetes, KAI and two example projects.

    Writes site.yml with comments, new secrets and a key pair. DIR must be new or empty. Contacts no host. Exit: 0 written,
    1 NetBox gave no answer, 2 refused.

    \b
    One hardware class:      appliance init mysite --count 4 --profile hpc
    Several classes:         appliance init mysite --gpu-hosts balanced=2 --gpu-hosts hpc=2
    Hosts listed in files:   appliance init mysite --from-csv hosts.csv --profile hpc
    """
    sources = {
        "--count": hosts,
        "--gpu-hosts": gpu_hosts,
        "--from-csv": files,
        "--from-netbox": netbox,
    }
    given = [option for option, value in sources.items() if value]
    if len(given) > 1:
        raise click.UsageError(f"{given[0]} and {given[1]} exclude each other; give one of them")
    if not given:
        raise click.UsageError("Missing option '--count'; or give --gpu-hosts CLASS=N")
    if (token or authority) and not netbox:
        raise click.UsageError("--token and --authority need --from-netbox")
    machines = read_list(files, netbox, token, authority)
    listed = (
        next((one.hardware_class for one in machines.hosts if one.hardware_class), None)
        if machines
        else None
    )
    chosen = profile or next(iter(gpu_hosts), None) or listed
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
        machines=machines,
    )
    click.echo(_summary(loaded, machines))
    return 0


def _summary(loaded: LoadedSite, machines: MachineList | None) -> str:
    folder, site = loaded.site_document.file.parent, loaded.site
    first = site.hosts[0]
    quoted = shlex.quote(os.fspath(folder))
    passwords = ((f"export {action.BMC_PASSWORD}=...", "or name a file with it in site.yml"),)
    steps = (
        (f"$EDITOR {quoted}/site.yml", "edit names, addresses and people"),
        *(passwords if machines and any(host.bmc for host in site.hosts) else ()),
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
    if machines:
        cables = plural(len(machines.cables), "fabric cable")
        lines[0] += f", {cables}, from {machines.source}"
        lines += [f"  {one}" for one in machines.missing()]
    lines += [f"  {command:<{width}}   {why}" for command, why in steps]
    return "\n".join(lines)
