"""One training: its model, its number of hosts, and its job."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from appliance.benchmarks.batch import Batch
from appliance.benchmarks.gpt3.launch import (
    GPUS,
    MINUTES,
    PLATFORM,
    PORT,
    Training,
    arguments,
    divides,
    launch,
)
from appliance.benchmarks.gpt3.launch import (
    STEPS as WHOLE,
)
from appliance.benchmarks.gpt3.reference import load
from appliance.benchmarks.gpt3.throughput import of_size
from appliance.models.result import Place
from appliance.stages.slurm.site import JobContainer

SMALL = "cpu-3m"
"""The model that is trained on processors: 2.7 million parameters."""
SEQUENCE, STEPS, BATCH = 32, 12, 8
SECONDS = 240.0
TIMEOUT = 600
"""Time in s for which ranks on GPUs wait for one that does not respond."""
SCRIPT = Path(__file__).with_name("train.py")
_DIED = re.compile(r"srun: error: ([\w.-]+): tasks? ([\d,-]+): (.+)")
_NAMED = re.compile(
    r"^appliance: rank (\d+)(?: on ([\w.-]+))? (does not respond|never started)$", re.M
)
_OWN = re.compile(r"^appliance: (rank \d+ on [\w.-]+: .+)$", re.M)
_TAKEN_ALONG = re.compile(r"Terminated|Exited with exit code (15|143)")


class Framework(StrEnum):
    """The software that trains a GPU model: NVIDIA's in its container, or PyTorch alone as installed on the hosts."""

    NEMO = "nemo"
    PYTORCH = "pytorch"


@dataclass(frozen=True)
class Request:
    """The requested training: a GPU model of launch.yml, or the small one; ``nodes`` () for 1, 2, 4 ... all hosts.

    ``image``: the image in which pods train a GPU model, "" for NeMo's.
    """

    model: str = SMALL
    nodes: tuple[int, ...] = ()
    image: str = ""
    framework: Framework = Framework.NEMO

    def divides(self, nodes: int, gpus: int = GPUS) -> bool:
        """Whether the global batch can be divided among so many hosts with ``gpus`` each."""
        if self.model == SMALL:
            return BATCH % nodes == 0
        return divides(self.model, nodes, gpus)


@dataclass(frozen=True)
class Trial:
    """One training: its scheduler, its number of hosts, and its time limit in s. ``hosts``: those of Kubernetes, () for Slurm."""

    control: str
    partition: str
    nodes: int
    name: str
    deadline: float
    container: JobContainer | None = None
    model: str = SMALL
    hosts: tuple[str, ...] = ()
    framework: Framework = Framework.NEMO
    gpus: int = GPUS

    @property
    def platform(self) -> str:
        """Its name in results and tables."""
        return PLATFORM["kubernetes" if self.hosts else "slurm"]

    @property
    def on_gpus(self) -> bool:
        """Whether its values describe GPUs."""
        return self.model != SMALL

    @property
    def target(self) -> Place:
        """The target of its results."""
        return of_size(self.model, self.platform, self.nodes)

    @property
    def where(self) -> str:
        """The environment of the training, for display."""
        return f" in {self.container.image}" if self.container else ""

    @property
    def key(self) -> str:
        """The name by which its job is found again."""
        return f"{self.model} {self.nodes}n"

    def batch(self) -> Batch:
        """Returns the job; on GPUs, the same as ``files`` of launch writes into job files."""
        minutes = math.ceil(self.deadline / 60) + 1
        options = (
            *(f"--partition={self.partition}", f"--nodes={self.nodes}", f"--time={minutes}"),
            *self._tasks(),
        )
        step = ("srun", *self._step(), *self._contained(), *self._command())
        return Batch(
            options,
            step,
            tuple(self._exports()),
            SCRIPT.read_text(encoding="utf-8") if self._sends else "",
        )

    @property
    def _sends(self) -> bool:
        """Whether every task gets the program over standard input, so that no shared file system is needed. NeMo has its own."""
        return not self.on_gpus or self.framework is Framework.PYTORCH

    def _tasks(self) -> Iterator[str]:
        if self.on_gpus:
            tasks = f"--ntasks-per-node={self.gpus}"
            yield from (tasks, f"--gpus-per-node={self.gpus}", "--exclusive")
        else:
            yield "--ntasks-per-node=1"

    def _step(self) -> Iterator[str]:
        yield from ("--kill-on-bad-exit=1", "--quiet")
        if self._sends:
            yield "--input=all"

    def _exports(self) -> Iterator[str]:
        if not self._sends:
            yield from (f"export {key}={value}" for key, value in launch().environment.items())
            first = 'scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1'
            yield from (f"export MASTER_ADDR=$({first})", f"export MASTER_PORT={PORT}")

    def _contained(self) -> Iterator[str]:
        if self.container:
            yield f"--container-image={self.container.image}"
            if self.container.mounts:
                yield f"--container-mounts={','.join(self.container.mounts)}"

    def _command(self) -> Iterator[str]:
        if not self.on_gpus:
            yield from small("-")
        elif self._sends:
            yield from ("python3", "-u", "-", *plain(self.model))
        else:
            training = Training(self.model, self.nodes, "", "")
            yield from ("python3", "-u", launch().script, *arguments(training))


