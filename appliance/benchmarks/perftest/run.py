"""Every rail of pairs of hosts: who is slow follows from which ends are slow with whom."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from appliance.adapters.pods import PodRemote
from appliance.adapters.remote import Remote
from appliance.benchmarks import floors
from appliance.benchmarks.batch import Book, Memory
from appliance.benchmarks.benchmark import Outcome, Raw
from appliance.benchmarks.blame.pairs import Group, isolate, lifted, search
from appliance.benchmarks.jobs import HostAccess, HostOutput, Task, together
from appliance.benchmarks.perftest import table
from appliance.benchmarks.perftest.gates import BW, CHECKS, GPU_BW, LAT, rails_of
from appliance.benchmarks.reading import Unread
from appliance.checks.check import View, failed, not_assessed, passed
from appliance.models.gpu_counts import gpu_least
from appliance.models.profile import Limit
from appliance.models.result import CLUSTER, CheckResult, Measurement, place
from appliance.models.site import Owner

UNITS = {BW: "Gb/s", LAT: "us", GPU_BW: "Gb/s"}
SECONDS = 3
PART = "appliance-part "
ABOVE_WIRE = 1.02
"""Times the rate of a port: more is no measurement of it, both ways added up or a unit mixed up."""
TOOLS = {
    "ib_write_bw": "apt-get install perftest there (Debian, Ubuntu), dnf install perftest (RHEL)"
}
FIX = "check there ibstat and port counters of this adapter, its cable, its PCIe width (lspci -vv)"
PATH_FIX = "check the cable and switch ports between the two: appliance fabric"
TOO_FEW = "a pair needs two GPU hosts of Slurm, or of Kubernetes with --through kubernetes"
NO_CUDA = "this perftest cannot test GPU memory: it was built without CUDA, or it has no --use_cuda_dmabuf and nvidia_peermem is not loaded; install perftest of DOCA-OFED"

PORT = 18600
"""The first of its ports."""

# $1 seconds, $2 the server's name, $3 its address, then rails as device:gpu. A separate port for each part prevents a late server
# from answering for the next part. A server that is not ready is tried again; a missing device
# is not. Address and port are of the management network, over which perftest only exchanges queue numbers.
# A pod may start a minute after that of the server, which waits for it with its first part.
# GPU memory: by nvidia_peermem if loaded, else by dma-buf (perftest manual).
SCRIPT = """
peermem=/sys/module/nvidia_peermem
seconds=$1 name=$2 server=$3; shift 3
me=${SLURMD_NODENAME:-$NODE_NAME} late=; [ -n "$SLURMD_NODENAME" ] || late=90
port=18600 cuda=
case $(ib_write_bw --help 2>&1) in
  *use_cuda_dmabuf*) [ -d $peermem ] && cuda=--use_cuda= || cuda="--use_cuda_dmabuf --use_cuda=" ;;
  *use_cuda*) [ -d $peermem ] && cuda=--use_cuda= ;;
