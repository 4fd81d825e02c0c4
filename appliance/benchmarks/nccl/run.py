"""NCCL's collectives: each host, each host over its own fabric, groups that find slow hosts, and 2, 4 ... all hosts of a scheduler."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from appliance.adapters.pods import PodRemote
from appliance.adapters.remote import Remote
from appliance.benchmarks import ceilings, floors
from appliance.benchmarks.batch import Book, Memory
from appliance.benchmarks.benchmark import Outcome, Raw
from appliance.benchmarks.blame.pairs import Group, search
from appliance.benchmarks.ceilings import Bounded, Most
from appliance.benchmarks.equals import contained
from appliance.benchmarks.fio.run import sizes
from appliance.benchmarks.jobs import HostAccess, HostOutput, Task, as_one, on_each, together
from appliance.benchmarks.nccl import between_pods
from appliance.benchmarks.nccl.gates import ALL, CURVE, GROUPS, HOST, LOOPBACK
from appliance.benchmarks.nccl.table import Collective, read
from appliance.benchmarks.reading import Unread
from appliance.checks.check import View, failed, judged, not_assessed, passed
from appliance.models.gpu_counts import gpu_least
from appliance.models.profile import Limit
from appliance.models.result import CLUSTER, CheckResult, Measurement, Place, Status, place
from appliance.models.run import Plot, Series, Table
from appliance.models.site import Owner
from appliance.report.formatting import fold
from appliance.text import plural

INSTALL = "install nccl-tests (github NVIDIA/nccl-tests, built with MPI=1) in /opt/nccl-tests/build, or set a container that has them: slurm.containers.benchmark"
TOO_SHORT = 1 << 30
"""Bytes: a smaller largest message has not reached the plateau to which limits apply."""
UNWIRED = "traffic between ports of one adapter need not cross the wire"
NO_RATE = "the class has no ports of known rate"
LONE = "one GPU took part: without transfers between GPUs, there is no bandwidth to judge"
OTHERS = ("all_gather", "reduce_scatter", "alltoall")
FIX_HOST = "check there nvidia-smi nvlink -s and nvidia-smi topo -m; then appliance validate dcgm"
FIX_HIGH = "unset NCCL_ALGO and SHARP settings of the site, and check which nccl-tests ran"
FIX_FABRIC = "check there ibstat, port counters, ACS and GPUDirect (nvidia-peermem); then appliance validate perftest"

# $1 collective, $2 GPUs of one process, $3 largest message, then variables for NCCL.
SCRIPT = """
collective=$1 gpus=$2 most=$3; shift 3
for setting; do export "$setting"; done
t=$(command -v ${collective}_perf_mpi || command -v ${collective}_perf) || exit 1
exec "$t" -b 8 -e "$most" -f 2 -g "$gpus" -c 1 -n 20 -w 5
"""


def tool(collective: str) -> dict[str, str]:
    """Its names: in NVIDIA's containers that with MPI ends so."""
    return {f"{collective}_perf|{collective}_perf_mpi": INSTALL}


@dataclass
class Findings:
    """Measurements until now. ``raw``: output of the tools."""

    results: list[CheckResult] = field(default_factory=list)
    raw: list[Raw] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    culprits: dict[str, HostOutput] = field(default_factory=dict)
    """Hosts of Kubernetes that stopped an exchange, and how."""


def run(view: View, remote: Remote, book: Book | None = None) -> Outcome:
    """Hosts alone first; between hosts only such as are whole."""
    hosts = [host.name for host in view.site.gpu_hosts_of(Owner.SLURM)]
    known = {host.name for host in view.site.hosts}
    of_pods = remote.hosts & known if isinstance(remote, PodRemote) else frozenset[str]()
    alone = [*hosts, *sorted(of_pods)]
    found, reach = Findings(), HostAccess(remote, book or Memory())
    if not alone:
        why = "these tests run as Slurm jobs, but Slurm owns no GPU host"
        return Outcome((not_assessed(CLUSTER, why, required=False).of(HOST),))
    _alone(view, reach, alone, found, HOST, floors.floor(view, HOST), ())
    if view.profile.hardware.fabric.ports:
        off = ("NCCL_P2P_DISABLE=1", "NCCL_SHM_DISABLE=1")
        _alone(view, reach, alone, found, LOOPBACK, floors.floor(view, LOOPBACK), off)
    for those in (hosts, sorted(of_pods)):
        if len(those) > 1:
            _between(view, reach, those, found)
    measured = tuple(
        Measurement(
            name=r.id, value=float(r.value), unit=r.unit, target=r.target, simulated=r.simulated
        )
        for r in found.results
        if isinstance(r.value, float)
    )
    return Outcome(tuple(found.results), measured, tuple(found.tables), tuple(found.raw))


