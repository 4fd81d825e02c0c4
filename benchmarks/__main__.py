"""Measures a deployment that finds nothing to do against ansible-playbook over the same playbooks, on three hosts."""

import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from appliance.actions.sites.opening import Target, runs_of
from appliance.adapters.process import Completed, run
from appliance.errors import ApplianceError
from appliance.journal import Journal
from benchmarks.ansible_side import playbooks
from benchmarks.probe_side import probes
from benchmarks.timing import Row, interleaved

PROGRAM = str(Path(sys.executable).parent / "appliance")
RACK = "benchmark"
BAR = 20.0
"""How many times faster a deployment without changes must be than ansible-playbook."""


@click.command()
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(3))
@click.option(
    "--site",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A deployed site. Without it: a rack of three hosts, raised, deployed and removed.",
)
@click.option("--output", type=click.Path(path_type=Path), help="Write every measurement as JSON.")
def main(rounds: int, site: Path | None, output: Path | None) -> None:
    """Exit: 0 where a deployment without changes is at least twenty times as fast as ansible-playbook, 1 where not."""
    with _deployed(site) as folder:
        rows, tasks = _measure(folder, rounds)
    deploy, ansible = rows[0], rows[1]
    ratio = ansible.wall / deploy.wall
    _show(rows, tasks, ratio)
    if output:
        document: dict[str, object] = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "ratio": round(ratio, 2),
            "tasks": tasks,
            "rows": [asdict(row) for row in rows],
        }
        output.write_text(json.dumps(document, indent=1) + "\n")
    sys.exit(0 if ratio >= BAR else 1)


def machine() -> dict[str, object]:
    """What it was measured on."""
    release = platform.freedesktop_os_release()["PRETTY_NAME"]
    return {"processors": os.cpu_count(), "system": release, "kernel": platform.release()}


def _measure(site: Path, rounds: int) -> tuple[tuple[Row, ...], int]:
    at = ("--site", str(site))
    with playbooks(site, tuned=False) as other, playbooks(site, tuned=True) as tuned:
        tasks = other.tasks()
        works = (
            ("deploy, nothing to do", lambda: _idle(site)),
            ("ansible-playbook, nothing to do", other.run),
            ("the same as a deployment sets it", tuned.run),
            ("plan", lambda: _program("plan", *at)),
            ("health", lambda: _program("health", *at)),
            ("start (--version)", lambda: _program("--version")),
        )
        _idle(site)
        rows = interleaved(rounds, works)
    return rows + probes(site, rounds), tasks


def _idle(site: Path) -> None:
    """A deployment that must not start a single stage."""
    _program("deploy", "--site", str(site), "--yes")
    with Journal(runs_of(Target(site))) as journal:
        last = journal.last("run_started")
        if last is None or list(journal.entries("host_started", run=last.run)):
            raise SystemExit("deploy was not idle: the site is not as it was left")


def _program(*argv: str, timeout: float = 300) -> Completed:
    return run((PROGRAM, *argv), timeout=timeout)


@contextmanager
def _deployed(site: Path | None) -> Iterator[Path]:
    if site:
        yield site
        return
    try:
        up = _program("lab", "up", "--name", RACK, "--count", "3", "--json", timeout=900)
        folder = Path(json.loads(up.stdout)["site"])
        click.echo("Deploying a rack of three hosts, about 3 min", err=True)
        _program("deploy", "--site", str(folder), "--yes", timeout=1200)
        yield folder
    finally:
        _program("lab", "down", "--name", RACK)


def _show(rows: tuple[Row, ...], tasks: int, ratio: float) -> None:
    table = Table("", box=None, pad_edge=False)
    for name in ("wall s", "least", "most", "CPU s"):
        table.add_column(name, justify="right")
    for row in rows:
        least, most = row.spread
        table.add_row(row.name, *(f"{v:.2f}" for v in (row.wall, least, most, row.cpu)))
    console = Console()
    console.print(table)
    console.print(
        f"\nMedians of {len(rows[0].costs)} rounds. ansible-playbook reported {tasks} results, none changed.\n"
        f"deploy is {ratio:.1f} times as fast (the bar: {BAR:.0f})."
    )


if __name__ == "__main__":
    try:
        main()
    except ApplianceError as error:
        sys.exit(f"{error.message}\n{error.hint}")
