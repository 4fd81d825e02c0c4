"""The arithmetic of training throughput: tokens/s, scaling, overhead, TFLOPS and MFU by named formulas."""

from collections.abc import Callable, Iterable
from enum import StrEnum
from math import floor
from typing import NamedTuple

from pydantic import Field

from appliance.benchmarks.gpt3.reference import Cell, Gpt, Reference, Series
from appliance.models.base import Model
from appliance.models.result import CLUSTER, Place, place


class Formula(StrEnum):
    """The definition of model FLOPs; three formulas give three values of MFU."""

    FULL = "NeMo launcher, full attention"
    CAUSAL = "NeMo and Megatron-LM, causal attention"
    SIX_N = "6 x parameters x tokens"


class Interval(NamedTuple):
    """The interval of possible values, given the digits that the source prints: minimum and maximum."""

    low: float
    high: float

    def __str__(self) -> str:
        """Formats the interval in whole numbers."""
        return f"{self.low:,.0f} to {self.high:,.0f}"


class Run(Model):
    """One training run. ``seconds`` per step (mean of ``used`` values), ``deviation`` their standard deviation in s.

    ``rounding``: maximum difference in s between ``seconds`` and the mean of the times before printing.

    ``gpu`` is a key of the reference's GPUs, None if unknown. ``unreal`` is the reason why the values do not describe
    GPUs ("" for a real run); ``plain``: trained by PyTorch alone, without NVIDIA's framework.
    ``apart``: by how many percent the slowest of several runs took longer than the fastest.
    """

    model: str
    platform: str
    nodes: int = Field(ge=1)
    gpus_per_node: int = Field(ge=1)
    gpu: str | None = None
    global_batch: int = Field(ge=1)
    sequence: int = Field(ge=1)
    seconds: float = Field(gt=0)
    deviation: float = Field(default=0, ge=0)
    rounding: float = Field(default=0, ge=0)
    used: int = 0
    rule: str = ""
    source: str = ""
    family: str = ""
    diverged: str = ""
    unreal: str = ""
    plain: bool = False
    apart: float = Field(default=0, ge=0)
    notes: tuple[str, ...] = ()

    @property
    def tokens_per_s(self) -> float:
        """tokens/s: global batch x sequence / seconds per step."""
        return tokens_per_s(self.global_batch, self.sequence, self.seconds)

    @property
    def rates(self) -> Interval:
        """Possible tokens/s, given the printed digits of step times."""
        most = max(self.seconds - self.rounding, self.seconds / 2)
        return Interval(
            tokens_per_s(self.global_batch, self.sequence, self.seconds + self.rounding),
            tokens_per_s(self.global_batch, self.sequence, most),
        )

    @property
    def gpus(self) -> int:
        """Number of GPUs of the whole run."""
        return self.nodes * self.gpus_per_node


def of_size(model: str, platform: str, nodes: int) -> Place:
    """Target of results of runs on so many hosts: "cluster/5b bare-metal 2n"."""
    return place(CLUSTER, f"{model} {platform} {nodes}n")


def tokens_per_s(global_batch: int, sequence: int, seconds: float) -> float:
    """Tokens trained per second; ``seconds`` per step."""
    return global_batch * sequence / seconds


def published(run: Run, series: Series, reference: Reference) -> Cell | None:
    """Returns the value of a series that was measured like this run, on the same GPUs and batch, or None."""
    gpt = reference.models.get(run.model)
    shape = (run.gpu, run.gpus_per_node, run.global_batch, run.sequence)
    if gpt is None or shape != (series.gpu, series.gpus_per_node, gpt.global_batch, gpt.sequence):
        return None
    return series.cell(run.model, run.platform, run.nodes)


def cut(value: float, decimals: int = 0) -> float:
    """Truncates rates and factors after the last printed digit, as the papers do."""
    power = 10.0**decimals
    scaled = floor(value * power + 1e-6)
    return scaled / power if decimals else scaled


def linear_factor(many: float, one: float) -> float:
    """Linear factor: throughput of several nodes divided by that of one. The ideal factor is the number of nodes."""
    return many / one


def linear_factors(many: Interval, one: Interval) -> Interval:
    """Possible linear factors."""
    return Interval(many.low / one.high, many.high / one.low)


def perfect(one: float, nodes: int) -> float:
    """Ideal throughput of ``nodes`` nodes, without losses."""
    return one * nodes


def difference(bare_metal: float, kubernetes: float) -> float:
    """Loss of Kubernetes compared with bare metal, in %."""
    return (bare_metal - kubernetes) / bare_metal * 100


def differences(bare_metal: Interval, kubernetes: Interval) -> Interval:
    """Possible loss of Kubernetes, in %."""
    return Interval(
        difference(bare_metal.low, kubernetes.high), difference(bare_metal.high, kubernetes.low)
    )


def _full(gpt: Gpt, batch: int) -> float:
    return _attention(gpt, batch, 4)


def _causal(gpt: Gpt, batch: int) -> float:
    return _attention(gpt, batch, 2)


def _attention(gpt: Gpt, batch: int, factor: int) -> float:
    b, s, h = batch, gpt.sequence, gpt.hidden
    layers = 3 * gpt.layers * (24 * b * s * h**2 + factor * b * s**2 * h)
    return layers + 6 * b * s * h * gpt.vocabulary


def _six_n(gpt: Gpt, batch: int) -> float:
    return 6.0 * gpt.parameters * batch * gpt.sequence


FLOPS: dict[Formula, Callable[[Gpt, int], float]] = {
    Formula.FULL: _full,
    Formula.CAUSAL: _causal,
    Formula.SIX_N: _six_n,
}


def tflops_per_gpu(run: Run, gpt: Gpt, formula: Formula) -> float:
    """Model TFLOPS per GPU. Recomputed activations are not counted."""
    shape = gpt.model_copy(update={"sequence": run.sequence})
    return FLOPS[formula](shape, run.global_batch) / run.seconds / run.gpus / 1e12


def mfu(tflops: float, peak: float) -> float:
    """Model FLOPs utilisation in % of a dense ``peak`` in TFLOPS."""
    return tflops / peak * 100


def one_node(runs: Iterable[Run], run: Run) -> Run | None:
    """Returns the 1-node run to which ``run`` is compared: same model, platform, GPUs, batch and framework."""
    return next(
        (r for r in runs if r.nodes == 1 and _configuration(r) == _configuration(run)), None
    )


def _configuration(run: Run) -> tuple[object, ...]:
    shape = (run.gpu, run.gpus_per_node, run.global_batch, run.sequence)
    return run.model, run.platform, *shape, run.plain
