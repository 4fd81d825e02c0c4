"""The table of kernel messages that indicate faults, and the patterns for the probe."""

import re
from functools import cache
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from appliance.config.tables import load
from appliance.models.base import Model


class Message(Model):
    """One kind of message. ``action`` may name ``{what}`` and ``{host}``."""

    id: str = Field(pattern=r"^[a-z0-9-]{1,30}$")
    begins: str
    ends: str = ""
    verdict: Literal["warn", "fail"]
    means: str
    action: str
    source: str


class KernelLog(Model):
    """The whole table."""

    version: Literal[1]
    looked: str
    hours: float = Field(gt=0)
    messages: tuple[Message, ...]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        known = [one.id for one in self.messages]
        if len(known) != len(set(known)):
            raise ValueError("an id is listed twice")
        for one in self.messages:
            re.compile(one.begins)
            re.compile(one.ends)
        return self

    def row(self, name: str) -> Message | None:
        """One kind of message."""
        return next((one for one in self.messages if one.id == name), None)


@cache
def kernel_log() -> KernelLog:
    """Return the table. Raises InvalidConfig if the file is damaged."""
    return load(Path(__file__).with_name("kernel_log.yml"), KernelLog)


@cache
def asked() -> dict[str, list[str]]:
    """Return id -> prefix of its messages, and prefix of the message that cancels them."""
    return {
        one.id: [one.begins, one.ends] if one.ends else [one.begins]
        for one in kernel_log().messages
    }
