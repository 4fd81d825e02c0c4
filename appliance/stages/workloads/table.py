"""The table of add-ons: where a chart comes from, its pinned version, and how its namespace is held."""

from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from appliance.config.compatibility import Bound
from appliance.config.tables import load
from appliance.models.base import Model
from appliance.models.text_types import SHA256
from appliance.stages.workloads.site import Image, WorkloadsOptions


class Addon(Model):
    """One row. ``key``: its section in the site. No registry and no ``repository``: nobody publishes it."""

    key: str
    chart: str
    repository: str = ""
    namespace: str
    version: str
    sha256: str = Field(default="", pattern=f"{SHA256}|^$")
    security: Literal["restricted", "baseline", "privileged"]
    holders: tuple[str, ...] = ()
    driver: str = ""
    api_ports: tuple[int, ...] = ()
    user_ports: tuple[int, ...] = ()
    kubernetes: Bound = Bound()
    source: str
    date: str

    @property
    def name(self) -> str:
        """Of chart and release."""
        return self.chart.rsplit("/", 1)[-1]

    @property
    def published(self) -> bool:
        """Whether there is somewhere to fetch it from."""
        return bool(self.repository) or self.chart.startswith("oci://")


class Table(Model):
    """All add-ons in the order they are installed, and images by name; None: the site names it."""

    version: Literal[1]
    addons: tuple[Addon, ...]
    images: dict[str, Image | None]


@cache
def table() -> Table:
    """The table that comes with the program."""
    return load(Path(__file__).with_name("table.yml"), Table)


def images(options: WorkloadsOptions) -> dict[str, str]:
    """Those of the table and the site's own, by name; without those nobody named."""
    known = {name: image for name, image in table().images.items() if image is not None}
    return {**known, **options.images}
