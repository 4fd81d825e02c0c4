"""Trains a GPT on the appliance's hosts through Slurm or Kubernetes: a small one on processors, or a published one on GPUs.

The small one tests launch, rendezvous and log reading. The same steps start, limit, end and read the published one.
"""

import uuid
from collections.abc import Iterator
from typing import Any

from appliance.adapters.pods import OtherGpus, PodRemote
from appliance.adapters.process import Completed
from appliance.adapters.remote import Remote
from appliance.benchmarks.batch import Book, Job, JobLeft, Memory, Unended, through
from appliance.benchmarks.benchmark import Outcome, Raw, gpu_models
from appliance.benchmarks.gpt3 import launch, logs, recorded, steps, tables
from appliance.benchmarks.gpt3.described import Hardware, Recorded
from appliance.benchmarks.gpt3.judge import THROUGHPUT, judge
from appliance.benchmarks.gpt3.pods import in_pods
from appliance.benchmarks.gpt3.reference import load
from appliance.benchmarks.gpt3.throughput import Run
from appliance.benchmarks.gpt3.trial import (
    SEQUENCE,
    SMALL,
    STEPS,
    Framework,
    Request,
    Trial,
    deadline_of,
    died,
    named_by_others,
    told_by_itself,
)
from appliance.checks.check import View, failed, judged, not_assessed, passed
from appliance.errors import ConnectionFailed, DeadlineExceeded
from appliance.models.gpu_counts import gpu_least
from appliance.models.result import CheckResult, Status
from appliance.models.site import Owner, Role
from appliance.stages.slurm.site import JobContainer
from appliance.stages.slurm.variables import partition_of
from appliance.text import plural

LOSS = "gpt3.loss"
NO_TORCH = 75
UNREAL = "trained on CPUs: tests launch, rendezvous and log reading, but no GPU"
GET_TORCH = (
    "install python3-torch on the GPU hosts (Debian and Ubuntu package; on RHEL: pip install torch)"
)
NO_GPU = "appliance: no GPU "
SEES_NONE = "appliance health --check gpu; PyTorch on the host must use a CUDA release that the driver supports (pip install torch); with MIG, it sees one instance only"
NOBODY = "Kubernetes owns every GPU host, so Slurm has none for a training"
IN_CLUSTER = "appliance validate gpt3 --through kubernetes"
NOT_STARTED = "free the hosts (squeue) or resume them (sinfo -R), then validate again"
TOO_SLOW = "check for other programs on the hosts; libopenblas0-pthread, installed with python3-torch, makes steps 20 times shorter"
IN_PODS = "check on that host dmesg (out of memory) and journalctl -u kubelet; between hosts: appliance health --check kubernetes"
NO_PYXIS = "appliance health --check slurm.pyxis --check slurm.enroot; on {control}: sinfo -R"
GET_IMAGE = "fetch the image once with srun --container-image={image} true, then validate again"


def run(
    view: View,
    remote: Remote,
    request: Request | None = None,
    deadline: float = 0.0,
    book: Book | None = None,
) -> Outcome:
    """Trains on 1, 2, 4 ... hosts, or on the numbers of ``request``. Each training has ``deadline`` s (0: by its model),
    including the time in the queue. Its job continues without the program; a job that ``book`` lists is resumed.
    If ``remote`` leads to pods of a queue next to Slurm, both train.

    Results of processors belong to no gate; gpt3.loss shows whether training works through Slurm.
    """
    pods = remote if isinstance(remote, PodRemote) else None
    through_slurm = pods is None or pods.next_to_slurm
    results: list[CheckResult] = []
    if through_slurm and (why := _unready(view)):
        results.append(not_assessed("cluster", why, fix="appliance deploy").of(LOSS))
        if pods is None:
            return Outcome(tuple(results))
        through_slurm = False
    if pods is None and not view.site.gpu_hosts_of(Owner.SLURM):
        none = not_assessed("cluster", NOBODY, required=False, fix=IN_CLUSTER)
        return Outcome((none.of(LOSS),))
    asked, kept = request or Request(), book or Memory()
    if asked.model != SMALL and (left := kept.left()):
        return Outcome((_at_work(left[-1]),))
    runs: list[Run] = []
    raw: list[Raw] = []
    ways = [_of_slurm(view, asked, deadline)] if through_slurm else []
    ways += [_of_pods(view, asked, deadline, pods.hosts)] if pods else []
    for trials in ways:
        for trial in trials:
            verdict, measured, said = (
                _in_pods(view, trial, pods)
                if pods and trial.hosts
                else _attempt(view, trial, remote, kept)
            )
            results.append(verdict)
            if said:
                mark = f"-{trial.platform}" if len(ways) > 1 else ""
                name = f"{trial.model}{mark}-{trial.nodes}n.log"
                raw.append(Raw(name, said, part=trial.model))
            if measured is None:
                break
            runs.append(measured)
    reference = load()
    # A result of processors is not a simulated one if the site's hardware is real.
    results += [
        result.model_copy(update={"simulated": bool(view.site.simulated)})
        for result in judge(runs, reference, view.limit(THROUGHPUT))
    ]
    measurements, shown = tables.measurements(runs, reference), tables.tables(runs, reference)
    return Outcome(tuple(results), tuple(measurements), tuple(shown), tuple(raw))


