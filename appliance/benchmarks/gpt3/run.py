"""Trains a small GPT through Slurm on the appliance's hosts: proves launch, rendezvous and log reading there."""

import math
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appliance.adapters.process import Completed
from appliance.adapters.remote import Remote
from appliance.benchmarks.gpt3 import logs, steps, tables
from appliance.benchmarks.gpt3.judge import THROUGHPUT, judge
from appliance.benchmarks.gpt3.reference import load
from appliance.benchmarks.gpt3.throughput import Run, of_size
from appliance.checks.check import View, failed, judged, not_assessed, passed
from appliance.errors import ConnectionFailed, DeadlineExceeded
from appliance.models.result import CheckResult, Measurement, Place, Status
from appliance.models.run import Table
from appliance.models.site import Owner, Role
from appliance.stages.slurm.site import JobContainer

LOSS = "gpt3.loss"
MODEL = "cpu-3m"
SEQUENCE = 32
STEPS = 12
NO_TORCH = 75
SCRIPT = Path(__file__).with_name("train.py")
UNREAL = "trained on processors: proves launch, rendezvous and log reading, says nothing of a GPU"
GET_TORCH = (
    "install python3-torch on the GPU hosts (Debian and Ubuntu package; on RHEL: pip install torch)"
)
NOBODY = "every GPU host is of Kubernetes, so Slurm has none to train on"
NOT_STARTED = "free the hosts (squeue) or resume them (sinfo -R), then validate again"
TOO_SLOW = "see what else runs on the hosts; libopenblas0-pthread beside python3-torch makes steps 20 times shorter"
NO_PYXIS = "appliance health --check slurm.pyxis --check slurm.enroot; on {control}: sinfo -R"
GET_IMAGE = "fetch the image once with srun --container-image={image} true, then validate again"
Outcome = tuple[list[CheckResult], list[Measurement], list[Table]]


@dataclass(frozen=True)
class Trial:
    """One training through Slurm: where it is submitted, how many hosts, and its bound in s."""

    control: str
    partition: str
    nodes: int
    name: str
    deadline: float
    container: JobContainer | None = None

    @property
    def target(self) -> Place:
        """What results of it speak of."""
        return of_size(MODEL, "bare-metal", self.nodes)

    def argv(self) -> tuple[str, ...]:
        """srun hands its standard input, the training script, to every task: no shared file system needed."""
        minutes = math.ceil(self.deadline / 60) + 1
        return (
            *("srun", f"--job-name={self.name}", f"--partition={self.partition}"),
            *(f"--nodes={self.nodes}", "--ntasks-per-node=1", f"--time={minutes}"),
            *("--input=all", "--kill-on-bad-exit=1", "--quiet"),
            *self._contained(),
            *("python3", "-u", "-", f"--steps={STEPS}", f"--sequence={SEQUENCE}"),
        )

    def _contained(self) -> Iterator[str]:
        if self.container:
            yield f"--container-image={self.container.image}"
            if self.container.mounts:
                yield f"--container-mounts={','.join(self.container.mounts)}"

    @property
    def where(self) -> str:
        """What the training runs in, for what is shown."""
        return f" in {self.container.image}" if self.container else ""


def run(view: View, remote: Remote, deadline: float = 240.0) -> Outcome:
    """Trains on 1, 2, 4 ... hosts; each training has ``deadline`` seconds, waiting in the queue included.

    The figures gate nothing; gpt3.loss says whether training works through Slurm at all.
    """
    if why := _unready(view):
        return [not_assessed(LOSS, "cluster", why, fix="appliance deploy")], [], []
    if not view.site.gpu_hosts_of(Owner.SLURM):
        return [not_assessed(LOSS, "cluster", NOBODY, required=False)], [], []
    results: list[CheckResult] = []
    runs: list[Run] = []
    for trial in _trials(view, deadline):
        verdict, measured = _attempt(trial, remote)
        results.append(verdict)
        if measured is None:
            break
        runs.append(measured)
    reference = load()
    # A processor's figure is no simulated one where the site's hardware is real.
    results += [
        result.model_copy(update={"simulated": bool(view.site.simulated)})
        for result in judge(runs, reference, view.limit(THROUGHPUT))
    ]
    return results, list(tables.measurements(runs, reference)), list(tables.tables(runs, reference))


def _unready(view: View) -> str:
    control = view.site.with_role(Role.CONTROL)
    if not control or not view.site.with_role(Role.GPU):
        return "the site has no control host or no GPU host"
    facts = view.facts.get(control[0].name)
    if facts is None:
        return f"{control[0].name} did not answer"
    if facts.slurm is None or facts.slurm.controller != "up":
        said = facts.slurm.controller if facts.slurm else "it is not installed"
        return f"Slurm does not answer on {control[0].name}: {said or 'no answer'}"
    return ""


