"""The site's section mig: how GPUs are to be divided."""

from typing import Annotated

from pydantic import Field

from appliance.models.base import Model
from appliance.models.texts import HostName, LayoutText, Named, NamedFew, NamedPerHost

LAYOUT_NAME = r"^[a-z][a-z0-9.+-]{0,40}$"
NUMBERS = r"^[0-9]{1,2}(-[0-9]{1,2})?(,[0-9]{1,2}(-[0-9]{1,2})?){0,63}$"

LayoutName = Annotated[str, Field(pattern=LAYOUT_NAME)]
GpuNumbers = Annotated[str, Field(pattern=NUMBERS)]


class MigHost(Model):
    """One GPU host."""

    layout: LayoutText | None = Field(
        default=None, description="Of all its GPUs, unless gpus names them"
    )
    gpus: NamedFew[GpuNumbers, LayoutText] = Field(
        default_factory=dict, description='Layout by GPU number, as "0-3,6"'
    )


class MigOptions(Model):
    """Stage mig. A layout is a name, instances as ``3g.40gb, 2 x 1g.10gb``, or disabled: the GPU stays whole."""

    layout: LayoutText | None = Field(
        default=None, description="Of all GPUs; without it the profile's, else they are left alone"
    )
    layouts: Named[LayoutName, LayoutText] = Field(
        default_factory=dict, description="Names of your own for layouts"
    )
    hosts: NamedPerHost[HostName, MigHost] = Field(
        default_factory=dict, description="Where a host differs from the rest"
    )

    @property
    def declares(self) -> bool:
        """Whether it says anything about a GPU."""
        return self.layout is not None or any(h.layout or h.gpus for h in self.hosts.values())


WORDS = {
    LAYOUT_NAME: ("a name of a layout", 'a letter, then letters, digits and ".+-"'),
    NUMBERS: ("numbers of GPUs", "as 0-3,6"),
}
"""What a text of each pattern is, and how to write one."""
