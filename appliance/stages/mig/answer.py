"""The answer of appliance-mig about a host's GPUs, as written by appliance/mig/host.py."""

from typing import Any

from pydantic import Field, ValidationError

from appliance.models.base import Model
from appliance.models.line import Line


class Process(Model):
    """A program that uses a GPU."""

    pid: int
    name: Line
    user: Line


class Instance(Model):
    """A GPU instance; ``devices``: UUIDs of its compute instances."""

    profile: Line
    start: int
    size: int
    id: int
    devices: tuple[Line, ...]


class GpuAnswer(Model):
    """One GPU: its state (show), planned changes (plan) or completed ones (apply); ``error`` if it cannot be read."""

    gpu: int
    error: Line = ""
    uuid: Line = ""
    name: Line = ""
    layout: Line = ""
    pending: bool = False
    instances: tuple[Instance, ...] = ()
    processes: tuple[Process, ...] = ()
    wanted: Line = ""
    state: Line = ""
    why: Line = ""
    steps: tuple[Line, ...] = ()


class Answer(Model):
    """The answer of a host; ``gpus`` None: the request failed."""

    gpus: tuple[GpuAnswer, ...] | None = None
    error: Line = Field(default="", description="Why not")


def answered(said: object) -> dict[str, Any]:
    """Parse an answer; unknown fields are ignored. Raises ValueError if it is invalid."""
    try:
        found = Answer.model_validate(said).model_dump(mode="json", exclude_unset=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if found.get("gpus") is None and not found.get("error"):
        raise ValueError("it names no GPU")
    return found
