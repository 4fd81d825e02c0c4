"""The table of add-ons: source and pinned version of each chart, and the security level of its namespace."""

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
    """One row. ``key``: its section in the site. Without registry and ``repository``, the chart is not published."""

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
        """Name of chart and release."""
        return self.chart.rsplit("/", 1)[-1]

    @property
    def published(self) -> bool:
        """Whether the chart can be downloaded."""
        return bool(self.repository) or self.chart.startswith("oci://")


class Table(Model):
    """All add-ons in order of installation, and images by name; None: the site names the image."""

    version: Literal[1]
    addons: tuple[Addon, ...]
    images: dict[str, Image | None]


@cache
def table() -> Table:
    """Return the table shipped with the program."""
    return load(Path(__file__).with_name("table.yml"), Table)


def images(options: WorkloadsOptions) -> dict[str, str]:
    """Return images of the table and of the site by name, without unnamed ones."""
    known = {name: image for name, image in table().images.items() if image is not None}
    return {**known, **options.images}
