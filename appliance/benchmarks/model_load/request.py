"""The request: places, size of the model, loaders, levels of concurrency."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from appliance.benchmarks.model_load.reference import Loader
from appliance.models.base import Model

LEVELS = (1, 4, 8, 16, 32, 64)
LOADERS: tuple[Loader, ...] = ("safetensors", "streamer", "tensorizer")
LEAST_REPEATS = 3
"""A median of fewer values does not show the variation."""
SIZE = re.compile(r"(\d{1,6})([kmgt]?)i?b?", re.I)
FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
FOLDER = re.compile(r"/[^\0\n]*")
BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[\w./-]*)?")


def _place(text: str) -> str:
    if not (BUCKET if text.startswith("s3:") else FOLDER).fullmatch(text):
        raise ValueError("write it as /folder or s3://bucket")
    return text


class Request(Model):
    """``size`` in bytes, 0 for Llama-3-8B's 16.06 GB; ``deadline`` in s, for all loads of a host together.

    ``secrets``: environment of the loaders, such as the keys of an S3 server; it is no part of any record.
    """

    places: tuple[Annotated[str, AfterValidator(_place)], ...] = ()
    size: int = Field(default=0, ge=0)
    concurrency: tuple[Annotated[int, Field(ge=1, le=256)], ...] = LEVELS
    repeats: int = Field(default=LEAST_REPEATS, ge=1, le=100)
    loaders: tuple[Loader, ...] = LOADERS
    python: str = "python3"
    scratch: str = "/var/tmp"
    evict: tuple[str, ...] = ()
    keep: bool = False
    deadline: float = Field(default=3600, gt=0)
    load_deadline: float = Field(default=600, gt=0)
    hosts: tuple[str, ...] = ()
    secrets: dict[str, str] = Field(default_factory=dict, repr=False, exclude=True)

    def asked_of_host(self, places: tuple[str, ...]) -> dict[str, object]:
        """Input of the program on the host, over its standard input."""
        told = self.model_dump(mode="json", exclude={"python", "hosts", "secrets"})
        return {**told, "places": list(places), "environment": self.secrets}


def size_of(text: str) -> int:
    """Bytes of "16G" or "900M", in powers of 1,024. Raises ValueError."""
    found = SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a size; write it as 16G")
    return int(found[1]) * FACTORS[found[2].lower()]