esac
attempt() {
  part=$1; shift; port=$((port + 1))
  if [ "$me" = "$name" ]; then
    timeout $((seconds + 15 + late)) "$@" -p $port >/dev/null 2>&1
    late=
  else
    echo "appliance-part $part"
    for wait in 1 2 3; do
      sleep $wait; ended=yes; said=$(timeout $((seconds + 15)) "$@" -p $port "$server" 2>&1) || ended=no
      echo "$said"
      case "$ended $said" in yes*|*"Unable to find the Infiniband/RoCE device"*) break ;; esac
    done
  fi
}
for rail; do
  device=${rail%%:*} gpu=${rail#*:}
  attempt "write_bw $device" ib_write_bw -d "$device" -F --report_gbits -s 1048576 -q 4 -D "$seconds"
  attempt "write_lat $device" ib_write_lat -d "$device" -F -s 8 -n 5000
  [ -n "$cuda" ] && [ -n "$gpu" ] && attempt "gpu_write_bw $device" ib_write_bw -d "$device" -F --report_gbits -s 1048576 -q 4 -D "$seconds" $cuda"$gpu"
done
:
"""

Values = dict[tuple[str, str], float]
"""Results by check and device."""


@dataclass
class Measured:
    """By pair, the result of each rail; ``why`` if it could not be measured."""

    values: dict[Group, Values] = field(default_factory=dict)
    why: dict[Group, str] = field(default_factory=dict)
    raw: list[Raw] = field(default_factory=list)


def run(view: View, remote: Remote, book: Book | None = None) -> Outcome:
    """Pairs side by side, no host in two at once; then each suspect with hosts that are known to be good."""
    hosts = [host.name for host in view.site.gpu_hosts_of(Owner.SLURM)]
    if isinstance(remote, PodRemote):
        hosts = [host.name for host in view.site.hosts if host.name in remote.hosts]
    devices = {host: tuple(rails_of(view, host)) for host in hosts}
    if not view.profile.hardware.fabric.ports:
        why = "this hardware class has no fabric"
        return Outcome((not_assessed(CLUSTER, why, required=False).of(BW),))
    if len(hosts) < 2:
        return Outcome((not_assessed(CLUSTER, TOO_FEW, required=False).of(BW),))
    wire = view.profile.hardware.fabric.rate_gbps
    bounds = {
        BW: floors.of_port(view, BW),
        LAT: floors.floor(view, LAT),
        GPU_BW: floors.of_port(view, GPU_BW),
    }
    found, reach = Measured(), HostAccess(remote, book or Memory())

    def attempt(groups: Sequence[Group]) -> Mapping[Group, bool | None]:
        with ThreadPoolExecutor(max(1, len(groups))) as pool:
            said = list(pool.map(lambda g: _pair(view, reach, g, devices), groups))
        for group, one in zip(groups, said, strict=True):
            _note(found, group, one, wire)
        return {group: _good(found.values.get(group), bounds) for group in groups}

    search(hosts, attempt, size=2)
    results = tuple(judge(hosts, devices, found, bounds))
    measured = tuple(
        Measurement(
            name=check,
            value=round(value, 2),
            unit=UNITS[check],
            target="-".join(sorted(group)) + f" {device}",
        )
        for group, values in found.values.items()
        for (check, device), value in values.items()
    )
    return Outcome(results, measured, raw=tuple(found.raw))


def _pair(
    view: View, reach: HostAccess, group: Group, devices: Mapping[str, Sequence[str]]
) -> HostOutput:
    """Output of the client; what the server prints does not count."""
    one, other = sorted(group)
    common = [rail for rail in devices[one] if rail in devices[other]]
    task = Task(
        "perftest",
        SCRIPT,
        seconds=(3 * (SECONDS + 16)) * max(1, len(common)) + 120,
        tools=TOOLS,
        arguments=(str(SECONDS), one, str(view.site.host(one).address), *common),
        gpus=gpu_least(view.profile, view.site),
        port=PORT,
    )
    said = together(view, reach, task, (one, other))
    bad = next((s for s in said.values() if s.trouble), None)
    return bad or said[other]


def _note(found: Measured, group: Group, said: HostOutput, wire: float) -> None:
    found.raw.append(Raw("-".join(sorted(group)) + ".txt", said.output or said.cause))
    if said.trouble:
        found.why[group] = f"{said.cause}: {said.fix}" if said.fix else said.cause
        return
    values, why = parts(said.output, wire)
    found.values[group] = values
    if why:
        found.why[group] = why


def parts(output: str, wire: float = 0.0) -> tuple[Values, str]:
    """The results of each part of a pair's output, and the first unreadable part. ``wire``: Gb/s of a port; 0: unknown."""
    values: Values = {}
    first = ""
    for section in output.split(PART)[1:]:
        title, _, body = section.partition("\n")
        name, _, device = title.strip().partition(" ")
        check = f"perftest.{name}"
        if check not in CHECKS or not device:
            continue
        try:
            read = table.latency if check == LAT else table.bandwidth
            value = read(body)
            if wire and check != LAT and value > wire * ABOVE_WIRE:
                raise Unread(f"{value:g} Gb/s is more than the wire carries ({wire:g})")
            values[check, device] = value
        except Unread as error:
            first = first or f"{name} of {device}: {error}"
    return values, first


def within(check: str, value: float, bound: Limit) -> bool:
    """Whether a value keeps to its bound."""
    return value <= float(bound.value or 0) if check == LAT else value >= float(bound.value or 0)


def _good(values: Values | None, bounds: Mapping[str, Limit | None]) -> bool | None:
    """Whether all rails of a pair are good; None if nothing was measured or no limit is known."""
    verdicts = [
        within(check, value, bound)
        for (check, _), value in (values or {}).items()
        if (bound := bounds[check])
    ]
    return all(verdicts) if verdicts else None


def judge(
    hosts: Sequence[str],
    devices: Mapping[str, Sequence[str]],
    found: Measured,
    bounds: Mapping[str, Limit | None],
) -> Iterator[CheckResult]:
    """A verdict per check, host and rail: a bad rail is that port's fault, unless the port is good with another host."""
    for check in CHECKS:
        ends = [f"{host}/{rail.partition(':')[0]}" for host in hosts for rail in devices[host]]
        bound = bounds[check]
        results: dict[Group, bool | None] = {}
        worst: dict[str, float] = {}
        for group, values in found.values.items():
            for (measured, device), value in values.items():
                if measured != check:
                    continue
                pair = frozenset(f"{host}/{device}" for host in group)
                results[pair] = within(check, value, bound) if bound else None
                pick = min if check == LAT else max
                for end in pair:
                    worst[end] = pick(worst.get(end, value), value)
        yield from _verdicts(check, ends, results, worst, bound, found)


def _verdicts(
    check: str,
    ends: Sequence[str],
    results: Mapping[Group, bool | None],
    best: Mapping[str, float],
    bound: Limit | None,
    found: Measured,
) -> Iterator[CheckResult]:
    if not results:
        why = next(iter(found.why.values()), NO_CUDA if check == GPU_BW else "no pair was measured")
        why = NO_CUDA if check == GPU_BW and found.values else why
        yield not_assessed(CLUSTER, why, required=check != GPU_BW).of(check)
        return
    isolated = isolate(ends, results)
    whole = {end for end in lifted(ends, isolated.ends) if "/" not in end}
    shown = {"unit": UNITS[check]}
    limit = {"limit": bound.value, "limit_source": bound.source} if bound else {}
    for end in ends:
        host, _, device = end.partition("/")
        value = round(best[end], 2) if end in best else None
        common = {**shown, **limit, "value": value}
        at = place(host, device)
        if end in isolated.ends:
            cause = (
                "every port of this host is slow: check the host"
                if host in whole
                else "it is slow with hosts whose ports are good"
            )
            yield failed(at, cause, FIX, **common).of(check)
        elif end in isolated.good:
            yield passed(at, **common).of(check)
        else:
            yield not_assessed(at, _why(end, results, bound, found, check), **common).of(check)
    for one, other in isolated.paths:
        cause = f"slow together, but each is good with another host: check the path to {other}"
        at = place(one.partition("/")[0], one.partition("/")[2], f"to {other.partition('/')[0]}")
        yield failed(at, cause, PATH_FIX, names=(one, other), **limit).of(check)


def _why(
    end: str, results: Mapping[Group, bool | None], bound: Limit | None, found: Measured, check: str
) -> str:
    if bound is None:
        return f"no limit is known: set {check} in limits of site or profile"
    if any(good is False and end in pair for pair, good in results.items()):
        return "it is slow, but without a known good host the slow end cannot be identified"
    host = end.partition("/")[0]
    return next((why for group, why in found.why.items() if host in group), "it was not measured")