def _at_work(left: JobLeft) -> CheckResult:
    """A training that another run has submitted occupies the hosts, and its results would be lost."""
    why = f"run {left.run} submitted a training ({left.job.key}) that is not judged yet"
    return not_assessed("cluster", why, fix=left.again).of(LOSS)


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


def _of_pods(
    view: View, request: Request, deadline: float, reached: frozenset[str]
) -> Iterator[Trial]:
    """``reached``: the hosts on which pods run."""
    owned = view.site.gpu_hosts_of(Owner.KUBERNETES)
    hosts = tuple(host.name for host in owned if host.name in reached)
    bound = deadline or deadline_of(request.model)
    image = request.image or launch.launch().image
    container = None if request.model == SMALL else JobContainer(image=image)
    for nodes in _sizes(request, len(hosts), gpu_least(view.profile, view.site)):
        yield Trial("", "", nodes, "", bound, container, request.model, hosts[:nodes])


def _sizes(request: Request, hosts: int, gpus: int) -> Iterator[int]:
    """Yields the number of hosts of each training."""
    powers = (1 << n for n in range(hosts.bit_length()))
    yield from request.nodes or (count for count in powers if request.divides(count, gpus))


def _of_slurm(view: View, request: Request, deadline: float) -> Iterator[Trial]:
    hosts = len(view.site.gpu_hosts_of(Owner.SLURM))
    partition = _partition(view)
    token = uuid.uuid4().hex[:8]
    control = view.site.with_role(Role.CONTROL)[0].name
    bound = deadline or deadline_of(request.model)
    gpus = gpu_least(view.profile, view.site)
    for nodes in _sizes(request, hosts, gpus):
        yield Trial(
            control,
            partition,
            nodes,
            f"appliance-gpt3-{token}-{nodes}n",
            bound,
            _container(view, request),
            request.model,
            framework=request.framework,
            gpus=gpus,
        )


def _partition(view: View) -> str:
    """The default partition; on a site of several classes, that of this class only."""
    if view.site.is_mixed:
        return partition_of(view.site, view.profile)
    partitions = view.site.slurm_options.partitions
    return next((p.name for p in partitions if p.default), partitions[0].name)


def _container(view: View, request: Request) -> JobContainer | None:
    """The site's container; for a NeMo training without one, NeMo's."""
    given = view.site.slurm_options.containers
    chosen = given.benchmark if given else None
    if chosen or request.model == SMALL or request.framework is Framework.PYTORCH:
        return chosen
    return JobContainer(image=launch.launch().image.replace("/", "#", 1))


def _attempt(
    view: View, trial: Trial, remote: Remote, book: Book
) -> tuple[CheckResult, Run | None, str]:
    """Returns the verdict on the training, its run if it has a result, and its output."""
    until = book.now() + trial.deadline
    job = Job(key=trial.key, name=trial.name, control=trial.control, until=until)
    try:
        done = through(remote, book, job, trial.batch())
    except Unended as undone:
        return _unended(trial, undone), None, ""
    return *_judged(view, trial, done), done.stdout


def _in_pods(view: View, trial: Trial, pods: PodRemote) -> tuple[CheckResult, Run | None, str]:
    """Same as _attempt, through Kubernetes."""
    try:
        done = in_pods(pods, trial)
    except OtherGpus as error:
        return _error(trial, error.message, error.hint), None, ""
    except ConnectionFailed as error:
        return not_assessed(trial.target, error.message, fix=error.hint).of(LOSS), None, ""
    except DeadlineExceeded as error:
        cause = f"not done within {trial.deadline:g} s; {error.host or 'a host'} was still running"
        return _error(trial, cause, IN_PODS if trial.on_gpus else TOO_SLOW), None, ""
    return *_judged(view, trial, done), done.stdout


