"""The site's section mig: how GPUs are partitioned."""

from typing import Annotated

from pydantic import Field

from appliance.models.base import Model
from appliance.models.text_types import HostName, LayoutText, Named, NamedFew, NamedPerHost

LAYOUT_NAME = r"^[a-z][a-z0-9.+-]{0,40}$"
NUMBERS = r"^[0-9]{1,2}(-[0-9]{1,2})?(,[0-9]{1,2}(-[0-9]{1,2})?){0,63}$"

LayoutName = Annotated[str, Field(pattern=LAYOUT_NAME)]
GpuNumbers = Annotated[str, Field(pattern=NUMBERS)]


class MigHost(Model):
    """One GPU host."""

    layout: LayoutText | None = Field(
        default=None, description="For all its GPUs, or those in gpus"
    )
    gpus: NamedFew[GpuNumbers, LayoutText] = Field(
        default_factory=dict, description='Layout by GPU number, such as "0-3,6"'
    )


class MigOptions(Model):
    """Stage mig. A layout is a name, instances such as ``3g.40gb, 2 x 1g.10gb``, or disabled: MIG is off."""

    layout: LayoutText | None = Field(
        default=None,
        description="For all GPUs; default: the profile's layout, else GPUs are unchanged",
    )
    layouts: Named[LayoutName, LayoutText] = Field(
        default_factory=dict, description="Custom names of layouts"
    )
    hosts: NamedPerHost[HostName, MigHost] = Field(
        default_factory=dict, description="Hosts with other layouts"
    )

    @property
    def declares(self) -> bool:
        """Whether it configures any GPU."""
        return self.layout is not None or any(h.layout or h.gpus for h in self.hosts.values())


WORDS = {
    LAYOUT_NAME: ("a name of a layout", 'a letter, then letters, digits and ".+-"'),
    NUMBERS: ("numbers of GPUs", "as 0-3,6"),
}
"""For each pattern, the kind of text and an example."""
