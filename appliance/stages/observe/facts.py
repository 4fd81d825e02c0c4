"""The probe's facts of Prometheus on one host."""

from typing import Annotated

from pydantic import Field

from appliance.models.base import Model
from appliance.models.fact_types import Count, Line, Number, Real

SilenceId = Annotated[str, Field(pattern=r"^[0-9A-Za-z-]{1,64}$")]
"""6f7fd2a8-4f3e-4a5c-9d0e-2b1c3d4e5f60; it is used in a command."""


class Target(Model):
    """A Prometheus target."""

    job: Line
    instance: Line
    health: Line
    error: Line = ""


class Matcher(Model):
    """A matcher of a silence: the required or excluded value of a label."""

    name: Line
    value: Line
    regex: bool = Field(default=False, description="The value is a pattern")
    equal: bool = Field(default=True, description="False: alerts that do not match are held back")


class Silence(Model):
    """A silence of Alertmanager that has not expired; it holds back alerts that match all of its matchers."""

    id: SilenceId
    by: Line = Field(description="Who made it, in their own words")
    until: Line = Field(description="When it ends")
    days: Real = Field(description="From its begin to its end")
    matchers: tuple[Matcher, ...]


class HeldPort(Model):
    """A port of Prometheus, Alertmanager or the node exporter that another program holds."""

    port: Count
    program: Line
    process: Count = Field(description="1: a socket unit of systemd")


class Observe(Model):
    """Prometheus from its own API on this host; None: no answer."""

    targets: tuple[Target, ...] = ()
    rules: Number = Field(
        default=0, description="Alert rules of the appliance that can be evaluated"
    )
    waiting: Number = Field(
        default=0, description="Of these, not evaluated since Prometheus started"
    )
    firing: tuple[Line, ...] = ()
    told: tuple[Line, ...] | None = Field(
        default=None, description="Receivers configured in Alertmanager; None: no answer"
    )
    silences: tuple[Silence, ...] | None = Field(
        default=None, description="Silences in Alertmanager; None: no answer"
    )
    sends: Number = Field(
        default=0, description="Alertmanagers that Prometheus hands its alerts to"
    )
