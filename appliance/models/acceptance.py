"""Acceptance: the measurements that a hardware class requires before a site is accepted, and the state of each."""

from collections.abc import Iterable
from enum import StrEnum

from pydantic import AwareDatetime, Field

from appliance.models.base import Model
from appliance.models.line import Line
from appliance.models.result import Value, Verdict
from appliance.models.waiver import Waiver


class Level(StrEnum):
    """The subject of a gate; acceptance goes through them in this order, single hosts before the cluster."""

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
    """The state of a gate. ``open``: no valid evidence."""

    OPEN = "open"
    PASSED = "passed"
    FAILED = "failed"


class Gate(Model):
    """One required measurement. ``why``: one line on a state that is not passed; ``close``: the command that closes it.

    ``source`` is the path of the evidence, ``run`` the run that recorded it, ``measured`` the time of the measurement.
    ``waivers``: those without which this gate would block acceptance; its state is unchanged.
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
    dated_by: Line = Field(default="", description="Source of the date of the measurement")
    waivers: tuple[Waiver, ...] = ()
    profile: Line = Field(default="", description="Its hardware class, if the site has several")

    @property
    def is_of_checks(self) -> bool:
        """Whether it summarizes current checks instead of a measurement; used by the report's template."""
        return self.id.startswith("checks.")

    @property
    def holds_back(self) -> bool:
        """Whether it blocks the acceptance of the site."""
        return self.state is not GateState.PASSED and not self.waivers


class Accepted(StrEnum):
    """The verdict on a site as a whole; ``no gates``: its profile requires no measurement."""

    YES = "yes"
    NOT_YET = "not yet"
    NO = "no"
    SIMULATED = "simulated"
    NO_GATES = "no gates"


class Acceptance(Model):
    """Whether a site can be accepted. ``why``: what blocks it in addition to its gates, one line.

    ``waivers``: those that acceptance depends on.
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
