"""A Slurm whose jobs end at once: what their step prints lies on the first host, until somebody reads it."""

import shlex
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

from appliance.adapters.process import Completed

LONGEST = 1024
"""Bytes of a line that srun --label prints as one (Slurm 22.05)."""


def answer(host: str, text: str, code: int = 0) -> str:
    """What a task prints in its wrapper."""
    body = b64encode(text.encode()).decode()
    size = len(text.encode())
    return f"appliance-begin host={host}\n{body}\nappliance-end code={code} size={size}\n"


def lacking(host: str, tool: str) -> str:
    """What it prints where a tool is missing."""
    return f"appliance-begin host={host}\nappliance-missing={tool}\n"


def labelled(*said: str, first: int = 0) -> str:
    """As srun prints what its tasks say, numbered from ``first`` on."""
    lines = [
        f"{number}: {line[at : at + LONGEST]}"
        for number, text in enumerate(said, first)
        for line in text.splitlines()
        for at in range(0, max(1, len(line)), LONGEST)
    ]
    return "\n".join(lines)


def changed(done: Completed, change: Callable[[str], str], only: str = "") -> Completed:
    """The same step, of which the output of each task, or of host ``only``, is another."""
    tasks: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        number, _, text = line.partition(": ")
        tasks.setdefault(number, []).append(text)
    told = []
    for number, (begin, *body, _) in tasks.items():
        host, text = begin.partition("host=")[2], b64decode("".join(body)).decode()
        text = change(text) if only in {"", host} else text
        told.append(labelled(answer(host, text), first=int(number)))
    return Completed(done.argv, 0, "\n".join(told), "")


class Batches:
    """``step`` is overridden: what srun says, given its own words and before them the options of sbatch."""

    def __init__(self) -> None:
        self.done: dict[str, Completed] = {}
        self.nodes: dict[str, str] = {}

    def step(self, argv: Sequence[str]) -> Completed:
        """The end of the job's only step."""
        raise NotImplementedError

    def elsewhere(self, host: str, argv: Sequence[str]) -> Completed:
        """A program on a host that is not Slurm's."""
        raise AssertionError(f"nobody asks {host} for {argv}")

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        """See Remote."""
        own = {"sbatch", "squeue", "sacct", "scontrol", "scancel", "head"}
        if argv[0] not in own:
            return self.elsewhere(host, argv)
        said = getattr(self, f"_{argv[0]}")(tuple(argv), (input or b"").decode())
        return said if isinstance(said, Completed) else Completed(tuple(argv), 0, said, "")

    def _sbatch(self, argv: tuple[str, ...], script: str) -> str:
        name = value(argv, "--job-name")
        line = script[script.index("\nsrun ") + 1 :].partition(f" >/var/lib/appliance/jobs/{name}")
        self.nodes[name] = value(argv, "--nodelist")
        self.done[name] = self.step((*argv, *shlex.split(line[0])))
        return f"{len(self.done)}\n"

    def _squeue(self, argv: tuple[str, ...], _: str) -> str:
        return ""

    def _sacct(self, argv: tuple[str, ...], _: str) -> str:
        number = int(value(argv, "--jobs"))
        return f"COMPLETED|{list(self.nodes.values())[number - 1]}\n"

    def _scontrol(self, argv: tuple[str, ...], _: str) -> str:
        return argv[-1].replace(",", "\n")

    def _scancel(self, argv: tuple[str, ...], _: str) -> str:
        return ""

    def _head(self, argv: tuple[str, ...], _: str) -> str:
        file = PurePosixPath(argv[-1])
        done = self.done[file.stem]
        return {".code": str(done.returncode), ".out": done.stdout, ".err": done.stderr}[
            file.suffix
        ]


def value(argv: Sequence[str], option: str) -> str:
    """Of the first such option."""
    return next(a for a in argv if a.startswith(f"{option}=")).partition("=")[2]