def small(*program: str) -> tuple[str, ...]:
    """Arguments of the small model's training, with Python's own expression for the location of its program."""
    return ("python3", "-u", *program, f"--steps={STEPS}", f"--sequence={SEQUENCE}")


def plain(model: str) -> Iterator[str]:
    """Arguments for training a published model on GPUs by PyTorch alone. Its learning rate is constant."""
    gpt, recipe = load().models[model], launch().models[model]
    values = {
        "steps": WHOLE,
        "global-batch": gpt.global_batch,
        "micro-batch": recipe.micro_batch,
        "sequence": gpt.sequence,
        "layers": gpt.layers,
        "hidden": gpt.hidden,
        "heads": gpt.heads,
        "vocabulary": gpt.embedding,
        "rate": recipe.learning_rate,
        "timeout": TIMEOUT,
    }
    yield "--gpus"
    yield from (f"--{key}={value}" for key, value in values.items())


def deadline_of(model: str) -> float:
    """Time limit of a training in s, including the time in the queue."""
    return SECONDS if model == SMALL else MINUTES * 60.0


def died(errors: str) -> str:
    """Returns the task of a step that failed first, as srun names it: "task 1 on gpu-2: Killed"; "" if it names none.

    srun ends the others (--kill-on-bad-exit), or they fail because a peer ended. A signal is more informative than their exit code.
    """
    found = [m.groups() for m in _DIED.finditer(errors)]
    own = [one for one in found if not _TAKEN_ALONG.match(one[2])] or found
    killed = [one for one in own if not one[2].startswith("Exited")]
    host, task, how = next(iter(killed or own), ("", "", ""))
    return f"task {task} on {host}: {how.strip()}" if host else ""


def named_by_others(said: str, hosts: Sequence[str] = ()) -> str:
    """Returns the rank for which the others wait, as one of them reports: "rank 1 on gpu-2 does not respond"; "" if none reports it.

    ``hosts``: by rank, for a rank that never joined and therefore never reported its host.
    """
    found = _NAMED.search(said)
    if found is None:
        return ""
    number = int(found[1])
    host = found[2] or (hosts[number] if number < len(hosts) else "")
    return f"rank {number}{f' on {host}' if host else ''} {found[3]}"


def told_by_itself(said: str, first: str) -> str:
    """Returns the error that a rank reports: "rank 1 on gpu-2: CUDA error ..."; "" if it reports none.

    ``first``: the task that ended first, as ``died`` names it; others may report lost connections to it. "": any.
    """
    whose = first.replace("task ", "rank ", 1).partition(":")[0]
    lines = (found[1] for found in _OWN.finditer(said))
    return next((line for line in lines if not first or line.startswith(f"{whose}: ")), "")
