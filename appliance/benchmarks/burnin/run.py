"""Submits a burn-in as a job that continues without the program, waits for it, and judges the samples of each host. A repeated call resumes waiting."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.adapters.remote import Remote
from appliance.benchmarks.benchmark import Outcome, Raw
from appliance.benchmarks.burnin.gates import CHECKS, DONE, MINUTES
from appliance.benchmarks.burnin.judge import judge
from appliance.benchmarks.burnin.samples import Burn, read
from appliance.benchmarks.jobs import LARGEST
from appliance.benchmarks.reading import Unread
from appliance.checks.check import View, judged, not_assessed
from appliance.errors import ApplianceError, ConnectionFailed, DeadlineExceeded
from appliance.models.gpu_counts import gpu_count, gpu_least
from appliance.models.result import CLUSTER, CheckResult, Status
from appliance.models.run import Plot, Series, Table
from appliance.models.site import Owner, Role
from appliance.text import one_line, shortened

NAME = "appliance-burnin"
FOLDER = "/var/lib/appliance/burnin"
SCRIPT = Path(__file__).with_name("burn.py")
MOST_SAMPLES = 2000
"""Maximum number of samples per host. With eight GPUs a sample needs about 1.2 KB, so the output stays below its limit."""
POLL = 10.0
WAIT = 1800.0
"""Time in s in the queue: hosts that are occupied for longer are busy, which is not a fault."""
LATE = 600.0
LOST = 6
"""Number of polls without an answer, one minute: the burn-in continues in the meantime."""
ON = "it continues there; to wait for it again: appliance validate burnin"

# One program a host; the samples stay on the host, so that nothing is lost with a connection.
BATCH = """#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin SLURM_EXPORT_ENV=ALL
export MASTER_ADDR={address} MASTER_PORT=29511
srun --kill-on-bad-exit=0 --chdir=/ sh -c 'mkdir -p -m 700 {folder}; rm -f {folder}/judged {folder}/samples.jsonl'
srun --kill-on-bad-exit=0 --chdir=/ {container} python3 -c "$(cat <<'APPLIANCE_END'
{program}
APPLIANCE_END
)" {folder} {seconds} {interval}
"""


@dataclass(frozen=True)
class BurnInRequest:
    """One burn-in: its scheduler, its hosts, and its duration in seconds."""

    control: str
    hosts: tuple[str, ...]
    seconds: float


class Undone(Exception):
    """The reason why there is nothing to judge; ``fix``: the remedy."""

    def __init__(self, why: str, fix: str, *, is_error: bool = False) -> None:
        super().__init__(why)
        self.fix, self.is_error = fix, is_error


def run(
    view: View,
    remote: Remote,
    minutes: int = 0,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Outcome:
    """A burn-in of ``minutes`` (0: the limit of site or profile, otherwise eight hours). An active one, or one that has ended and was not judged, is resumed."""
    controls = view.site.with_role(Role.CONTROL)
    hosts = tuple(host.name for host in view.site.gpu_hosts_of(Owner.SLURM))
    if not controls or not hosts:
        why = "burn-in runs as a Slurm job, but Slurm owns no GPU host"
        return Outcome(
            tuple(not_assessed(CLUSTER, why, required=False).of(check) for check in CHECKS)
        )
    least = (view.number(DONE) or (0.0, ""))[0] * 3600
    wanted = BurnInRequest(controls[0].name, hosts, minutes * 60.0 or least or MINUTES * 60.0)
    try:
        _through(view, remote, wanted, clock, sleep)
    except Undone as undone:
        status = Status.ERROR if undone.is_error else Status.NOT_ASSESSED
        return Outcome((judged(CLUSTER, status, cause=str(undone), fix=undone.fix).of(DONE),))
    outcome = _judged(view, remote, wanted, least)
    for host in hosts:
        _ask(remote, host, ["touch", f"{FOLDER}/judged"])
    return outcome


def _through(
    view: View,
    remote: Remote,
    wanted: BurnInRequest,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Waits until the burn-in has ended. Raises Undone."""
    state = _state(remote, wanted)
    if not state and _unjudged(remote, wanted):
        return
    if not state:
        _submit(view, remote, wanted)
        state = "PENDING"
    silent, since, began = 0, clock(), None
    while True:
        if state == "PENDING" and clock() - since > WAIT:
            _cancel(remote, wanted)
            raise Undone(f"the hosts were busy for {WAIT / 60:g} min", "squeue shows the owner")
        if state not in {None, "PENDING"} and began is None:
            began = clock()
        if began is not None and clock() - began > wanted.seconds + LATE:
            _cancel(remote, wanted)
            fix = "check slurmd's log on the hosts: one of them hangs"
            raise Undone("it did not end and was cancelled", fix, is_error=True)
        sleep(POLL)
        state = _state(remote, wanted)
        silent = silent + 1 if state is None else 0
        if silent >= LOST:
            raise Undone(f"{wanted.control} no longer answers", ON)
        if state == "":
            return


def _state(remote: Remote, wanted: BurnInRequest) -> str | None:
    """Returns the id of the job in the queue; "" if there is none, None if unknown."""
    argv = ["squeue", "--me", "--noheader", f"--name={NAME}", "--format=%T"]
    said = _ask(remote, wanted.control, argv)
    return None if said is None else said.strip().partition("\n")[0]


def _unjudged(remote: Remote, wanted: BurnInRequest) -> bool:
    """Whether every host has an ended burn-in of this length that was not judged."""
    for host in wanted.hosts:
        script = f"[ -e {FOLDER}/judged ] || cat {FOLDER}/samples.jsonl"
        try:
            burn = read(_ask(remote, host, ["sh", "-c", script]) or "")
        except Unread:
            return False
        if not burn.done or burn.asked != wanted.seconds:
            return False
    return True


