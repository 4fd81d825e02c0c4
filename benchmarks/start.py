"""Measures what the program costs before it does anything: processor time of command lines that ask no host."""

import compileall
import sys
from functools import partial
from pathlib import Path

import click

import appliance
from appliance.adapters.process import run
from benchmarks.timing import interleaved

PROGRAM = str(Path(sys.executable).parent / "appliance")
LINES = ("--version", "--help", "completion bash", "plan --help", "health --help", "profile list")


@click.command()
@click.option("--rounds", default=9, show_default=True, type=click.IntRange(3))
def main(rounds: int) -> None:
    """Compiles the program's modules, then prints medians."""
    compileall.compile_dir(str(Path(appliance.__file__).parent), quiet=2)
    works = [(line, partial(run, (PROGRAM, *line.split()))) for line in LINES]
    works.append(("python", partial(run, (sys.executable, "-c", "pass"))))
    interleaved(1, works)
    for row in interleaved(rounds, works):
        click.echo(f"{row.name:<16} {row.cpu:.3f} s of CPU, {row.wall:.3f} s")


if __name__ == "__main__":
    main()
