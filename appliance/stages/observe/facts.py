"""What the probe found of Prometheus on one host."""

from pydantic import Field

from appliance.models.base import Numerous
from appliance.models.fact_types import Line, Number


class Target(Numerous):
    """A Prometheus target."""

    job: Line
    instance: Line
    health: Line
    error: Line = ""


class Observe(Numerous):
    """Prometheus as its own API answers on this host; None where it does not answer."""

    targets: tuple[Target, ...] = ()
    rules: Number = Field(
        default=0, description="Alert rules of the appliance that can be evaluated"
    )
    waiting: Number = Field(
        default=0, description="Of these, not evaluated since Prometheus started"
    )
    firing: tuple[Line, ...] = ()
    told: tuple[Line, ...] | None = Field(
        default=None, description="Receivers Alertmanager knows; None where it does not answer"
    )
    sends: Number = Field(
        default=0, description="Alertmanagers that Prometheus hands its alerts to"
    )
