"""One GPU job over all hosts of Slurm, through Slurm itself: it must run on every host, and accounting must list it."""

import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from appliance.adapters.process import Completed
from appliance.adapters.remote import Remote
from appliance.benchmarks.benchmark import Outcome
from appliance.checks.check import View, failed, not_assessed, passed
from appliance.errors import ApplianceError, ConnectionFailed, DeadlineExceeded
from appliance.models.gpu_counts import gpu_least
from appliance.models.result import CheckResult, Measurement
from appliance.models.site import Owner, Role
from appliance.text import plural

JOB, ACCOUNTING = "slurm.job", "slurm.job_accounting"
START_SECONDS = 60
"""If all GPUs of a cluster are occupied for longer, it is busy, which is not a fault."""

RUN_SECONDS = 180.0
"""Start, prolog, one line of output, epilog."""

RECORD_SECONDS = 30.0
"""slurmctld reports a job's end to slurmdbd within seconds."""

SAY = 'echo "appliance-job=$SLURM_JOB_ID node=$SLURMD_NODENAME host=$(hostname -s) gpus=$CUDA_VISIBLE_DEVICES"'
LINE = re.compile(r"appliance-job=([0-9]{1,18}) node=(\S+) host=(\S+) gpus=(\S*)")
NOBODY = "every GPU host belongs to Kubernetes, so Slurm has none for jobs"
BUSY = ("Immediate execution impossible", "Requested nodes are busy", "Immediate allocation")


class Unreadable(ValueError):
    """Unexpected output of the job."""


@dataclass(frozen=True)
class TaskLine:
    """One task's line."""

    job: int
    node: str
    host: str
    gpus: tuple[str, ...]


