"""STREAM and HPL on the processors of each host, compared with its peers."""

from collections.abc import Iterator, Mapping, Sequence

from appliance.adapters.remote import Remote
from appliance.benchmarks import ceilings
from appliance.benchmarks.batch import Book, Memory
from appliance.benchmarks.benchmark import Outcome, Raw
from appliance.benchmarks.ceilings import Bounded, Most
from appliance.benchmarks.equals import Figure, in_container, judge_hosts
from appliance.benchmarks.hpcc.gates import CHECKS, HPL, STREAM
from appliance.benchmarks.hpcc.summary import Summary, read
from appliance.benchmarks.jobs import HostAccess, HostOutput, Task, on_each
from appliance.benchmarks.reading import Unread
from appliance.checks.check import View, failed, judged, not_assessed
from appliance.models.result import CLUSTER, CheckResult, Measurement, Status
from appliance.models.site import Role
from appliance.text import plural

INSTALL = (
    "apt-get install hpcc libopenblas0-pthread there (Debian, Ubuntu; RHEL has no package of it)"
)
TOOLS = {"hpcc": INSTALL, "mpirun": INSTALL}
SECONDS, SMALL_SECONDS = 3600.0, 240.0
SHARE = 0.1
"""Share of the memory for the matrix: enough to exceed the caches in less than an hour."""
SMALL_ORDER = 1500
SHARED = "the host shares its machine with others"
FIXES = {
    STREAM: "check there dmidecode -t memory (a missing or slow module), numactl -H, NUMA and power settings of the BIOS",
    HPL: "check there cpupower frequency-info, temperatures and other programs; appliance health",
}

# $1 order of the matrix, $2 rows and $3 columns of ranks. hpcc reads its input from its working directory, and writes there. MPI stays
# within the host: Slurm started this task, and no other is required.
SCRIPT = (
    """
cat >hpccinf.txt <<END
HPLinpack benchmark input file
of one host
HPL.out      output file
8            device out
1            sizes
$1           Ns
1            block sizes
192          NBs
0            PMAP
1            grids
$2           Ps
$3           Qs
16.0         threshold
1            panel factorisations
2            PFACTs
1            stopping criteria
4            NBMINs
1            panels in recursion
2            NDIVs
1            recursive factorisations
1            RFACTs
1            broadcasts
1            BCASTs
1            look-aheads
1            DEPTHs
2            SWAP
64           swapping threshold
0            L1
0            U
1            equilibration
8            alignment
---- a separator
0            sizes for PTRANS
1            values
0            block sizes for PTRANS
1            values
END
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_ras=^slurm OMPI_MCA_plm=isolated
export OMPI_MCA_btl=self,vader OMPI_MCA_mpi_yield_when_idle=1 OPENBLAS_NUM_THREADS=1
mpirun -np $(($2 * $3)) --oversubscribe hpcc >/dev/null || exit
cat hpccoutf.txt
"""
    + ceilings.ASK
)


def run(view: View, remote: Remote, book: Book | None = None) -> Outcome:
    """All hosts side by side; hosts that share one machine one after the other."""
    hosts = [host.name for host in view.site.with_role(Role.GPU)]
    if not hosts:
        return Outcome((not_assessed(CLUSTER, "the site has no GPU host").of(STREAM),))
    reach = HostAccess(remote, book or Memory())
    crowded = [host for host in hosts if in_container(view, host)]
    said: dict[str, HostOutput] = {}
    for host in crowded:
        said |= on_each(view, reach, task(view, host), [host])
    for group in _groups(view, [host for host in hosts if host not in crowded]):
        said |= on_each(view, reach, task(view, group[0]), group)
    summaries, results = _read(view, said)
    for group in _groups(view, [host for host in hosts if host in summaries]):
        results += _compared(view, {host: summaries[host] for host in group}, said)
    measured = tuple(
        Measurement(name=r.id, value=r.value, unit=r.unit, target=r.target, simulated=r.simulated)
        for r in results
        if isinstance(r.value, float)
    )
    raw = tuple(Raw(f"{host}.txt", one.output or one.cause) for host, one in said.items())
    return Outcome(tuple(results), measured, raw=raw)


def _compared(
    view: View, found: Mapping[str, Summary], said: Mapping[str, HostOutput]
) -> Iterator[CheckResult]:
    for check, unit, pick, bound_of in (
        (STREAM, "GB/s", _stream, _most_memory),
        (HPL, "GFLOPS", _hpl, _most_processors),
    ):
        what = f"{check.partition('.')[2].upper()} of its processors"
        figure = Figure(check, what, unit, FIXES[check])
        values, evidence = {}, {}
        for host, one in found.items():
            bound = bound_of(view, host, said[host].output)
            if isinstance(bound, Most) and bound.passed_by(pick(one)):
                yield _impossible(figure, host, pick(one), bound)
                continue
            values[host] = pick(one)
            evidence[host] = f"{_evidence(one)}; {ceilings.bound_text(bound, unit)}"
        yield from judge_hosts(view, figure, values, evidence)


