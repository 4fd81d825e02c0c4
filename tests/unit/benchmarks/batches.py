"""A Slurm whose jobs end at once: what their step prints lies on the first host, until somebody reads it."""

import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

from appliance.adapters.process import Completed


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
