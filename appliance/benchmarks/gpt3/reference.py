"""The published values and the models with which they were measured, as data with sources."""

from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from appliance.config import document
from appliance.models.base import Model
from appliance.models.profile import Limit
from appliance.stages.gpu.part import Peak, gpu_parts

FILE = Path(__file__).with_name("reference.yml")
Platform = Literal["bare-metal", "kubernetes"]
PLATFORMS: dict[str, str] = {"bare-metal": "Bare metal", "kubernetes": "Kubernetes"}


class Gpt(Model):
    """A model's shape. ``global_batch`` in sequences, ``sequence`` in tokens.

    ``vocabulary`` enters the FLOPs formulas, ``embedding`` (padded) the parameter count.
    """

    title: str
    global_batch: int = Field(ge=1)
    sequence: int = Field(ge=1)
    layers: int = Field(ge=1)
    hidden: int = Field(ge=1)
    heads: int = Field(ge=1)
    ffn: int = Field(ge=1)
    vocabulary: int = Field(ge=1)
    embedding: int = Field(ge=1)

    @property
    def parameters(self) -> int:
        """Number of weights and biases of all layers, and of the embeddings of tokens and positions."""
        layer = 12 * self.hidden**2 + 13 * self.hidden
        return self.layers * layer + (self.embedding + self.sequence + 2) * self.hidden


class Cell(Model):
    """One published value. ``gate``: whether a cluster can fail it."""

    model: str
    platform: Platform
    nodes: int
    tokens_per_s: int
    gate: bool = True
    note: str = ""


class Series(Model):
    """Values of one source, and the machines on which they were measured."""

    source: str
    gpu: str
    gpus_per_node: int
    cells: tuple[Cell, ...]

    def cell(self, model: str, platform: str, nodes: int) -> Cell | None:
        """Returns the published value for this combination, or None."""
        wanted = (model, platform, nodes)
        return next((c for c in self.cells if (c.model, c.platform, c.nodes) == wanted), None)


class Reference(Model):
    """The content of reference.yml. ``tolerance``: accepted % below a gate."""

    version: Literal[1]
    tolerance: Limit
    models: dict[str, Gpt]
    appliance: Series
    nvidia: Series

    @property
    def gpus(self) -> dict[str, Peak]:
        """Peak rates of the products, by the names that runs use."""
        return {part.bf16.name: part.bf16 for part in gpu_parts().parts if part.bf16}

    def gpu(self, name: str) -> str | None:
        """Returns the name that runs use for a GPU, ignoring the case."""
        for part in gpu_parts().parts:
            if part.bf16 and name.lower() in map(str.lower, part.names):
                return part.bf16.name
        return None

    def is_same_gpu(self, name: str, accepted: tuple[str, ...]) -> bool:
        """Whether ``name`` is one of the accepted NVML names in the table of GPUs, ignoring the case."""
        known = {(self.gpu(model) or model).lower() for model in accepted}
        return (self.gpu(name) or name).lower() in known


@cache
def load() -> Reference:
    """Returns the values that are included in the program."""
    return Reference.model_validate(document.read(FILE).data)