def _submit(view: View, remote: Remote, wanted: BurnInRequest) -> None:
    """Raises Undone where Slurm does not take it."""
    minutes = int(wanted.seconds // 60) + 20
    argv = [
        *("sbatch", f"--job-name={NAME}", f"--nodes={len(wanted.hosts)}", "--ntasks-per-node=1"),
        *(f"--nodelist={','.join(wanted.hosts)}", "--exclusive", "--no-requeue"),
        *(f"--gres=gpu:{gpu_least(view.profile, view.site)}", f"--time={minutes}"),
        *("--chdir=/", "--export=NONE", "--output=/dev/null", "--parsable"),
    ]
    try:
        done = remote.run(wanted.control, argv, input=batch(view, wanted).encode(), timeout=60)
    except (ConnectionFailed, DeadlineExceeded) as error:
        raise Undone(error.told_of(), error.hint) from None
    if done.returncode:
        said = shortened(one_line(done.stderr.strip() or "no reason given"), 300)
        fix = f"on {wanted.control}: sinfo -R"
        raise Undone(f"sbatch ended with {done.returncode}: {said}", fix, is_error=True)


def batch(view: View, wanted: BurnInRequest) -> str:
    """The job's script."""
    chosen = view.site.slurm_options.containers and view.site.slurm_options.containers.benchmark
    container = ""
    if chosen:
        mounts = ",".join((f"{FOLDER}:{FOLDER}", *chosen.mounts))
        container = f"--container-image='{chosen.image}' --container-mounts='{mounts}'"
    return BATCH.format(
        address=view.site.host(wanted.hosts[0]).address,
        folder=FOLDER,
        container=container,
        program=SCRIPT.read_text(encoding="utf-8"),
        seconds=f"{wanted.seconds:g}",
        interval=f"{max(10.0, wanted.seconds / MOST_SAMPLES):g}",
    )


def _cancel(remote: Remote, wanted: BurnInRequest) -> None:
    _ask(remote, wanted.control, ["scancel", f"--name={NAME}"])


def _ask(remote: Remote, host: str, argv: Sequence[str]) -> str | None:
    """Returns the output; None if the host or the program did not answer."""
    try:
        done = remote.run(host, argv, timeout=60)
    except ApplianceError:
        return None
    return done.stdout if done.returncode == 0 else None


def _short_of(result: CheckResult, wanted: BurnInRequest, least: float) -> CheckResult:
    """A pass of fewer hours than required is not a pass."""
    if result.id != DONE or result.status is not Status.PASS or wanted.seconds >= least:
        return result
    cause = f"passed {wanted.seconds / 3600:.3g} h; site or profile ask for {least / 3600:g} h"
    fix = "appliance validate burnin"
    owed = {"limit": round(least / 3600, 3), "limit_source": "site or profile"}
    short = {"status": Status.NOT_ASSESSED, "cause": cause, "fix": fix}
    return result.model_copy(update=short | owed)


def _judged(view: View, remote: Remote, wanted: BurnInRequest, least: float) -> Outcome:
    results: list[CheckResult] = []
    tables: list[Table] = []
    raw: list[Raw] = []
    for host in wanted.hosts:
        # A folder that is marked as judged belongs to an earlier burn-in: on that host, this one never started.
        script = f"[ ! -e {FOLDER}/judged ] && head -c {LARGEST + 1} {FOLDER}/samples.jsonl"
        text = _ask(remote, host, ["sh", "-c", script])
        if text is None:
            cause = f"{FOLDER} has no samples of it"
            fix = "check that the host is up and that the job started there, then run again: appliance validate burnin"
            results.append(judged(host, Status.ERROR, cause=cause, fix=fix).of(DONE))
            continue
        raw.append(Raw(f"{host}.jsonl", text[:LARGEST]))
        try:
            burn = read(text)
        except Unread as error:
            fix = "check whether the Slurm job was cancelled, then run again: appliance validate burnin"
            results.append(judged(host, Status.ERROR, cause=str(error), fix=fix).of(DONE))
            continue
        gpus = gpu_count(view.profile, view.site.host(host))
        found = judge(host, burn, wanted.seconds, gpus, bool(view.site.simulated))
        results += [_short_of(result, wanted, least) for result in found]
        tables += _tables(host, burn)
    return Outcome(tuple(results), tables=tuple(tables), raw=tuple(raw))


def _tables(host: str, burn: Burn) -> Iterator[Table]:
    """Heat over time, and of each GPU the most of each."""
    indices = sorted({g.index for m in burn.moments for g in m.gpus})
    if not indices:
        return
    series, rows = [], []
    for index in indices:
        own = [(m.at, g) for m in burn.moments for g in m.gpus if g.index == index]
        points = tuple((at / 3600, g.temperature) for at, g in own if g.temperature is not None)
        series.append(Series(label=f"GPU {index}", points=points[:: max(1, len(points) // 200)]))
        peaks = [
            max((v for v in values if v is not None), default=None)
            for values in (
                [g.temperature for _, g in own],
                [g.power for _, g in own],
                [g.clock for _, g in own],
                [g.corrected for _, g in own],
            )
        ]
        rows.append((index, *peaks))
    title = f"Burn-in of {host}: {burn.lasted / 3600:.2g} h"
    plot = Plot(title=title, x_label="h", y_label="C", series=tuple(series))
    columns = ("GPU", "most C", "most W", "most MHz", "corrected errors")
    yield Table(title=title, columns=columns, rows=tuple(rows), plot=plot)
