"""Gpt3 runs, as several test modules use it."""

import json
import shlex
from collections.abc import Callable, Sequence

from appliance.adapters.process import Completed
from appliance.benchmarks.batch import Memory
from appliance.benchmarks.gpt3 import run as gpt3
from appliance.benchmarks.gpt3.trial import Request
from appliance.checks.check import View
from appliance.config.load import load_profile
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult, Measurement, Status
from appliance.models.run import Table
from appliance.models.site import Site
from appliance.stages.slurm.site import JobContainer
from tests.support.facts import facts_of
from tests.support.gpt3_logs import megatron, step_times

Answer = Callable[[Sequence[str]], Completed]


GOOD = megatron(step_times(0.5), 8).decode()


class FakeRemote:
    """A Slurm whose jobs end at once as told, and remembers what was asked; ``held``: one that stays in the queue so.

    ``steps``: the srun of each job, with sbatch's options before it.
    """

    def __init__(self, answer: Answer, held: str = "") -> None:
        self.answer, self.held = answer, held
        self.asked: list[tuple[str, ...]] = []
        self.steps: list[tuple[str, ...]] = []
        self.sent = self.script = ""
        self.done: Completed | None = None

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        assert host == ("gpu-1" if argv[0] == "head" else "head")
        self.asked.append(tuple(argv))
        said = getattr(self, f"_{argv[0]}")(argv, (input or b"").decode())
        return said if isinstance(said, Completed) else Completed(tuple(argv), 0, said, "")

    def _sbatch(self, argv: Sequence[str], script: str) -> Completed:
        self.script = script
        line, _, rest = script[script.index("\nsrun ") :].partition(" <<'APPLIANCE_END'\n")
        self.steps.append((*argv, *shlex.split(line.partition(" >/var/")[0])))
        self.sent = rest.partition("\nAPPLIANCE_END\n")[0]
        self.done = self.answer(self.steps[-1])
        return Completed(tuple(argv), 0, f"{len(self.steps)}\n", "")

    def _squeue(self, argv: Sequence[str], _: str) -> str:
        return self.held

    def _sacct(self, argv: Sequence[str], _: str) -> str:
        return "COMPLETED|gpu-[1-2]\n"

    def _scontrol(self, argv: Sequence[str], _: str) -> str:
        return "gpu-1\ngpu-2\n"

    def _scancel(self, argv: Sequence[str], _: str) -> str:
        return ""

    def _head(self, argv: Sequence[str], _: str) -> str:
        assert self.done is not None
        kind = argv[-1].rpartition(".")[2]
        return {
            "code": str(self.done.returncode),
            "out": self.done.stdout,
            "err": self.done.stderr,
        }[kind]


class Patient(Memory):
    """A book whose time passes by waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 0.0

    def now(self) -> float:
        return self.at

    def wait(self, seconds: float) -> bool:
        self.at += seconds
        return False


def says(stdout: str, code: int = 0, stderr: str = "") -> Answer:
    return lambda argv: Completed(tuple(argv), code, stdout, stderr)


def view(
    gpu_hosts: int = 2,
    simulated: bool = True,
    slurm: str = "up",
    container: JobContainer | None = None,
) -> View:
    hosts: list[dict[str, object]] = [
        {"name": "head", "roles": ["control"], "address": "10.0.0.10"}
    ]
    hosts += [
        {"name": f"gpu-{i}", "roles": ["gpu"], "address": f"10.0.0.{20 + i}"}
        for i in range(1, gpu_hosts + 1)
    ]
    site = {
        "version": 1,
        "name": "lab",
        "networks": {"management": {"cidr": "10.0.0.0/24"}},
        "hosts": hosts,
        "simulated": ["gpu"] if simulated else [],
    }
    if container:
        pinned = {"file": "pyxis-0.24.0.tar.gz", "sha256": "0" * 64}
        enroot = [{"file": "enroot.deb", "sha256": "0" * 64}]
        given = {"enroot": enroot, "pyxis": pinned, "benchmark": container.model_dump()}
        site["slurm"] = {"containers": given}
    facts = {"head": _facts(slurm)}
    return View(load_profile("hpc"), Site.model_validate_json(json.dumps(site)), facts)


def _facts(slurm: str) -> HostFacts:
    return facts_of(
        "head",
        slurm={"controller": slurm} if slurm else None,
    )


Trained = tuple[list[CheckResult], list[Measurement], list[Table]]


def trained(seen: View, remote: FakeRemote, request: Request | None = None) -> Trained:
    found = gpt3.run(seen, remote, request, book=Patient())
    return list(found.results), list(found.measurements), list(found.tables)


def losses(results: list[CheckResult]) -> list[Status]:
    return [r.status for r in results if r.id == "gpt3.loss"]


IMAGE = JobContainer(image="nvcr.io#nvidia/pytorch:26.01-py3", mounts=("/data:/data", "/a:/b:ro"))