def _between(view: View, reach: HostAccess, hosts: Sequence[str], found: Findings) -> None:
    """Groups of the hosts of one scheduler, then all that are good."""
    sound = _grouped(view, reach, hosts, found)
    if len(sound) < len(hosts):
        # An earlier run's word on all of them is overtaken.
        left = fold(host for host in hosts if host not in sound)
        at = place(CLUSTER, f"{len(hosts)} hosts")
        why = f"not over all hosts: {left} not known to be good"
        found.results.append(not_assessed(at, why, fix=FIX_FABRIC).of(ALL))
    if len(sound) > 1:
        _clustered(view, reach, sound, found)


def _task(view: View, part: str, collective: str, hosts: int, settings: Sequence[str]) -> Task:
    """On one host one process drives all GPUs; on several each GPU has its rank."""
    gpus = gpu_least(view.profile, view.site)
    alone = hosts == 1
    return Task(
        "nccl",
        SCRIPT,
        seconds=600 if alone else 600 + 10 * hosts,
        tools=tool(collective),
        part=part,
        arguments=(collective, str(gpus if alone else 1), "8G", *settings),
        gpus=gpus,
        ranks=0 if alone else gpus,
        contained=True,
    )


def _alone(
    view: View,
    reach: HostAccess,
    hosts: Sequence[str],
    found: Findings,
    check: str,
    bound: Limit | None,
    settings: Sequence[str],
) -> None:
    said = on_each(view, reach, _task(view, check, "all_reduce", 1, settings), hosts)
    for host, one in said.items():
        found.raw.append(Raw(f"{check.partition('.')[2]}-{host}.txt", one.output or one.cause))
        measured = measured_of(one, gpu_least(view.profile, view.site), (host,))
        fix = FIX_HOST if check == HOST else FIX_FABRIC
        most = ceilings.of_collective(view, host) if check == HOST else UNWIRED
        found.results += judge(check, place(host), one, measured, bound, fix, most)


def measured_of(said: HostOutput, gpus: int, hosts: Sequence[str]) -> Collective | str:
    """Returns the measurement of these hosts with all of their GPUs, or the reason why there is none."""
    try:
        if said.code:
            raise Unread(f"nccl-tests ended with {said.code}: {said.last or 'no reason given'}")
        table = read(said.output)
    except Unread as error:
        return str(error)
    took = {name.partition(".")[0]: count for name, count in table.hosts.items()}
    if took != dict.fromkeys((h.partition(".")[0] for h in hosts), gpus):
        return _others(table)
    return table


def judge(
    check: str,
    at: Place,
    said: HostOutput,
    measured: Collective | str,
    bound: Limit | None,
    fix: str,
    most: Bounded,
) -> Iterator[CheckResult]:
    """The largest message against ``bound``, and whether the curve rises. ``most``: GB/s that cannot be passed."""
    if said.trouble:
        yield said.verdict(check, at)
        return
    if isinstance(measured, str):
        yield judged(
            at, Status.ERROR, cause=measured, fix="run it by hand on the host and check its output"
        ).of(check)
        return
    yield _peak(check, at, measured, bound, fix, most)
    yield _curve(at, measured, check)


