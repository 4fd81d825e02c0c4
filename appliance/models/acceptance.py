"""Acceptance: the measurements a hardware class must show before a site is taken over, and what is known of each."""

from collections.abc import Iterable
from enum import StrEnum

from pydantic import AwareDatetime, Field

from appliance.models.base import Model
from appliance.models.line import Line
from appliance.models.result import Value, Verdict
from appliance.models.waiver import Waiver


class Level(StrEnum):
    """What a gate is about; acceptance goes through them in this order, a host's own before the cluster's."""

    HARDWARE = "hardware"
    FIRMWARE = "firmware"
    SYSTEM = "operating system"
    GPU = "GPU"
    FABRIC = "fabric"
    STORAGE = "storage"
    SCHEDULERS = "schedulers"
    HOST = "single host"
    CLUSTER = "cluster"
    TRAINING = "training"
    SERVING = "serving"
    BURN_IN = "burn-in"


class GateState(StrEnum):
    """What is known of one gate. ``open``: nothing that counts."""

    OPEN = "open"
    PASSED = "passed"
    FAILED = "failed"


class Gate(Model):
    """One required measurement. ``why``: one line on a state that is not passed; ``close``: the command that closes it.

    ``source`` says where the evidence lies, ``run`` which run recorded it, ``measured`` when it was measured.
    ``waivers``: those without which this gate would hold acceptance back; its state stays what it is.
    """

    id: Line
    title: Line = ""
    level: Level | None = None
    state: GateState
    value: Value = None
    unit: Line = ""
    limit: Value = None
    limit_source: Line = ""
    why: Line = ""
    close: Line = ""
    source: Line = ""
    run: Line = ""
    measured: AwareDatetime | None = None
    dated_by: Line = Field(
        default="", description="What the date of the measurement was taken from"
    )
    waivers: tuple[Waiver, ...] = ()

    @property
    def is_of_checks(self) -> bool:
        """Whether it sums up checks of now, and no measurement; the report's template reads it."""
        return self.id.startswith("checks.")

    @property
    def holds_back(self) -> bool:
        """Whether the site is not accepted because of it."""
        return self.state is not GateState.PASSED and not self.waivers


class Accepted(StrEnum):
    """The verdict on a site as a whole; ``no gates``: its profile asks for no measurement."""

    YES = "yes"
    NOT_YET = "not yet"
    NO = "no"
    SIMULATED = "simulated"
    NO_GATES = "no gates"


class Acceptance(Model):
    """Whether a site can be taken over. ``why``: what holds it back beside its gates, one line.

    ``waivers``: those that acceptance rests on.
    """

    verdict: Accepted
    gates: tuple[Gate, ...] = ()
    why: Line = ""
    waivers: tuple[Waiver, ...] = ()

    def of(self, *states: GateState) -> tuple[Gate, ...]:
        """The gates in one of ``states``."""
        return tuple(gate for gate in self.gates if gate.state in states)


def gates_verdict(gates: Iterable[Gate]) -> Verdict:
    """Failed if a gate failed, incomplete if one is open, else passed."""
    states = {gate.state for gate in gates}
    if GateState.FAILED in states:
        return Verdict.FAILED
    return Verdict.INCOMPLETE if GateState.OPEN in states else Verdict.PASSED
