"""fio through Slurm or ssh: scratch of each host, then shared storage with 1, 2, 4 ... all hosts at once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from appliance.adapters.remote import Remote
from appliance.benchmarks.batch import Book, Memory
from appliance.benchmarks.benchmark import Outcome, Raw
from appliance.benchmarks.equals import Figure, contained, held, in_container, judge_hosts
from appliance.benchmarks.fio import meeting, sweep
from appliance.benchmarks.fio.gates import DECAY, TOTALS, UNITS
from appliance.benchmarks.fio.sweep import PARTS, Sweep
from appliance.benchmarks.jobs import HostAccess, HostOutput, Task, Trouble, on_each, together
from appliance.benchmarks.reading import Unread
from appliance.benchmarks.storage_route import Route, StoragePath, routes
from appliance.checks.check import View, failed, judged, not_assessed, passed
from appliance.models.result import CLUSTER, CheckResult, Measurement, Place, Status, place
from appliance.models.run import Table
from appliance.models.site import Role
from appliance.stages.storage.site import NfsMount
from appliance.text import first_few

FIX = {
    "scratch": "check there nvme smart-log and dmesg for errors, and other programs that write to that disk",
    "shared": "check there nfsstat -c and the link to the server (ethtool); compare with equal hosts",
}
LIMITS = "set its limit in site.yml (limits), from the specification of the storage"


@dataclass(frozen=True)
class Length:
    """Duration of each part in s, and size of each of four files. ``files``: number of small files per thread."""

    seconds: int
    size: str
    files: int


REAL, SMALL = Length(10, "1g", 2000), Length(3, "32m", 200)
"""SMALL if hosts are containers: their storage is the machine's, and larger sizes would show nothing more."""


def run(view: View, remote: Remote, book: Book | None = None) -> Outcome:
    """Results per host and directory, and of all hosts together per shared directory."""
    hosts = [host.name for host in view.site.with_role(Role.GPU)]
    if not hosts:
        why = "the site has no GPU host"
        return Outcome((not_assessed(CLUSTER, why).of("fio.scratch_read"),))
    reach = HostAccess(remote, book or Memory())
    length = SMALL if contained(view, hosts) else REAL
    parts = [_scratch(view, reach, hosts, length)]
    parts += [_shared(view, reach, mount, length) for mount in view.site.storage.mounts]
    return Outcome(
        tuple(result for part in parts for result in part.results),
        tuple(measured for part in parts for measured in part.measurements),
        tuple(table for part in parts for table in part.tables),
        tuple(raw for part in parts for raw in part.raw),
    )


def task(at: str, length: Length, parts: Sequence[str], part: str) -> Task:
    """Runs fio in a directory of its own below ``at``. ``part``: as in Task."""
    return Task(
        "fio",
        sweep.SCRIPT,
        # Files are created before they are read; the time for small ones is not limited.
        seconds=length.seconds * len(parts) * 3 + 60,
        tools=sweep.TOOL,
        part=part,
        arguments=sweep.script_arguments(at, length.seconds, length.size, length.files, parts),
    )


def _scratch(view: View, reach: HostAccess, hosts: Sequence[str], length: Length) -> Outcome:
    scratch = view.site.storage.scratch
    if scratch is None:
        return Outcome()
    crowded = contained(view, hosts)
    said = on_each(view, reach, task(scratch.at, length, PARTS, "scratch"), hosts, in_turn=crowded)
    sweeps, troubles = _sweeps(view, said, "scratch", scratch.at, PARTS)
    results = [*troubles, *_per_host(view, "scratch", scratch.at, sweeps, PARTS)]
    return Outcome(
        tuple(results),
        tuple(_measured(results)),
        raw=tuple(_raw(f"scratch-{h}", s) for h, s in said.items()),
    )


def _shared(view: View, reach: HostAccess, mount: NfsMount, length: Length) -> Outcome:
    """All hosts that mount it, doubling their number: the limit of the server is reached when the sum no longer grows."""
    ways = {host: way for host, way in routes(view, mount).items() if host in _gpu_hosts(view)}
    clients = [
        host
        for host, way in ways.items()
        if isinstance(way, Route) and way.way is StoragePath.KERNEL
    ]
    results = [
        result
        for host, way in ways.items()
        if host not in clients
        for result in _no_client(view, mount, host, way)
    ]
    raw, rows = [], []
    sums: dict[str, float] = {}
    sweeps: dict[str, Sweep] = {}
    for count in sizes(len(clients)):
        parts = PARTS if count == len(clients) else TOTALS
        said = together(view, reach, task(mount.at, length, parts, mount.at), clients[:count])
        raw += [_raw(f"shared-{count}-{host}", one) for host, one in said.items()]
        sweeps, troubles = _sweeps(view, said, "shared", mount.at, parts)
        if troubles:
            results += troubles
            break
        sums = {part: sum(s.rates[part] for s in sweeps.values()) / 1e9 for part in TOTALS}
        rows.append((count, *(round(sums[part], 3) for part in TOTALS)))
    if sweeps and len(sweeps) == len(clients):
        results += _per_host(view, "shared", mount.at, sweeps, PARTS)
        results += _totals(view, mount, sums, sweeps)
    if len(clients) > 1:
        said = together(view, reach, meeting.task(mount.at, len(clients)), clients)
        raw += [_raw(f"seen-{host}", one) for host, one in said.items()]
        results += meeting.judge(view, mount.at, said)
    title = f"Shared storage {mount.at}: all clients together"
    table = Table(title=title, columns=("hosts", "write GB/s", "read GB/s"), rows=tuple(rows))
    return Outcome(tuple(results), tuple(_measured(results)), (table,) * bool(rows), tuple(raw))