def _peak(
    check: str, at: Place, measured: Collective, bound: Limit | None, fix: str, most: Bounded
) -> CheckResult:
    peak = measured.peak
    if measured.alone and not measured.wrong:
        return not_assessed(at, LONE, required=False).of(check)
    shown: dict[str, object] = {
        "value": peak.busbw,
        "unit": "GB/s",
        "evidence": f"{_size(peak.size)} messages; {ceilings.bound_text(most, 'GB/s')}",
    }
    if bound:
        shown |= {"limit": bound.value, "limit_source": bound.source}
    if measured.wrong:
        cause = f"{plural(measured.wrong, 'value is', 'values are')} wrong: data was corrupted in transit"
        return failed(
            at, cause, "drain the affected hosts, then run appliance validate dcgm", **shown
        ).of(check)
    # A tree over two hosts or in-network reduction passes the wire, and hides a bad port (nccl#1576).
    if isinstance(most, Most) and most.passed_by(peak.busbw):
        cause = f"{peak.busbw:g} GB/s is more than {most.why} ({most.value:.4g}): the measurement is wrong"
        return judged(
            at,
            Status.ERROR,
            cause=cause,
            fix=FIX_HIGH,
            **shown,
        ).of(check)
    if peak.size < TOO_SHORT:
        cause = f"the largest message has {_size(peak.size)}; limits apply from 1 GiB"
        return not_assessed(at, cause, **shown).of(check)
    if bound is None:
        cause = f"no limit is known for this product: set {check} in limits of site or profile"
        return not_assessed(at, cause, required=False, **shown).of(check)
    if peak.busbw < float(bound.value or 0):
        return failed(at, f"bus bandwidth is {peak.busbw:g} GB/s", fix, **shown).of(check)
    return passed(at, **shown).of(check)  # type: ignore[arg-type]  # value is one of them


def _curve(at: Place, measured: Collective, check: str) -> CheckResult:
    where = Place(at.host, (*at.parts, check.partition(".")[2]))
    if measured.alone:
        return not_assessed(where, LONE, required=False).of(CURVE)
    if measured.dents:
        size, lost = measured.dents[0]
        cause = f"bandwidth falls by {lost:g} % at {_size(size)}, where it should rise"
        fix = "check that size with NCCL_DEBUG=INFO: protocol, algorithm, a lossy port"
        return failed(where, cause, fix).of(CURVE)
    return passed(where, len(measured.rows), unit="sizes").of(CURVE)


def _grouped(view: View, reach: HostAccess, hosts: Sequence[str], found: Findings) -> list[str]:
    """Separates slow hosts from slow paths with groups that have no host in common; returns hosts that are not slow."""
    bound = floors.of_fabric(view, GROUPS)
    best: dict[str, float] = {}
    why: dict[str, str] = {}

    def attempt(groups: Sequence[Group]) -> Mapping[Group, bool | None]:
        verdicts: dict[Group, bool | None] = {}
        with ThreadPoolExecutor(max(1, len(groups))) as pool:
            tried = pool.map(
                lambda g: _over(view, reach, sorted(g), found, "all_reduce", GROUPS, bound), groups
            )
            answers = dict(zip(groups, tried, strict=True))
        for group, (one, result) in answers.items():
            verdicts[group] = {Status.PASS: True, Status.FAIL: False}.get(result.status)
            # Its other hosts are tried again with one that is known to be good.
            if group & found.culprits.keys():
                verdicts[group] = False
            for host in group:
                if isinstance(result.value, float):
                    best[host] = max(best.get(host, 0.0), result.value)
                why.setdefault(host, one.cause or result.cause)
        return verdicts

    isolated = search(hosts, attempt)
    stopped = found.culprits
    found.results += (
        _marked(view, stopped[host].verdict(GROUPS, host), hosts)
        for host in hosts
        if host in stopped
    )
    ends, left, good = (
        [host for host in some if host not in stopped]
        for some in (isolated.ends, isolated.open, isolated.good)
    )
    results = grouped(ends, isolated.paths, left, good, best, why, bound)
    found.results += (_marked(view, result, hosts) for result in results)
    return [host for host in hosts if host in good]


def grouped(
    ends: Sequence[str],
    paths: Sequence[tuple[str, str]],
    left: Sequence[str],
    good: Sequence[str],
    best: Mapping[str, float],
    why: Mapping[str, str],
    bound: Limit | None,
) -> Iterator[CheckResult]:
    """A verdict for each host, and for each path between good ones that is bad."""
    shown = {"limit": bound.value, "limit_source": bound.source} if bound else {}
    for host in ends:
        cause = "it is slow with every host that is known to be good"
        yield failed(host, cause, FIX_FABRIC, value=best.get(host), unit="GB/s", **shown).of(GROUPS)
    for one, other in paths:
        cause = f"{one} and {other} are slow together and good with others: the path between them"
        fix = "check cables and switch ports between the two: appliance fabric"
        yield failed(place(one, f"to {other}"), cause, fix, names=(one, other), **shown).of(GROUPS)
    for host in left:
        cause = why.get(host) or "no known good host was available for comparison"
        yield not_assessed(host, cause, value=best.get(host), unit="GB/s", **shown).of(GROUPS)
    for host in good:
        yield passed(host, best.get(host), unit="GB/s", **shown).of(GROUPS)


