"""Measures how the program's cost on Kubernetes grows with the site: real KAI at work, hosts and GPUs made up by kwok, as root."""

import json
import os
import shutil
import signal
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from rich.console import Console
from rich.table import Table

from appliance.errors import ApplianceError
from benchmarks import cluster_programs
from benchmarks.__main__ import machine
from benchmarks.cluster_load import CUSTOMER, Shape
from benchmarks.cluster_parts import PROMISES, Figure, Site, measured


@click.command()
@click.option(
    "--hosts",
    "sizes",
    multiple=True,
    default=(3, 50, CUSTOMER),
    show_default=True,
    type=click.IntRange(3, 5000),
    help="GPU hosts of a site, 8 GPUs each (repeatable).",
)
@click.option(
    "--promise",
    "promises",
    multiple=True,
    default=PROMISES,
    show_default=True,
    help="Of the scheduler, tried as validate scheduler tries it (repeatable).",
)
@click.option("--output", type=click.Path(path_type=Path), help="Write every figure as JSON.")
@click.option("--logs", type=click.Path(path_type=Path), help="Keep what the programs said there.")
def main(
    sizes: tuple[int, ...], promises: tuple[str, ...], output: Path | None, logs: Path | None
) -> None:
    """Exit: 0 where nothing of ours grows faster than the site, 1 where something does or a part failed, 2 where this machine lacks
    something.
    """
    if os.geteuid():
        click.echo("its network of its own needs root", err=True)
        sys.exit(2)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    before = os.getloadavg()
    programs, kwok = cluster_programs.compiled(lambda said: click.echo(said, err=True))
    cluster_programs.separate()
    sites: list[Site] = []
    for size in sorted(sizes):
        with TemporaryDirectory(prefix="appliance-cluster-") as folder:
            place = Path(folder)
            with cluster_programs.at_work(programs, kwok, place) as cluster:
                sites.append(measured(cluster, Shape(size), promises, _tell))
            if logs:
                (logs / str(size)).mkdir(parents=True, exist_ok=True)
                for log in place.glob("*.log"):
                    shutil.copy(log, logs / str(size))
        if output:
            _write(output, sites, before)
    grown = _show(sites)
    failed = [said for site in sites for said in site.failed]
    for said in failed:
        click.echo(said, err=True)
    sys.exit(1 if grown or failed else 0)


def _tell(said: str) -> None:
    click.echo(f"{datetime.now(UTC):%H:%M:%S} {said}", err=True)


def _write(output: Path, sites: list[Site], before: tuple[float, float, float]) -> None:
    document = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "load": {"before": before, "after": os.getloadavg()},
        "sites": [asdict(site) for site in sites],
    }
    output.write_text(json.dumps(document, indent=1) + "\n")


def _show(sites: list[Site]) -> list[str]:
    """A row per figure, a column per size; returns what of ours grew faster than the site."""
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for site in sites:
        table.add_column(f"{site.shape.hosts} hosts", justify="right")
    table.add_column(
        f"of {sites[-1].shape.hosts / sites[0].shape.hosts:.0f} times", justify="right"
    )
    table.add_column("")
    grown = []
    for what in dict.fromkeys(figure.what for site in sites for figure in site.figures):
        row = [next((f for f in site.figures if f.what == what), None) for site in sites]
        faster = _faster([figure for figure in row if figure])
        if faster:
            grown.append(what)
        cells = (*map(_cell, row), _times(row))
        table.add_row(what, *cells, "GROWS" if faster else "")
    Console(width=160).print(table)
    return grown


def _cell(figure: Figure | None) -> str:
    if figure is None:
        return "-"
    if not figure.of:
        return f"{figure.value:.4g} {figure.unit}"
    each, unit = (figure.each * 1000, "ms") if figure.unit == "s" else (figure.each, figure.unit)
    return f"{figure.value:.4g} {figure.unit} ({each:.3g} {unit} a {figure.of})"


def _times(row: list[Figure | None]) -> str:
    """What the largest site has of the smallest one's."""
    first, last = row[0], row[-1]
    if first is None or last is None or first is last or not first.value:
        return ""
    return f"{last.value / first.value:.1f}"


def _faster(row: list[Figure]) -> bool:
    """Whether one object of the largest site costs more than of the one before, by more than such a machine's days differ."""
    if len(row) < 2 or not row[-1].ours or not row[-1].of:
        return False
    return row[-1].each > MOST * row[-2].each


MOST = 1.5


if __name__ == "__main__":
    try:
        main()
    except ApplianceError as error:
        sys.exit(f"{error.message}\n{error.hint}")
