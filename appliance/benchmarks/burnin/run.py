"""Starts a burn-in that continues without the program, waits for it, and judges the samples of each host. A repeated call resumes waiting."""

import time
from collections.abc import Callable, Iterator

from appliance.adapters.pods import PodRemote
from appliance.adapters.remote import Remote
from appliance.benchmarks.benchmark import Outcome, Raw
from appliance.benchmarks.burnin.gates import CHECKS, DONE, MINUTES
from appliance.benchmarks.burnin.judge import judge
from appliance.benchmarks.burnin.keepers import (
    FOLDER,
    PENDING,
    BurnInRequest,
    Keeper,
    OfPods,
    OfSlurm,
    Undone,
    ask,
)
from appliance.benchmarks.burnin.samples import Burn, read
from appliance.benchmarks.jobs import LARGEST
from appliance.benchmarks.reading import Unread
from appliance.checks.check import View, judged, not_assessed
from appliance.models.gpu_counts import gpu_count
from appliance.models.result import CLUSTER, CheckResult, Status
from appliance.models.run import Plot, Series, Table
from appliance.models.site import Owner, Role

POLL = 10.0
WAIT = 1800.0
"""Time in s in the queue: hosts that are occupied for longer are busy, which is not a fault."""
LATE = 600.0
LOST = 6
"""Number of polls without an answer, one minute: the burn-in continues in the meantime."""


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
    if isinstance(remote, PodRemote):
        hosts = tuple(host.name for host in view.site.hosts if host.name in remote.hosts)
    if not controls or not hosts:
        why = "Slurm owns no GPU host; for hosts of Kubernetes use --through kubernetes"
        return Outcome(
            tuple(not_assessed(CLUSTER, why, required=False).of(check) for check in CHECKS)
        )
    least = (view.number(DONE) or (0.0, ""))[0] * 3600
    wanted = BurnInRequest(controls[0].name, hosts, minutes * 60.0 or least or MINUTES * 60.0)
    keeper: Keeper = OfSlurm(view, remote, wanted)
    if isinstance(remote, PodRemote):
        keeper = OfPods(view, remote, wanted)
        # Its samples are files on the hosts.
        remote = remote.beside
    try:
        _through(keeper, remote, wanted, clock, sleep)
    except Undone as undone:
        status = Status.ERROR if undone.is_error else Status.NOT_ASSESSED
        return Outcome((judged(CLUSTER, status, cause=str(undone), fix=undone.fix).of(DONE),))
    outcome = _judged(view, remote, wanted, least)
    for host in hosts:
        ask(remote, host, ["touch", f"{FOLDER}/judged"])
    return outcome


def _through(
    keeper: Keeper,
    files: Remote,
    wanted: BurnInRequest,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Waits until the burn-in has ended. Raises Undone."""
    state = keeper.state()
    if not state and _unjudged(files, wanted):
        return
    if not state:
        keeper.submit()
        state = PENDING
    silent, since, began = 0, clock(), None
    while True:
        if state == PENDING and clock() - since > WAIT:
            keeper.cancel()
            raise Undone(f"the hosts were busy for {WAIT / 60:g} min", keeper.busy)
        if state not in {None, PENDING} and began is None:
            began = clock()
        if began is not None and clock() - began > wanted.seconds + LATE:
            keeper.cancel()
            raise Undone("it did not end and was cancelled", keeper.hangs, is_error=True)
        sleep(POLL)
        state = keeper.state()
        silent = silent + 1 if state is None else 0
        if silent >= LOST:
            raise Undone(f"{keeper.name} no longer answers", keeper.again)
        if state == "":
            return


def _unjudged(remote: Remote, wanted: BurnInRequest) -> bool:
    """Whether every host has an ended burn-in of this length that was not judged."""
    for host in wanted.hosts:
        script = f"[ -e {FOLDER}/judged ] || cat {FOLDER}/samples.jsonl"
        try:
            burn = read(ask(remote, host, ["sh", "-c", script]) or "")
        except Unread:
            return False
        if not burn.done or burn.asked != wanted.seconds:
            return False
    return True


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
        text = ask(remote, host, ["sh", "-c", script])
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