def _over(
    view: View,
    reach: HostAccess,
    hosts: Sequence[str],
    found: Findings,
    collective: str,
    check: str,
    bound: Limit | None,
) -> tuple[HostOutput, CheckResult]:
    """One collective over these hosts on a ring: a tree over two hosts passes more than the wire."""
    part = f"{check} {collective}"
    remote = reach.remote
    if isinstance(remote, PodRemote) and remote.hosts.issuperset(hosts):
        said, measured = _of_pods(view, reach, hosts, found, collective, part)
    else:
        task = _task(view, part, collective, len(hosts), ("NCCL_ALGO=Ring",))
        said = as_one(view, reach, task, hosts)
        measured = measured_of(said, gpu_least(view.profile, view.site), hosts)
    name = f"{collective}-{len(hosts)}-{hosts[0]}-{hosts[-1]}.txt"
    found.raw.append(Raw(name, said.output or said.cause))
    fabric = view.profile.hardware.fabric
    wire = fabric.ports * fabric.rate_gbps / 8
    most = Most(wire, "what the wire carries") if wire else NO_RATE
    which = "" if collective == "all_reduce" else f"{collective} "
    at = place(CLUSTER, f"{which}{len(hosts)} hosts" if check == ALL else " ".join(hosts))
    judged_as = list(judge(check, at, said, measured, bound, FIX_FABRIC, most))
    results = [_marked(view, result, hosts) for result in judged_as]
    if check == ALL:
        found.results += results
    if check == ALL and isinstance(measured, Collective):
        found.tables.append(_table(collective, hosts, measured))
    return said, results[0]


def _of_pods(
    view: View,
    reach: HostAccess,
    hosts: Sequence[str],
    found: Findings,
    collective: str,
    part: str,
) -> tuple[HostOutput, Collective | str]:
    """The output of a gang of pods, and what it measured or why it did not."""
    answers = together(view, reach, between_pods.task(view, part, collective, hosts), hosts)
    said, culprit = between_pods.of_gang(answers)
    if culprit:
        found.culprits[culprit] = said
    if said.trouble:
        return said, said.cause
    try:
        if said.code:
            raise Unread(f"it ended with {said.code}: {said.last or 'no reason given'}")
        measured = between_pods.read(said.output, collective)
    except Unread as error:
        return said, str(error)
    each = 1 if contained(view, hosts) else gpu_least(view.profile, view.site)
    return said, measured if measured.hosts == dict.fromkeys(hosts, each) else _others(measured)


def _others(measured: Collective) -> str:
    shown = ", ".join(f"{count} of {host}" for host, count in sorted(measured.hosts.items()))
    return f"the benchmark ran on the wrong GPUs: {shown}"


def _marked(view: View, result: CheckResult, hosts: Sequence[str]) -> CheckResult:
    """The result, marked if its hosts share one machine."""
    return result.model_copy(update={"simulated": contained(view, hosts)})


def _clustered(view: View, reach: HostAccess, hosts: Sequence[str], found: Findings) -> None:
    bound = floors.of_fabric(view, ALL)
    for count in sizes(len(hosts))[1:]:
        _, result = _over(view, reach, hosts[:count], found, "all_reduce", ALL, bound)
        if result.status is not Status.PASS:
            return
    for collective in OTHERS:
        if collective == "reduce_scatter" and contained(view, hosts):
            # PyTorch's backend for processors has none.
            continue
        # All to all crosses the wire with every host at once: no published share of it is known.
        _over(
            view, reach, hosts, found, collective, ALL, None if collective == "alltoall" else bound
        )


def _table(collective: str, hosts: Sequence[str], measured: Collective) -> Table:
    title = f"NCCL {collective} over {len(hosts)} hosts"
    points = tuple((float(row.size), row.busbw) for row in measured.rows)
    series = Series(label="bus bandwidth", points=points)
    return Table(
        title=title,
        columns=("bytes", "GB/s", "wrong"),
        rows=tuple((row.size, row.busbw, row.wrong) for row in measured.rows),
        plot=Plot(title=title, x_label="bytes", y_label="GB/s", series=(series,)),
    )


def _size(count: int) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:g} {unit}"
    return f"{count} B"