def _judged(view: View, trial: Trial, done: Completed) -> tuple[CheckResult, Run | None]:
    if done.returncode == NO_TORCH or "appliance: no torch" in done.stdout:
        image = trial.container.image if trial.container else ""
        fix = f"choose an image with PyTorch: {image} has none" if image else GET_TORCH
        # A host need not have PyTorch, but a container that was selected for training must.
        needed = bool(image) or trial.on_gpus
        return not_assessed(trial.target, _last_lines(done), required=needed, fix=fix).of(
            LOSS
        ), None
    if NO_GPU in done.stdout:
        return not_assessed(trial.target, _last_lines(done), fix=SEES_NONE).of(LOSS), None
    if done.returncode:
        if trial.hosts:
            cause = f"the training ended with {done.returncode}: {done.stderr}"
            return _error(trial, cause, IN_PODS), None
        fix = f"on {trial.control}: sinfo -R; on the host that it lists: journalctl -u slurmd"
        if trial.container:
            fix = NO_PYXIS.format(control=trial.control)
        said = _culprit(done)
        return _error(trial, f"srun ended with {done.returncode}: {said}", fix), None
    return _read(view, trial, done)


def _read(view: View, trial: Trial, done: Completed) -> tuple[CheckResult, Run | None]:
    try:
        log = logs.parse(done.stdout, f"the job on {trial.nodes}n")
        run = _on_gpus(view, trial, log) if trial.on_gpus else _on_processors(trial, log)
    except steps.UnusableLog as error:
        return _error(trial, error.message, error.hint), None
    return _loss(trial, log, run.diverged), run


def _on_gpus(view: View, trial: Trial, log: steps.Log) -> Run:
    """Reads the output like a log that a user passes. Raises UnusableLog."""
    models = gpu_models(view)
    gpu = next(iter(models)) if len(models) == 1 else None
    hardware = Hardware(f"site {view.site.name}", view.profile.hardware.gpu, gpu=gpu)
    described = Recorded(
        log=log.source,
        model=trial.model,
        platform=trial.platform,
        nodes=trial.nodes,
        gpus_per_node=gpu_least(view.profile, view.site),
    )
    return recorded.run_of(log, described, load(), hardware)


def _on_processors(trial: Trial, log: steps.Log) -> Run:
    selection = steps.select(log)
    first = (f"{r.reason}, line {r.line}" for r in log.refused.first if r.diverged)
    return Run(
        model=trial.model,
        platform=trial.platform,
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
        diverged=next(first, ""),
        unreal=UNREAL,
    )


def _loss(trial: Trial, log: steps.Log, diverged: str) -> CheckResult:
    losses = [step.loss for step in log.steps if step.loss is not None]
    fix = "compare with a run on one host, then check that host's memory and the fabric between the hosts"
    if diverged:
        return failed(trial.target, f"the training diverged: {diverged}", fix).of(LOSS)
    wanted = launch.STEPS if trial.on_gpus else STEPS
    if len(losses) < 2 or len(log.steps) < wanted:
        return _error(
            trial, f"{plural(len(losses), 'loss', 'losses')} of {wanted} steps printed", fix
        )
    shown: dict[str, Any] = {
        "value": round(losses[-1], 3),
        "limit": round(losses[0], 3),
        "limit_source": "the first step's loss: training must lower it",
        "evidence": f"{len(losses)} steps on {plural(trial.nodes, 'host')}{trial.where}, loss {losses[0]:.3f} to {losses[-1]:.3f}",
    }
    if losses[-1] < losses[0]:
        return passed(trial.target, **shown).of(LOSS)
    return failed(trial.target, "the loss does not fall", fix, **shown).of(LOSS)


def _unended(trial: Trial, undone: Unended) -> CheckResult:
    if not undone.state:
        status = Status.NOT_ASSESSED if undone.goes_on else Status.ERROR
        return judged(trial.target, status, cause=str(undone), fix=undone.fix).of(LOSS)
    cause = (
        f"not done within {trial.deadline:g} s; the job was {undone.state} and has been cancelled"
    )
    slow = GET_IMAGE.format(image=trial.container.image) if trial.container else TOO_SLOW
    return _error(trial, cause, slow if undone.state.startswith("RUNNING") else NOT_STARTED)


def _error(trial: Trial, cause: str, fix: str) -> CheckResult:
    return judged(trial.target, Status.ERROR, cause=cause, fix=fix).of(LOSS)


def _culprit(done: Completed) -> str:
    """Returns a killed task; otherwise the rank for which the others waited; then a rank's own error; then the task that ended first."""
    first, named = died(done.stderr), named_by_others(done.stdout)
    if first and "Exited with" not in first:
        return first
    return (named or told_by_itself(done.stdout, first) or first or _last_lines(done))[:300]


def _last_lines(done: Completed) -> str:
    ours = [line for line in done.stdout.splitlines() if line.startswith("appliance: ")]
    other = done.stderr.strip().splitlines() or done.stdout.strip().splitlines()
    return (ours[0].removeprefix("appliance: ") if ours else other[-1] if other else "no output")[
        :300
    ]
