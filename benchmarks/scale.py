"""Measures how the program's own cost grows with the number of hosts: real ssh to one sshd that stands for all, as root."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from rich.console import Console
from rich.table import Table

from appliance.errors import ApplianceError
from benchmarks.__main__ import machine
from benchmarks.scale_network import missing, separate
from benchmarks.scale_parts import ILL, PARTS, Bench, Line
from benchmarks.scale_site import write_keys


@click.command()
@click.option(
    "--hosts",
    "sizes",
    multiple=True,
    default=(128, 1000),
    show_default=True,
    type=click.IntRange(2 * ILL + 2, 60_000),
    help="Size of a site that is asked over ssh (repeatable).",
)
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1))
@click.option("--large", default=2_000, show_default=True, help="Size of the plan without ssh.")
@click.option(
    "--part",
    "parts",
    multiple=True,
    type=click.Choice(list(PARTS)),
    help="Only this part (repeatable).",
)
@click.option("--output", type=click.Path(path_type=Path), help="Write every measurement as JSON.")
def main(
    sizes: tuple[int, ...],
    rounds: int,
    large: int,
    parts: tuple[str, ...],
    output: Path | None,
) -> None:
    """Exit: 0 where every target is reached, 1 where one is missed, 2 where this machine lacks something."""
    _require()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    before = os.getloadavg()
    with TemporaryDirectory(prefix="appliance-scale-") as folder:
        separate()
        bench = Bench(Path(folder), sizes, rounds, large)
        write_keys(bench.keys)
        lines = [line for part in parts or PARTS for line in _told(part, PARTS[part](bench))]
    _show(lines)
    if output:
        document = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "load": {"before": before, "after": os.getloadavg()},
            "lines": [asdict(line) for line in lines],
            "rows": [asdict(row) for row in bench.rows],
        }
        output.write_text(json.dumps(document, indent=1) + "\n")
    sys.exit(1 if any(line.is_missed for line in lines) else 0)


def _require() -> None:
    if lacking := missing():
        click.echo(f"missing here: apt-get install {' '.join(lacking)}", err=True)
        sys.exit(2)
    if os.geteuid():
        click.echo("its network of its own needs root", err=True)
        sys.exit(2)


def _told(part: str, lines: Iterator[Line]) -> Iterator[Line]:
    """The lines of a part, said as they come: the whole takes a quarter of an hour."""
    for line in lines:
        click.echo(f"{part}: {line.what}: {line.value:.2f} {line.unit}", err=True)
        yield line


def _show(lines: list[Line]) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in ("measured", "", "at most", ""):
        table.add_column(name, justify="right")
    for line in lines:
        bound = "" if line.bound is None else f"{line.bound:g}"
        missed = "MISSED" if line.is_missed else "met" if bound else ""
        table.add_row(line.what, f"{line.value:.2f}", line.unit, bound, missed)
    Console(width=120).print(table)


if __name__ == "__main__":
    try:
        main()
    except ApplianceError as error:
        sys.exit(f"{error.message}\n{error.hint}")