def run(
    view: View,
    remote: Remote,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Outcome:
    """Checks slurm.job and slurm.job_accounting, and the seconds from srun to its end."""
    controls = view.site.with_role(Role.CONTROL)
    if not controls or not view.site.with_role(Role.GPU):
        why = "the site has no " + ("GPU host" if controls else "control host")
        return Outcome((_unknown(view, JOB, why), _unknown(view, ACCOUNTING, why)))
    hosts = tuple(host.name for host in view.site.gpu_hosts_of(Owner.SLURM))
    if not hosts:
        results = (_unknown(view, check, NOBODY) for check in (JOB, ACCOUNTING))
        return Outcome(tuple(r.model_copy(update={"required": False}) for r in results))
    control, name = controls[0].name, f"appliance-{secrets.token_hex(4)}"
    began = clock()
    try:
        done = remote.run(control, command(view, name, hosts), timeout=RUN_SECONDS)
    except ApplianceError as error:
        if not isinstance(error, ConnectionFailed | DeadlineExceeded):
            raise
        return Outcome(tuple(_cut_off(view, remote, control, name, error)))
    took = clock() - began
    job, answers = _judge_job(view, done, hosts)
    record = _judge_record(view, remote, control, name, answers, clock, sleep)
    measured = (_measured(view, took, len(hosts)),) if job.status == "pass" else ()
    return Outcome((job, record), measured)


def command(view: View, name: str, hosts: tuple[str, ...]) -> list[str]:
    """The srun that requests all GPUs of each of these hosts, once."""
    return [
        "srun",
        f"--job-name={name}",
        f"--nodes={len(hosts)}",
        f"--nodelist={','.join(hosts)}",
        "--ntasks-per-node=1",
        f"--gres=gpu:{gpu_least(view.profile, view.site)}",
        f"--immediate={START_SECONDS}",
        "--time=2",
        "--chdir=/",
        "--export=NONE",
        "/bin/sh",
        "-c",
        SAY,
    ]


def parse(stdout: str) -> list[TaskLine]:
    """Every line of the job. Raises Unreadable for a line that is not one of ours."""
    found = []
    for line in filter(str.strip, stdout.splitlines()):
        match = LINE.fullmatch(line.strip())
        if match is None:
            raise Unreadable(line.strip()[:120])
        job, node, host, gpus = match.groups()
        found.append(TaskLine(int(job), node, host, tuple(filter(None, gpus.split(",")))))
    return found


def _judge_job(
    view: View, done: Completed, hosts: tuple[str, ...]
) -> tuple[CheckResult, list[TaskLine]]:
    said = _last(done.stderr)
    if done.returncode:
        if any(words in done.stderr for words in BUSY):
            return _unknown(view, JOB, f"all GPUs are busy: {said}"), []
        fix = "sinfo -R shows drained hosts and reasons; squeue shows who uses the GPUs"
        return _bad(view, JOB, f"srun ended with {done.returncode}: {said}", fix), []
    try:
        answers = parse(done.stdout)
    except Unreadable as error:
        fix = "a login script or prolog prints into every job: remove its output"
        return _bad(
            view, JOB, f'the job printed "{error}", which is not the expected output', fix
        ), []
    problem = fault(answers, hosts, gpu_least(view.profile, view.site))
    if problem:
        fix = "slurm.nodes and slurm.gres show the host: appliance validate"
        return _bad(view, JOB, problem, fix), answers
    gpus = sum(len(a.gpus) for a in answers)
    return passed(
        "cluster",
        gpus,
        unit="GPUs",
        limit=gpus,
        limit_source=f"profile {view.profile.name}",
        evidence=f"job {answers[0].job} on {plural(len(answers), 'host')}",
        simulated=_simulated(view),
    ).of(JOB), answers


def fault(answers: list[TaskLine], hosts: tuple[str, ...], count: int) -> str:
    """The error of the answers; empty if every host answered once, itself, with ``count`` GPUs."""
    seen = [a.node for a in answers]
    missing = [h for h in hosts if h not in seen]
    if missing:
        return f"{', '.join(missing)} did not run the job"
    strange = sorted({n for n in seen if n not in hosts or seen.count(n) > 1})
    if strange:
        return f"{', '.join(strange)} answered unexpectedly, or more than once"
    if len({a.job for a in answers}) > 1:
        return "the answers are from several jobs"
    for a in answers:
        if a.host != a.node:
            return f"{a.node} calls itself {a.host}"
        if len(set(a.gpus)) != count:
            return f"{a.node} gave the job {len(set(a.gpus))} of {count} GPUs ({','.join(a.gpus) or 'none'})"
    return ""


def _judge_record(
    view: View,
    remote: Remote,
    control: str,
    name: str,
    answers: list[TaskLine],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> CheckResult:
    if not answers:
        return _unknown(view, ACCOUNTING, "no job ran")
    job, end = answers[0].job, clock() + RECORD_SECONDS
    asked = ["sacct", "--allocations", "--noheader", "--parsable2", f"--jobs={job}"]
    while True:
        try:
            told = remote.run(control, [*asked, "--format=JobID,JobName,State"], timeout=20)
        except (ConnectionFailed, DeadlineExceeded) as error:
            return _unknown(view, ACCOUNTING, error.told_of())
        state = _state(told, job, name)
        if state == "COMPLETED":
            return passed("cluster", state, limit="COMPLETED", evidence=f"job {job}").of(ACCOUNTING)
        if clock() > end:
            break
        sleep(1.0)
    if told.returncode:
        return _bad(view, ACCOUNTING, f"sacct: {_last(told.stderr)}", "journalctl -u slurmdbd")
    known = f"says {state}" if state else "does not know it"
    cause = f"job {job} ended, and {RECORD_SECONDS:g} s later accounting {known}"
    return _bad(view, ACCOUNTING, cause, "check journalctl -u slurmdbd and scontrol ping")


def _state(told: Completed, job: int, name: str) -> str:
    """State of our job in sacct's answer, "" when it is not there."""
    rows = (line.split("|") for line in told.stdout.splitlines())
    return next((r[2] for r in rows if len(r) == 3 and r[:2] == [str(job), name]), "")


def _cut_off(
    view: View, remote: Remote, control: str, name: str, error: ApplianceError
) -> list[CheckResult]:
    """The job must not keep its GPUs when no program waits for it."""
    left = ""
    try:
        ended = remote.run(control, ["scancel", f"--name={name}"], timeout=20)
        left = f"; scancel: {_last(ended.stderr)}" if ended.returncode else ""
    except (ConnectionFailed, DeadlineExceeded):
        left = f"; it may still run: scancel --name={name}"
    if isinstance(error, ConnectionFailed):
        first = _unknown(view, JOB, f"{error.told_of()}{left}")
    else:
        cause = f"the job did not end within {RUN_SECONDS:g} s and was cancelled{left}"
        first = _bad(view, JOB, cause, "check slurmd's log on the hosts: a prolog or a host hangs")
    return [first, _unknown(view, ACCOUNTING, "no job finished")]


def _measured(view: View, seconds: float, hosts: int) -> Measurement:
    return Measurement(
        name=JOB,
        value=round(seconds, 2),
        unit="s",
        simulated=_simulated(view),
        detail={"hosts": hosts, "gpus_per_host": gpu_least(view.profile, view.site)},
    )


def _unknown(view: View, check: str, cause: str) -> CheckResult:
    return not_assessed("cluster", cause, simulated=_simulated(view)).of(check)


def _bad(view: View, check: str, cause: str, fix: str) -> CheckResult:
    return failed("cluster", cause, fix, simulated=_simulated(view)).of(check)


def _simulated(view: View) -> bool:
    return any(area.startswith("gpu") for area in view.site.simulated)


def _last(text: str) -> str:
    with suppress(IndexError):
        return text.strip().splitlines()[-1].strip()
    return "no reason given"
