"""Measures what it costs to read a training log of any size: the whole command against `grep -c` on the same file."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from benchmarks.timing import Row, alone, interleaved

PROGRAM = str(Path(sys.executable).parent / "appliance")
REDRAWS = 50
BATCH = 256
STEP_MS = 570
"""Of GPT-3 126M on one host, about."""
OTHERS = 9
"""Other lines beside each step in a log of many ranks."""
GREP = {
    "nemo1": r"train_step_timing in s=[0-9.]+",
    "nemo2": r"train_step_timing in s: [0-9.]+",
    "megatron": r"elapsed time per iteration \(ms\): [0-9.]+ \|",
}
GREP["dllogger"] = r'"train_step_timing in s": [0-9.]+'
GREP["megatron of many ranks"] = GREP["megatron"]
AT_MOST = 10.0
"""Times the processor time of grep."""
MEMORY_MIB = 150.0
READ = 3
"""Exit code for a log that was read and of which nobody said what GPU it ran on; one that was not read ends with another."""


def _nemo1() -> Iterator[str]:
    """A progress bar that is redrawn fifty times a step, on a line without end."""
    step = 0
    while True:
        step += 1
        bar = (
            f"\rEpoch 0: : {step}it [{step // 60}:{step % 60:02}:00, v_num=0, reduced_train_loss=2.{step % 997:03}, "
            f"global_step={step - 1}.0, consumed_samples={step * BATCH}.0, train_step_timing in s=0.5{step % 89:02}]"
        )
        yield bar * REDRAWS


def _nemo2() -> Iterator[str]:
    step = 0
    while True:
        yield (
            f"Training epoch 0, iteration {step}/99999999 | lr: 3e-05 | consumed_samples: {(step + 1) * BATCH} | "
            f"global_batch_size: {BATCH} | global_step: {step} | reduced_train_loss: 2.{step % 997:03} | "
            f"train_step_timing in s: 0.5{step % 89:02}\n"
        )
        step += 1


def _dllogger() -> Iterator[str]:
    step = 0
    while True:
        passed = step * STEP_MS / 1000
        data = {
            "reduced_train_loss": 2 + step % 997 / 1000.3,
            "lr": 8.490565960528329e-06,
            "global_step": float(step),
            "consumed_samples": float((step + 1) * BATCH),
            "train_backward_timing in s": 5.416870044427924e-05,
            "grad_norm": 1.2 + step % 97 / 1000.7,
            "train_step_timing in s": STEP_MS / 1000 + step % 89 / 10007.3,
            "epoch": 0,
        }
        told = {
            "timestamp": f"{1.7e9 + passed:.6f}",
            "datetime": "2026-01-01 00:00:00.000000",
            "elapsedtime": f"{passed:.6f}",
            "type": "LOG",
            "step": step,
            "data": data,
        }
        yield f"DLLL {json.dumps(told)}\n"
        step += 1


def _megatron() -> Iterator[str]:
    at, step = datetime(2026, 1, 1), 0
    while True:
        step += 1
        at += timedelta(milliseconds=STEP_MS)
        yield (
            f" [{at:%Y-%m-%d %H:%M:%S}] iteration {step:8d}/99999999 | consumed samples: {step * BATCH:12d} | "
            f"elapsed time per iteration (ms): {STEP_MS + step % 89 / 10:.1f} | "
            f"throughput per GPU (TFLOP/s/GPU): {98 + step % 17 / 10:.1f} | learning rate: 6.000000E-04 | "
            f"global batch size: {BATCH:5d} | lm loss: {2 + step % 997 / 1000:.6E} | loss scale: 1.0 | "
            f"grad norm: {step % 100 / 100:.3f} | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
        )


def _ranks() -> Iterator[str]:
    """A line of a step, then some that the ranks print beside it."""
    for step, line in enumerate(_megatron()):
        yield line
        for rank in range(OTHERS):
            yield (
                f"{rank}: [W socket.cpp:601] [c10d] {step}: no retry of the store is needed here, and its answer came in time; "
                f"the bucket of this rank was reduced beside the backward pass\n"
            )


WRITERS: Mapping[str, Callable[[], Iterator[str]]] = {
    "nemo1": _nemo1,
    "nemo2": _nemo2,
    "dllogger": _dllogger,
    "megatron": _megatron,
    "megatron of many ranks": _ranks,
}


def _write(file: Path, kind: str, size: float) -> None:
    file.parent.mkdir(parents=True)
    with file.open("w") as into:
        for text in WRITERS[kind]():
            into.write(text)
            if into.tell() >= size:
                break
        into.write("\n")


@click.command()
@click.option("--gib", default=2.0, show_default=True, help="Size of each log.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1))
@click.option(
    "--kind", "kinds", multiple=True, type=click.Choice(list(WRITERS)), help="Only these."
)
def main(gib: float, rounds: int, kinds: tuple[str, ...]) -> None:
    """Exit: 0 where every target is reached, 1 where one is missed."""
    missed = False
    for kind in kinds or WRITERS:
        with TemporaryDirectory(prefix="appliance-logs-") as folder:
            file = Path(folder) / "126m" / "bare-metal" / "1n.log"
            _write(file, kind, gib * (1 << 30))
            ours, grep = _measured(kind, file, Path(folder), rounds)
        ratio = ours.cpu / grep.cpu
        missed |= ratio > AT_MOST or ours.peak > MEMORY_MIB
        click.echo(
            f"{kind:<24} {ours.cpu:6.1f} s of CPU, {ours.peak:4.0f} MiB; grep -c {grep.cpu:5.2f} s, "
            f"{grep.peak:5.0f} MiB: {ratio:4.1f} times"
        )
    sys.exit(missed)


def _measured(kind: str, file: Path, folder: Path, rounds: int) -> tuple[Row, ...]:
    ours = (PROGRAM, "validate", "gpt3", "--from-logs", str(folder))
    grep = ("grep", "-cE", GREP[kind], str(file))
    return interleaved(
        rounds,
        [
            ("ours", lambda: alone(ours, folder / "out", ends=(READ,))),
            ("grep", lambda: alone(grep, folder / "out")),
        ],
    )


if __name__ == "__main__":
    main()