def sizes(count: int) -> list[int]:
    """1, 2, 4 ... and all."""
    doubled = [1 << power for power in range(count.bit_length()) if 1 << power < count]
    return [*doubled, count] if count else []


def _gpu_hosts(view: View) -> frozenset[str]:
    return frozenset(host.name for host in view.site.with_role(Role.GPU))


def _no_client(view: View, mount: NfsMount, host: str, way: Route | str) -> Iterator[CheckResult]:
    why = (
        way
        if isinstance(way, str)
        else f"{mount.at} is not mounted by the kernel there ({way.way})"
    )
    required = isinstance(way, str)
    at = place(host, mount.at.removeprefix("/"))
    for check in _required_values(view, "shared"):
        yield not_assessed(at, why, required=required).of(check)


def _required_values(view: View, kind: str) -> list[str]:
    """Results for a host that could not be measured: reading, and each other value that has a limit."""
    first = f"fio.{kind}_read"
    named = (f"fio.{kind}_{UNITS[part][2]}" for part in PARTS)
    return [first, *(check for check in named if check != first and view.limit(check))]


def _sweeps(
    view: View, said: Mapping[str, HostOutput], kind: str, at: str, parts: Sequence[str]
) -> tuple[dict[str, Sweep], list[CheckResult]]:
    """Returns the values of each host, and the reason for hosts without values. Each required value gets a result, so that no earlier one remains valid."""
    sweeps, troubles = {}, []
    checks = _required_values(view, kind)
    for host, one in said.items():
        where = place(host, at.removeprefix("/"))
        if one.trouble:
            simulated = in_container(view, host)
            troubles += [one.verdict(check, where, simulated=simulated) for check in checks]
            continue
        try:
            if one.code:
                raise Unread(f"fio ended with {one.code}: {one.last or 'no reason given'}")
            sweeps[host] = sweep.read(one.output, parts)
        except Unread as error:
            fix = "run it there by hand: fio --output-format=json"
            bad = judged(where, Status.ERROR, cause=str(error), fix=fix)
            troubles += [bad.of(check) for check in checks]
    return sweeps, troubles


def _per_host(
    view: View, kind: str, at: str, sweeps: Mapping[str, Sweep], parts: Sequence[str]
) -> Iterator[CheckResult]:
    for part in parts:
        scale, unit, name = UNITS[part]
        what = f"{part.replace('_', ' ')} at {at}"
        # Disks of one model differ by some 10 %, and small files and random writes by more.
        figure = Figure(
            f"fio.{kind}_{name}", what, unit, FIX[kind], 25.0, parts=(at.removeprefix("/"),)
        )
        values = {host: found.rates[part] / scale for host, found in sweeps.items()}
        yield from judge_hosts(view, figure, values, {h: s.version for h, s in sweeps.items()})


def _totals(
    view: View, mount: NfsMount, sums: Mapping[str, float], sweeps: Mapping[str, Sweep]
) -> Iterator[CheckResult]:
    at = place(CLUSTER, f"{mount.at.removeprefix('/')} {len(sweeps)} hosts")
    simulated = any(in_container(view, host) for host in sweeps)
    for part in TOTALS:
        check = f"fio.total_{UNITS[part][2]}"
        shown: dict[str, Any] = {
            "value": round(sums[part], 3),
            "unit": "GB/s",
            "simulated": simulated,
        }
        held_to = held(view, check, sweeps)
        bound = held_to.limit
        if bound is None:
            yield not_assessed(at, held_to.why, required=False, fix=LIMITS, **shown).of(check)
            continue
        shown |= {"limit": bound.value, "limit_source": bound.source}
        if sums[part] < float(bound.value or 0):
            cause = f"{len(sweeps)} hosts together reach {sums[part]:.3g} GB/s"
            yield failed(at, cause, "check the server's disks, CPUs and links", **shown).of(check)
        else:
            yield passed(at, **shown).of(check)
    yield _decay(view, at, sweeps, simulated)


def _decay(view: View, at: Place, sweeps: Mapping[str, Sweep], simulated: bool) -> CheckResult:
    known = [found for s in sweeps.values() for found in s.decay.values()]
    held_to = held(view, DECAY, sweeps)
    bound = held_to.limit
    if not known or bound is None:
        why = held_to.why if known else "the parts were too short to measure it"
        seen = {"value": round(max(known), 1), "unit": "%"} if known else {}
        return not_assessed(at, why, required=False, simulated=simulated, **seen).of(DECAY)
    if lacking := [host for host, found in sweeps.items() if not found.decay]:
        why = f"no result for {first_few(lacking)}: its logs are too short or have gaps"
        return not_assessed(at, why, unit="%", simulated=simulated).of(DECAY)
    worst = max(known)
    shown: dict[str, Any] = {
        "value": round(worst, 1),
        "unit": "%",
        "limit": bound.value,
        "limit_source": bound.source,
        "simulated": simulated,
    }
    if worst > float(bound.value or 0):
        cause = f"the last third is {worst:.4g} % slower than the first"
        fix = "caches fill up, and the disks behind them are slower"
        return failed(at, cause, fix, **shown).of(DECAY)
    return passed(at, **shown).of(DECAY)


def _measured(results: Sequence[CheckResult]) -> Iterator[Measurement]:
    for r in results:
        if isinstance(r.value, float | int) and not isinstance(r.value, bool):
            yield Measurement(
                name=r.id, value=r.value, unit=r.unit, target=r.target, simulated=r.simulated
            )


def _raw(name: str, said: HostOutput) -> Raw:
    text = said.output if said.trouble is Trouble.NONE else f"{said.cause}\n{said.output}"
    return Raw(f"{name}.txt", text)
