"""appliance fabric: what hangs where, and the topology for schedulers."""

from pathlib import Path

import click

from appliance.actions import fabric as action
from appliance.cli import options
from appliance.report import documents
from appliance.report import fabric as report
from appliance.text import plural


@click.group()
def fabric() -> None:
    """The fabric as discovery finds it now; reads hosts only.

    \b
    appliance fabric show --inventory mysite
    appliance fabric topology --format slurm --inventory mysite
    """


@fabric.command()
@options.target_options
@options.json_option("Machine-readable output.")
def show(inventory: Path | None, profile: str | None, as_json: bool) -> int:
    """Show every port of the GPU hosts. Its state and rate, and the switch and port its cable ends in."""
    seen = action.discover(options.target(inventory, profile), options.quiet())
    if as_json:
        options.echo_json(_document(seen))
        return 0
    if seen.simulated:
        options.echo("Simulated here: fabric.")
    report.rails_table(options.console(), (_row(rail) for rail in seen.rails))
    for host in seen.silent:
        options.echo(f"{host} did not answer: its ports are not known")
    switches, links = len(seen.topology.switches), len(seen.topology.links)
    options.echo(
        f"\n{seen.site} · {plural(switches, 'switch', 'switches')}, {plural(links, 'cable')}, seen from {seen.seen_from}"
        "\n  what is wrong with it: appliance health --check fabric"
    )
    return 0


@fabric.command()
@options.target_options
@click.option(
    "--format",
    "shape",
    type=click.Choice(["slurm", "kubernetes", "json"]),
    default="slurm",
    show_default=True,
    help="topology.conf, commands that label nodes, or both as data.",
)
def topology(inventory: Path | None, profile: str | None, shape: str) -> int:
    """Show which hosts are near each other. For Slurm and for Kubernetes, from one discovery."""
    tree = action.discover(options.target(inventory, profile), options.quiet()).tree
    match shape:
        case "slurm":
            options.echo(report.topology_conf(tree), nl=False)
        case "kubernetes":
            options.echo(report.label_commands(tree), nl=False)
        case _:
            options.echo_json(report.tree_document(tree))
    return 0


def _row(rail: action.Rail) -> tuple[str, ...]:
    name = rail.plug.device + (f" port {rail.plug.port}" if rail.plug.port > 1 else "")
    socket = rail.socket
    return (
        rail.plug.host,
        name,
        f"{rail.port.state}, {rail.port.physical}",
        f"{rail.port.rate:g} Gb/s",
        socket.switch if socket else "not met",
        str(socket.port) if socket else "",
    )


def _document(seen: action.Fabric) -> documents.Fabric:
    ports = (
        documents.FabricPort(
            host=rail.plug.host,
            device=rail.plug.device,
            port=rail.plug.port,
            state=rail.port.state,
            physical=rail.port.physical,
            rate_gbps=rail.port.rate,
            switch=rail.socket.switch if rail.socket else None,
            switch_port=rail.socket.port if rail.socket else None,
        )
        for rail in seen.rails
    )
    return documents.Fabric(
        site=seen.site,
        seen_from=seen.seen_from,
        simulated=seen.simulated,
        silent=seen.silent,
        ports=tuple(ports),
        hcas=seen.topology.hcas,
        switches=seen.topology.switches,
        links=seen.topology.links,
    )
