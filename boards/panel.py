"""What a board is made of: panels with queries, and what must be there for a panel to show anything."""

from dataclasses import dataclass, replace
from enum import StrEnum

SLURM = "slurm_"
"""How the names of Slurm's series begin."""


class Kind(StrEnum):
    """How a panel is drawn."""

    LINES = "lines"
    NUMBER = "number"
    TABLE = "table"


class Needs(StrEnum):
    """Data sources of panels that the virtual rack does not have."""

    DCGM = "NVIDIA's dcgm-exporter on GPU hosts; simulated values of the rack are not shown"
    DCGM_JOBS = "dcgm-exporter with a job mapping (hpcJobMapping), on GPU hosts"
    INFINIBAND = "InfiniBand ports in the kernel's /sys/class/infiniband; the rack's ports exist only in ibsim"
    KERNEL_NFS = "the kernel's NFS client; the rack's hosts read NFS through libnfs"
    KERNEL_NFSD = "the kernel's NFS server; the rack serves NFS with nfs-ganesha"
    OWN_CLOCK = "a clock of the host's own; a container may not read its machine's (adjtimex)"
    HARDWARE_SENSORS = "hwmon sensors of a real machine"
    KAI = "a Kubernetes cluster with KAI, whose metrics Prometheus scrapes"


@dataclass(frozen=True)
class Query:
    """PromQL, and what a line of its answer is called ("{{instance}}")."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """One picture. ``unit`` is Grafana's name of a unit; ``width`` in 24ths of the board."""

    title: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: Kind = Kind.LINES
    needs: Needs | None = None
    width: int = 12


@dataclass(frozen=True)
class Variable:
    """A choice at the head of a board: the values of a label of a metric."""

    name: str
    label: str
    metric: str
    value: str

    @property
    def query(self) -> str:
        return f"label_values({self.metric}, {self.value})"


@dataclass(frozen=True)
class Board:
    """A page of panels. ``purpose`` says which question it answers."""

    name: str
    title: str
    purpose: str
    panels: tuple[Panel, ...]
    variables: tuple[Variable, ...] = ()
    since: str = "now-6h"


def without_slurm(board: Board) -> Board:
    """The board without choices of Slurm's series, and without the panels that ask for such series or choices."""
    variables = [v for v in board.variables if not v.metric.startswith(SLURM)]
    gone = (SLURM, *(f"${v.name}" for v in board.variables if v not in variables))
    panels = [p for p in board.panels if not any(w in q.expr for w in gone for q in p.queries)]
    return replace(board, panels=tuple(panels), variables=tuple(variables))


def lines(
    title: str, expr: str, legend: str, unit: str = "short", needs: Needs | None = None
) -> Panel:
    """A panel of lines from one query."""
    return Panel(title, (Query(expr, legend),), unit, needs=needs)


def number(title: str, expr: str, unit: str = "short", needs: Needs | None = None) -> Panel:
    """One large number."""
    return Panel(title, (Query(expr),), unit, Kind.NUMBER, needs, width=4)


def table(title: str, expr: str, needs: Needs | None = None, unit: str = "short") -> Panel:
    """The labels and values of now, as rows."""
    return Panel(title, (Query(expr),), unit, Kind.TABLE, needs, width=24)
