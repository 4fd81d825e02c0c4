"""appliance lab: create, show, enter, break and remove a virtual rack."""

import os
import sys
from collections.abc import Mapping
from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console

from appliance.cli.options import of_classes
from appliance.cli.renamed import renamed, with_options
from appliance.cli.settings import Setting, set_options, settled
from appliance.errors import ConfigError
from appliance.lab import faults, image, machine_image, rack, ssh
from appliance.lab import status as lab_status
from appliance.lab.parts import parts
from appliance.lab.spec import KINDS, Rack, RackSpec
from appliance.provision.sources import RELEASES
from appliance.text import plural

GPUS = tuple(part.key for part in parts())
SETTINGS = (
    Setting("gpu", "", click.Choice(("", *GPUS))),
    Setting("driver", False, click.BOOL),
    Setting("control", 1, click.INT),
    Setting("debian", "12", click.Choice(tuple(RELEASES))),
    Setting("user", "installer"),
)
"""Described in docs/lab.md."""
NAME = click.option("--name", default="rack", show_default=True, help="Name of the rack.")


def _print_kinds(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if not asked or context.resilient_parsing:
        return
    words = [f"{one.kind} {one.arguments}" for one in faults.FAULTS]
    width = max(map(len, words)) + 2
    lines = (
        f"{word:<{width}}{one.summary}" for word, one in zip(words, faults.FAULTS, strict=True)
    )
    click.echo("\n".join(lines))
    context.exit()


@click.group()
def lab() -> None:
    """Run a virtual rack of containers or VMs on this machine. With simulated GPUs and fabric."""


@lab.command()
@NAME
@click.option(
    "--complete",
    is_flag=True,
    help="Create the rack of deploy: six hosts, Kubernetes with KAI, queues and MIG, two hosts of Slurm, two example users.",
)
@with_options(
    renamed(
        "--hosts",
        *("--count", "hosts"),
        type=click.INT,
        default=3,
        show_default=True,
        help="Number of hosts: one head host, the others GPU hosts.",
    )
)
@click.option(
    "--gpu-hosts",
    metavar="CLASS=N",
    multiple=True,
    callback=of_classes,
    help="Number of GPU hosts of a class (repeatable); instead of --count and --profile.",
)
@click.option("--profile", default="hpc", show_default=True, help="Hardware class of the hosts.")
@click.option(
    "--kubernetes",
    is_flag=True,
    help="Add a Kubernetes cluster. Its programs are compiled the first time: about 15 minutes on two idle CPUs.",
)
@click.option(
    "--slurm",
    default=0,
    metavar="N",
    help="With --kubernetes: the first N GPU hosts belong to Slurm.",
)
@click.option(
    "--plain", is_flag=True, help="Hosts as Debian's installer leaves them, for a site of your own."
)
@click.option(
    "--machines",
    type=click.Choice(KINDS),
    default=KINDS[0],
    show_default=True,
    help="Containers, or VMs that are off, with empty disks and BMCs.",
)
@click.option(
    "--reset-site",
    is_flag=True,
    help="Write site.yml again, even if it was edited; a copy of the old file is kept next to it.",
)
@with_options(set_options(SETTINGS))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def up(
    name: str,
    hosts: int,
    complete: bool,
    gpu_hosts: Mapping[str, int],
    profile: str,
    kubernetes: bool,
    slurm: int,
    plain: bool,
    machines: str,
    reset_site: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Create the rack, or start those of its hosts that are down."""
    console = Console(stderr=True)
    asked = settled(given, SETTINGS)
    control = asked["control"]
    if complete:
        _refuse_what_it_sets(given["values"])
    wanted = RackSpec(
        name,
        sum(gpu_hosts.values()) + control if gpu_hosts else hosts,
        next(iter(gpu_hosts), profile),
        asked["gpu"],
        kubernetes,
        asked["driver"],
        slurm,
        control,
        asked["debian"] if plain else "",
        asked["user"],
        machines=machines,
        classes=",".join(f"{one}={count}" for one, count in gpu_hosts.items()),
    )
    with console.status("creating the rack"):
        raised = rack.up(
            rack.complete(wanted) if complete else wanted,
            lambda line: console.print(f"  {line}", soft_wrap=True),
            reset_site=reset_site,
        )
    if as_json:
        _print_json(lab_status.read(raised))
        return
    if raised.spec.is_virtual:
        on = sum(host.state == "running" for host in lab_status.read(raised).hosts)
        click.echo(
            f"Rack {raised.name}: {plural(len(raised.hosts), 'virtual machine')}, {on} of them on; GPUs and fabric simulated."
        )
        click.echo(lab_status.of_machines(raised))
        return
    click.echo(
        f"Rack {raised.name}: {plural(len(raised.hosts), 'host')}, GPUs and fabric simulated."
    )
    if plain:
        click.echo(lab_status.of_plain(raised))
        return
    click.echo(f"site  {raised.site_dir}")
    click.echo(f"next  appliance deploy --site {raised.site_dir}")


def _refuse_what_it_sets(values: Mapping[str, Any]) -> None:
    """Options that --complete decides. Raises UsageError."""
    given = click.get_current_context().get_parameter_source
    flags = {"hosts": "--count", "gpu_hosts": "--gpu-hosts", "control": "--set control"}
    for name in ("hosts", "gpu_hosts", "kubernetes", "slurm", "control"):
        if given(name) is ParameterSource.COMMANDLINE or name in values:
            raise click.UsageError(
                f"--complete decides {flags.get(name, f'--{name}')} by itself: omit one of them"
            )


@lab.command()
@NAME
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(name: str, as_json: bool) -> None:
    """Show which hosts run. Exit: 0 all run, 1 some do not, or the rack does not exist."""
    found = lab_status.read(_find(name))
    if as_json:
        _print_json(found)
    else:
        click.echo(lab_status.table(found))
    raise SystemExit(0 if found.all_up else 1)


@lab.command(context_settings={"ignore_unknown_options": True})
@NAME
@click.argument("host")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def shell(name: str, host: str, command: tuple[str, ...]) -> None:
    """Open a shell on HOST, or run one command after "--". Its exit code is passed on.

    A single argument is run as a shell command line: -- 'ls /dev | wc -l'
    """
    found = _find(name)
    argv = ssh.command(found, found.host(host), ssh.remote_words(command))
    os.execvp(argv[0], argv)


@lab.command()
@NAME
@click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_kinds,
    help="List the kinds with their arguments, and exit.",
)
@click.argument("host")
@click.argument("kind")
@click.argument("arguments", nargs=-1)
@click.option("--clear", is_flag=True, help="Remove the fault.")
def fault(name: str, host: str, kind: str, arguments: tuple[str, ...], clear: bool) -> None:
    """Inject a fault into HOST: KIND, with its arguments."""
    found = _find(name)
    faults.apply(found, found.host(host), kind, arguments, clear=clear)
    summary = faults.find(kind).summary
    click.echo(f"{host}: {'cleared' if clear else 'now'}: {summary}")


@lab.command()
@NAME
@click.argument("host")
def rebuild(name: str, host: str) -> None:
    """Replace HOST by a new machine: blank disk, new host key. The site still pins the old key."""
    found = _find(name)
    rack.rebuild(found, found.host(host))
    click.echo(f"{host}: a new machine with a blank disk and a new host key")


@lab.command()
@NAME
@click.option("--purge-cache", is_flag=True, help="Remove the image too.")
@click.option(
    "-y",
    "--yes",
    is_flag=True,
    help="Do not ask for confirmation, even if reports are deleted with the rack.",
)
def down(name: str, purge_cache: bool, yes: bool) -> int:
    """Remove the rack and everything it created.

    Reports of the rack named "rack" are kept in /var/lib/appliance/runs. Reports of other racks are in their site's
    folder, and are deleted with it.
    """
    found = rack.load(name)
    reports = (
        [path.parent.name for path in found.site_dir.glob("runs/*/report.json")] if found else []
    )
    if found and reports:
        click.echo(
            f"This also deletes {plural(len(reports), 'report')} in {found.site_dir / 'runs'}."
        )
        if not yes and sys.stdin.isatty() and not click.confirm("Remove it?", default=False):
            click.echo("Nothing was removed.")
            return 1
    there_was = rack.down(name)
    if purge_cache:
        image.purge()
        machine_image.purge()
    click.echo(f"Rack {name} was removed." if there_was else f"There is no rack named {name}.")
    return 0


def _find(name: str) -> Rack:
    found = rack.load(name)
    if not found:
        raise ConfigError(f"no rack named {name}", f"appliance lab up --name {name}")
    return found


def _print_json(found: lab_status.RackStatus) -> None:
    click.echo(found.model_dump_json(indent=1))