def _impossible(figure: Figure, host: str, value: float, bound: Most) -> CheckResult:
    cause = f"{figure.what} cannot be {value:.4g} {figure.unit}: {ceilings.bound_text(bound, figure.unit)}"
    fix = "run hpcc by hand on the host; check for a matrix that fits into the caches, and for a wrong clock"
    return judged(
        host,
        Status.ERROR,
        value=float(f"{value:.4g}"),
        unit=figure.unit,
        cause=cause,
        fix=fix,
    ).of(figure.check)


def _most_memory(view: View, host: str, text: str) -> Bounded:
    facts = view.bounded(host)
    if facts is None or in_container(view, host):
        return SHARED
    return ceilings.of_memory(text, facts.memory.total)


def _most_processors(view: View, host: str, text: str) -> Bounded:
    return SHARED if in_container(view, host) else ceilings.of_processors(text, _cores(view, host))


def task(view: View, host: str) -> Task:
    """One rank per core; the matrix is as large as a tenth of the memory. Hosts that share a machine have one rank."""
    small = in_container(view, host)
    rows, columns = (1, 1) if small else grid(_cores(view, host))
    facts = view.bounded(host)
    memory = facts.memory.total if facts else 0
    order = SMALL_ORDER if small or not memory else int((memory * SHARE / 8) ** 0.5)
    arguments = tuple(map(str, (order, rows, columns)))
    return Task("hpcc", SCRIPT, SMALL_SECONDS if small else SECONDS, TOOLS, arguments=arguments)


def _cores(view: View, host: str) -> int:
    facts = view.bounded(host)
    return max(1, facts.cpu.cores) if facts else 1


def _groups(view: View, hosts: Sequence[str]) -> Iterator[list[str]]:
    """Hosts of the same number of cores and, to the GiB, memory: they get the same matrix."""
    groups: dict[object, list[str]] = {}
    for host in hosts:
        facts = view.bounded(host)
        kind = (facts.cpu.cores, facts.memory.total >> 30) if facts else None
        groups.setdefault(kind, []).append(host)
    yield from groups.values()


def grid(ranks: int) -> tuple[int, int]:
    """Rows and columns of ranks, as square as their number allows; not more columns than needed."""
    rows = next(n for n in range(int(ranks**0.5), 0, -1) if ranks % n == 0)
    return rows, ranks // rows


def _read(
    view: View, said: Mapping[str, HostOutput]
) -> tuple[dict[str, Summary], list[CheckResult]]:
    summaries, results = {}, list[CheckResult]()
    for host, one in said.items():
        simulated = in_container(view, host)
        if one.trouble:
            results += [one.verdict(check, host, simulated=simulated) for check in CHECKS]
            continue
        try:
            if one.code:
                raise Unread(f"hpcc ended with {one.code}: {one.last or 'no reason given'}")
            found = read(one.output)
            _require_asked(view, host, found)
        except Unread as error:
            fix = "run hpcc there by hand"
            bad = judged(host, Status.ERROR, cause=str(error), fix=fix)
            results += [bad.of(check) for check in CHECKS]
            continue
        if found.right:
            summaries[host] = found
        else:
            cause = "HPL's solution is wrong: a CPU or memory fault corrupts results"
            fix = "drain the host; run a memory test, and check the kernel log for machine checks"
            results.append(failed(host, cause, fix, simulated=simulated).of(HPL))
            # An earlier run's word on it is overtaken.
            why = "its CPUs or memory compute wrong results, so none of their figures count"
            results.append(not_assessed(host, why, simulated=simulated).of(STREAM))
    return summaries, results


def _require_asked(view: View, host: str, found: Summary) -> None:
    """Figures of another matrix, or of other ranks, are of another run. Raises Unread."""
    order, rows, columns = map(int, task(view, host).arguments)
    if (found.ranks, found.order) != (rows * columns, order):
        raise Unread(
            f"it is of {plural(found.ranks, 'rank')} and a matrix of {found.order}, asked were {rows * columns} and {order}"
        )


def _stream(found: Summary) -> float:
    return found.stream


def _hpl(found: Summary) -> float:
    return found.hpl


def _evidence(found: Summary) -> str:
    return f"hpcc {found.version}, {found.ranks} ranks, matrix of {found.order}"