def _trials(view: View, deadline: float) -> Iterator[Trial]:
    hosts = len(view.site.gpu_hosts_of(Owner.SLURM))
    partitions = view.site.slurm.partitions
    partition = next((p.name for p in partitions if p.default), partitions[0].name)
    token = uuid.uuid4().hex[:8]
    nodes = 1
    while nodes <= hosts:
        control = view.site.with_role(Role.CONTROL)[0].name
        name = f"appliance-gpt3-{token}-{nodes}n"
        yield Trial(control, partition, nodes, name, deadline, _container(view))
        nodes *= 2


def _container(view: View) -> JobContainer | None:
    given = view.site.slurm.containers
    return given.benchmark if given else None


def _attempt(trial: Trial, remote: Remote) -> tuple[CheckResult, Run | None]:
    try:
        done = remote.run(
            trial.control, trial.argv(), input=SCRIPT.read_bytes(), timeout=trial.deadline
        )
    except DeadlineExceeded:
        return _overdue(trial, remote), None
    except ConnectionFailed as error:
        _cancel(trial, remote)
        return _error(trial, error.told_of(), error.hint), None
    if done.returncode == NO_TORCH or "appliance: no torch" in done.stdout:
        image = trial.container.image if trial.container else ""
        fix = f"choose an image with PyTorch: {image} has none" if image else GET_TORCH
        # A host need not have PyTorch; a container that was chosen for training must.
        return not_assessed(LOSS, trial.target, _said(done), required=bool(image), fix=fix), None
    if done.returncode:
        fix = f"on {trial.control}: sinfo -R; on the host it names: journalctl -u slurmd"
        if trial.container:
            fix = NO_PYXIS.format(control=trial.control)
        return _error(trial, f"srun ended with {done.returncode}: {_said(done)}", fix), None
    return _read(trial, done)


def _read(trial: Trial, done: Completed) -> tuple[CheckResult, Run | None]:
    try:
        log = logs.parse(done.stdout, f"srun on {trial.control}, {trial.nodes}n")
        selection = steps.select(log)
    except steps.UnusableLog as error:
        return _error(trial, error.message, error.hint), None
    diverged = next((f"{r.reason}, line {r.line}" for r in log.refused.first if r.diverged), "")
    measured = Run(
        model=MODEL,
        platform="bare-metal",
        nodes=trial.nodes,
        gpus_per_node=1,
        global_batch=log.global_batch or 1,
        sequence=SEQUENCE,
        seconds=selection.seconds,
        deviation=selection.deviation,
        used=len(selection.steps),
        rule=selection.rule,
        source=f"{log.source}:{selection.lines}",
        family=log.family,
        diverged=diverged,
        unreal=UNREAL,
    )
    return _loss(trial, log, diverged), measured


def _loss(trial: Trial, log: steps.Log, diverged: str) -> CheckResult:
    losses = [step.loss for step in log.steps if step.loss is not None]
    fix = "compare with a run on one host, then look at that host's memory and the fabric between the hosts"
    if diverged:
        return failed(LOSS, trial.target, f"the training diverged: {diverged}", fix)
    if len(losses) < 2 or len(log.steps) < STEPS:
        return _error(trial, f"{len(losses)} losses of {STEPS} steps printed", fix)
    shown: dict[str, Any] = {
        "value": round(losses[-1], 3),
        "limit": round(losses[0], 3),
        "limit_source": "the first step's loss: training must lower it",
        "evidence": f"{len(losses)} steps on {trial.nodes} hosts{trial.where}, loss {losses[0]:.3f} to {losses[-1]:.3f}",
    }
    if losses[-1] < losses[0]:
        return passed(LOSS, trial.target, **shown)
    return failed(LOSS, trial.target, "the loss does not fall", fix, **shown)


def _overdue(trial: Trial, remote: Remote) -> CheckResult:
    state = _ask(trial, remote, "squeue", "--noheader", f"--name={trial.name}", "--format=%T (%r)")
    _cancel(trial, remote)
    cause = f"not done within {trial.deadline:g} s; the job was {state or 'no longer in the queue'} and has been cancelled"
    slow = GET_IMAGE.format(image=trial.container.image) if trial.container else TOO_SLOW
    return _error(trial, cause, slow if state.startswith("RUNNING") else NOT_STARTED)


def _cancel(trial: Trial, remote: Remote) -> None:
    _ask(trial, remote, "scancel", f"--name={trial.name}")


def _ask(trial: Trial, remote: Remote, *argv: str) -> str:
    try:
        return remote.run(trial.control, argv, timeout=20).stdout.strip().partition("\n")[0]
    except (ConnectionFailed, DeadlineExceeded):
        return ""


def _error(trial: Trial, cause: str, fix: str) -> CheckResult:
    return judged(LOSS, trial.target, Status.ERROR, cause=cause, fix=fix)


def _said(done: Completed) -> str:
    ours = [line for line in done.stdout.splitlines() if line.startswith("appliance: ")]
    other = done.stderr.strip().splitlines() or done.stdout.strip().splitlines()
    return (ours[0].removeprefix("appliance: ") if ours else other[-1] if other else "no output")[
        :300
    ]
