"""Collectives between hosts of Kubernetes: PyTorch in one pod on each host, because nccl-tests need MPI, which a gang of pods lacks."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from appliance.benchmarks.equals import contained
from appliance.benchmarks.jobs import HostOutput, Task, Trouble
from appliance.benchmarks.nccl.collective import FACTOR, IN_VAIN, NO_TORCH
from appliance.benchmarks.nccl.table import Collective, Row
from appliance.benchmarks.reading import Foreign, Rate, Unread, document
from appliance.checks.check import View
from appliance.models.gpu_counts import gpu_least

PROGRAM = Path(__file__).with_name("collective.py").read_text(encoding="utf-8")
SCRIPT = f"""
cat >collective.py <<'APPLIANCE_END'
{PROGRAM}
APPLIANCE_END
NCCL_ALGO=Ring exec python3 collective.py "$1" "$2" "$3"
"""
GET_TORCH = "install PyTorch with CUDA there (pip install torch)"
PORT = 29521
LARGEST, LARGEST_WITHOUT_GPUS = 8 << 30, 64 << 20
"""Bytes of the largest message."""
OFF = 0.02
"""Relative difference of a bandwidth from that of size and time: printed digits."""
CULPRITS = frozenset({Trouble.FAILED, Trouble.CUT})


class Member(Foreign):
    """The process of one GPU, or of the processors of a host."""

    host: str = Field(max_length=253)
    device: int = Field(ge=0, le=255)
    name: str = Field(max_length=120)


class Begin(Foreign):
    """What takes part."""

    kind: Literal["begin"]
    collective: str = Field(max_length=40)
    gpus: bool
    ranks: tuple[Member, ...] = Field(min_length=1, max_length=65536)


class Measured(Foreign):
    """One size in bytes: microseconds, GB/s of the bus, wrong elements."""

    kind: Literal["row"]
    size: int = Field(ge=1, le=1 << 40)
    us: float = Field(gt=0, le=1e12, allow_inf_nan=False)
    busbw: Rate
    wrong: int = Field(ge=0)


class End(Foreign):
    """All sizes were measured."""

    kind: Literal["end"]


def task(view: View, part: str, collective: str, hosts: Sequence[str]) -> Task:
    """Hosts that share one machine, as in a virtual rack, may exchange data of their processors."""
    shared = contained(view, hosts)
    most = LARGEST_WITHOUT_GPUS if shared else LARGEST
    return Task(
        "nccl",
        SCRIPT,
        seconds=600 + 10 * len(hosts),
        tools={"python3": GET_TORCH},
        part=part,
        arguments=(collective, str(most), "processors" if shared else "gpus"),
        gpus=gpu_least(view.profile, view.site),
        port=PORT,
        in_vain=IN_VAIN,
    )


def of_gang(said: dict[str, HostOutput]) -> tuple[HostOutput, str]:
    """The output of the first host, or the trouble of the host that stopped the gang, and that host; "" if none is known.

    The first host prints the figures. What another one prints instead does not count.
    """
    bad = {host: _without_torch(one) for host, one in said.items() if one.trouble or one.code}
    for host, one in bad.items():
        if (one.trouble in CULPRITS or (one.code and not one.trouble)) and not _all_alike(bad, one):
            return one, host
    unknown = (one for one in bad.values() if one.trouble is Trouble.NO_TOOL)
    first = next(unknown, next(iter(bad.values()), None))
    return first or next(iter(said.values())), ""


def _without_torch(one: HostOutput) -> HostOutput:
    """A host without PyTorch is not measured, which is no fault of its GPUs."""
    if one.code != NO_TORCH or one.trouble:
        return one
    return HostOutput(trouble=Trouble.NO_TOOL, cause=one.reason, fix=GET_TORCH)


def _all_alike(bad: dict[str, HostOutput], one: HostOutput) -> bool:
    return len(bad) > 1 and all(other == one for other in bad.values())


def read(output: str, collective: str) -> Collective:
    """The rows of a whole run of ``collective``. Raises Unread."""
    lines = [line for line in output.splitlines() if line.strip()]
    if len(lines) < 3:
        raise Unread("its output is incomplete: no size was measured")
    begin = document(Begin, lines[0])
    document(End, lines[-1])
    if begin.collective != collective:
        raise Unread(f"it measured {begin.collective}, not {collective}")
    ranks = len(begin.ranks)
    rows = tuple(_row(document(Measured, line), collective, ranks) for line in lines[1:-1])
    sizes = [row.size for row in rows]
    if sizes != sorted(set(sizes)):
        raise Unread("its sizes do not increase")
    hosts: dict[str, int] = {}
    for member in begin.ranks:
        hosts[member.host] = hosts.get(member.host, 0) + 1
    names = frozenset(member.name for member in begin.ranks)
    return Collective(rows, hosts, names, sum(row.wrong for row in rows))


def _row(one: Measured, collective: str, ranks: int) -> Row:
    made = one.size / one.us / 1000 * FACTOR[collective](ranks)
    if abs(made - one.busbw) > OFF * max(made, one.busbw):
        raise Unread(
            f"a line contradicts itself: {one.size} bytes in {one.us:g} us are {made:.4g} GB/s of the bus, but it reports {one.busbw:g}"
        )
    return Row(one.size, one.busbw, one.wrong)
