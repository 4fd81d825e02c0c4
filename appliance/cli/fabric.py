"""appliance fabric: cabling as discovered, and the topology for schedulers."""

from pathlib import Path

import click

from appliance.actions.hosts import fabric as action
from appliance.cli import options
from appliance.report import documents
from appliance.report import fabric as report
from appliance.text import plural


@click.group()
def fabric() -> None:
    """Show the fabric as discovered now. Reads hosts only.

    \b
    appliance fabric show --site mysite
    appliance fabric topology --format slurm --site mysite
    """


@fabric.command()
@options.target_options
@options.json_option("Print JSON.")
def show(inventory: Path | None, profile: str | None, as_json: bool) -> int:
    """Show every port of the GPU hosts. State, rate, and the switch and port at the other end of the cable."""
    seen = action.discover(options.target(inventory, profile), options.quiet())
    if as_json:
        options.echo_json(_document(seen))
        return 0
    if seen.simulated:
        options.echo("Simulated: fabric.")
    report.rails_table(options.console(), (_row(rail) for rail in seen.rails))
    for host in seen.silent:
        options.echo(f"{host} did not answer: its ports are unknown")
    switches, links = len(seen.topology.switches), len(seen.topology.links)
    options.echo(
        f"\n{seen.site} · {plural(switches, 'switch', 'switches')}, {plural(links, 'cable')}, discovered from {seen.seen_from}"
        "\n  To list its faults: appliance health --check fabric"
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
    help="topology.conf, kubectl commands that label nodes, or both as JSON.",
)
def topology(inventory: Path | None, profile: str | None, shape: str) -> int:
    """Show which hosts are close to each other. As a topology for Slurm or Kubernetes, from one discovery."""
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
        socket.switch if socket else "not found",
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
