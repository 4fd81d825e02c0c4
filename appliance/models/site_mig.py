"""The site's section mig: how GPUs are to be divided."""

from typing import Annotated

from pydantic import Field

from appliance.models.base import Model

LAYOUT_NAME = r"^[a-z][a-z0-9.+-]{0,40}$"
NUMBERS = r"^\d{1,2}(-\d{1,2})?(,\d{1,2}(-\d{1,2})?)*$"

LayoutName = Annotated[str, Field(pattern=LAYOUT_NAME)]
GpuNumbers = Annotated[str, Field(pattern=NUMBERS)]


class MigHost(Model):
    """One GPU host."""

    layout: str | None = Field(default=None, description="Of all its GPUs, unless gpus names them")
    gpus: dict[GpuNumbers, str] = Field(
        default_factory=dict, description='Layout by GPU number, as "0-3,6"'
    )


class MigOptions(Model):
    """Stage mig. A layout is a name, instances as ``3g.40gb, 2 x 1g.10gb``, or disabled: the GPU stays whole."""

    layout: str | None = Field(
        default=None, description="Of all GPUs; without it the profile's, else they are left alone"
    )
    layouts: dict[LayoutName, str] = Field(
        default_factory=dict, description="Names of your own for layouts"
    )
    hosts: dict[str, MigHost] = Field(
        default_factory=dict, description="Where a host differs from the rest"
    )

    @property
    def declares(self) -> bool:
        """Whether it says anything about a GPU."""
        return self.layout is not None or any(h.layout or h.gpus for h in self.hosts.values())
