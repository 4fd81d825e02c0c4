"""The requests to a server, and their rates."""

import re
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from appliance.models.base import Model
from appliance.models.url import server_in

RATES = (0.5, 1, 2, 4, 8, 16, 32, 64, 128)
LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|::1")
MOST_REQUESTS = 5000
"""Of one level: the number of requests is limited."""


class Request(Model):
    """``rates`` in requests per s, each for ``seconds`` and at least ``least`` requests; ``patience`` in s for one answer."""

    endpoint: str
    model: str = ""
    rates: tuple[Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)], ...] = RATES
    seconds: float = Field(default=20, gt=0, le=3600)
    least: int = Field(default=20, ge=1, le=MOST_REQUESTS)
    words: int = Field(default=128, ge=1, le=100_000)
    tokens: int = Field(default=128, ge=1, le=100_000)
    patience: float = Field(default=60, gt=0, le=3600)
    chat: bool = False
    ca: str = ""
    key: str = Field(default="", repr=False, exclude=True)

    @field_validator("endpoint")
    @classmethod
    def _is_address(cls, text: str) -> str:
        at = server_in(text)
        if at is None:
            raise ValueError("write it as https://HOST:PORT/v1")
        if at.username or at.password:
            raise ValueError("the address must not contain a key: use --api-key-file")
        return text.rstrip("/")

    @model_validator(mode="after")
    def _keeps_its_key(self) -> Self:
        at = urlsplit(self.endpoint)
        if self.key and at.scheme == "http" and not LOOPBACK.fullmatch(at.hostname or ""):
            raise ValueError("a key can only be sent over https")
        return self

    def count(self, rate: float) -> int:
        """Requests of one level."""
        return min(MOST_REQUESTS, max(self.least, round(rate * self.seconds)))
