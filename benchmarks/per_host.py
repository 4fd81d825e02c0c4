"""What one more host costs a deployment from nothing: racks of several sizes, a line through all but the largest, held against that one."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import linear_regression, median
from tempfile import TemporaryDirectory

import click
from rich.console import Console
from rich.table import Table

from appliance.actions.sites.opening import Target, runs_of
from appliance.adapters.forks import forks
from appliance.adapters.process import run
from appliance.errors import ApplianceError
from appliance.journal import Journal
from benchmarks.__main__ import PROGRAM, machine
from benchmarks.timing import Cost, alone

RACK = "per-host"
HEAD, GPU_HOST = "head", "gpu-1"
ASKED = (350, 1000)
"""Sizes no machine of ours can raise, told by the line."""
TOLERANCE = 0.15
"""How far the largest rack may be from the line through the others."""
LIMIT = 3600.0
INSTALLED = {"PYTHONDONTWRITEBYTECODE": ""}
"""Bytecode and packed modules are kept, as in an installation: where a developer's shell forbids that, each playbook compiles and packs anew."""


@dataclass(frozen=True)
class Deployment:
    """One deployment from nothing. ``results``: of Ansible's tasks, by stage on the head and on one GPU host."""

    hosts: int
    cost: Cost
    results: dict[str, tuple[int, int]]
    seconds: dict[str, float]
    """By stage: what it took a host, as the median of all that had it."""

    @property
    def all_results(self) -> int:
        """Of all tasks on all hosts; GPU hosts are alike."""
        return sum(head + gpu * (self.hosts - 1) for head, gpu in self.results.values())


@dataclass(frozen=True)
class Model:
    """Processor seconds of the control machine: ``fixed + per_host * hosts``."""

    fixed: float
    per_host: float

    def of(self, hosts: int) -> float:
        """Of a site of so many hosts."""
        return self.fixed + self.per_host * hosts


@click.command()
@click.option(
    "--hosts",
    "sizes",
    multiple=True,
    default=(3, 6, 12),
    show_default=True,
    type=click.IntRange(2),
    help="Sizes of racks; the line goes through all but the largest.",
)
@click.option("--output", type=click.Path(path_type=Path), help="Write every measurement as JSON.")
def main(sizes: tuple[int, ...], output: Path | None) -> None:
    """Exit: 0 where the largest rack costs what the others foretell, within 15 %; 1 where not."""
    if len(set(sizes)) < 3:
        raise click.UsageError(
            "--hosts: give three sizes at least: two make the line, one tests it"
        )
    # The first deployment of an installation packs Ansible's modules, whatever its size.
    _deployment(min(sizes))
    made = [_deployment(size) for size in sorted(set(sizes))]
    model = fit(made[:-1])
    off = made[-1].cost.cpu / model.of(made[-1].hosts) - 1
    _show(made, model, off)
    if output:
        document = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "deployments": [asdict(one) for one in made],
            "model": asdict(model),
            "off": round(off, 3),
        }
        output.write_text(json.dumps(document, indent=1) + "\n")
    sys.exit(0 if abs(off) <= TOLERANCE else 1)


def fit(made: list[Deployment]) -> Model:
    """The line through these deployments, by least squares."""
    line = linear_regression([one.hosts for one in made], [one.cost.cpu for one in made])
    return Model(line.intercept, line.slope)


def _deployment(hosts: int) -> Deployment:
    click.echo(f"Deploying a rack of {hosts} hosts", err=True)
    with _rack(hosts) as site, TemporaryDirectory() as folder:
        argv = (PROGRAM, "deploy", "--site", str(site), "--yes")
        # 3: deployed, and nobody has measured what its class promises.
        cost = alone(argv, Path(folder) / "out", ends=(0, 3), env=INSTALLED, timeout=LIMIT)
        return Deployment(hosts, cost, *_told(site))


@contextmanager
def _rack(hosts: int) -> Iterator[Path]:
    try:
        argv = ("lab", "up", "--name", RACK, "--count", str(hosts), "--json")
        yield Path(json.loads(run((PROGRAM, *argv), timeout=LIMIT).stdout)["site"])
    finally:
        run((PROGRAM, "lab", "down", "--name", RACK), timeout=LIMIT)


def _told(site: Path) -> tuple[dict[str, tuple[int, int]], dict[str, float]]:
    counted: dict[str, dict[str, int]] = {}
    seconds: dict[str, list[float]] = {}
    with Journal(runs_of(Target(site))) as journal:
        for entry in journal.entries("host_done"):
            counted.setdefault(entry.stage, {})[entry.host] = int(str(entry.data["tasks"]))
            seconds.setdefault(entry.stage, []).append(float(str(entry.data["seconds"])))
    results = {stage: (on.get(HEAD, 0), on.get(GPU_HOST, 0)) for stage, on in counted.items()}
    return results, {stage: median(took) for stage, took in seconds.items()}


def _show(made: list[Deployment], model: Model, off: float) -> None:
    console = Console()
    sizes = Table("hosts", box=None, pad_edge=False)
    for name in ("wall s", "CPU s", "CPU s a host", "results", "CPU ms a result"):
        sizes.add_column(name, justify="right")
    for one in made:
        each = one.cost.cpu / one.hosts
        result = one.cost.cpu / one.all_results * 1000
        told = (f"{one.cost.wall:.0f}", f"{one.cost.cpu:.1f}", f"{each:.1f}")
        sizes.add_row(str(one.hosts), *told, str(one.all_results), f"{result:.0f}")
    console.print(sizes)
    stages = Table("stage", box=None, pad_edge=False)
    for name in ("results on the head", "on a GPU host", *(f"s at {one.hosts}" for one in made)):
        stages.add_column(name, justify="right")
    for stage, (head, gpu) in made[0].results.items():
        took = (f"{one.seconds.get(stage, 0):.0f}" for one in made)
        stages.add_row(stage, str(head), str(gpu), *took)
    console.print("", stages)
    console.print(
        f"\nCPU of the control machine: {model.fixed:.1f} s and {model.per_host:.2f} s a host; "
        f"the rack of {made[-1].hosts} took {off:+.0%} of that (at most {TOLERANCE:.0%} off)."
    )
    for hosts in ASKED:
        at_once = f"at most {forks(hosts)} hosts of a stage at once"
        console.print(f"{hosts} hosts: {model.of(hosts) / 60:.0f} min of CPU, {at_once}")


if __name__ == "__main__":
    try:
        main()
    except ApplianceError as error:
        sys.exit(f"{error.message}\n{error.hint}")
