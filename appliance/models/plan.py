"""What a deployment would do: one cell per stage and host, with the reason."""

from collections.abc import Callable, Iterable
from enum import StrEnum

from pydantic import Field

from appliance.models.acceptance import Acceptance
from appliance.models.base import Document, Model
from appliance.models.line import Line
from appliance.models.result import CheckResult


class Action(StrEnum):
    """What happens with one stage on one host."""

    RUN = "run"
    REPAIR = "repair"
    SKIP = "skip"
    NOT_CONCERNED = "not_concerned"
    BLOCKED = "blocked"
    UNKNOWN = "unknown"

    @property
    def changes(self) -> bool:
        """Whether the host would be changed."""
        return self in CHANGES


CHANGES = frozenset({Action.RUN, Action.REPAIR})


class HostStage(Model):
    """One stage on one host. ``pins``: package versions a repair restores."""

    stage: Line
    host: Line
    action: Action
    why: Line = ""
    differences: tuple[Line, ...] = Field(
        default=(), description="All changes since the stage ran; the field why contains the first"
    )
    minutes: float = Field(default=0.0, ge=0)
    reboot: bool = False
    drain: bool = Field(default=False, description="The host must be drained for it")
    wave: int = Field(
        default=0, ge=0, description="Number of its wave; 0: at the same time as the others"
    )
    known: bool = Field(default=False, description="The host has a receipt of this stage")
    fingerprint: Line = ""
    pins: dict[str, str] = Field(default_factory=dict)
    purge: tuple[Line, ...] = Field(
        default=(), description="Unmanaged files that it moves out of places of the appliance"
    )
    restarts: tuple[Line, ...] = Field(
        default=(), description="Units and static pods that it restarts or reloads"
    )
    may_restart: tuple[Line, ...] = Field(
        default=(), description="Units that it may restart; whether it does is unknown in advance"
    )

    @classmethod
    def done(cls, stage: str, host: str, fingerprint: str) -> "HostStage":
        """A stage that has nothing to do on a host, as most: its texts are the site's own, and are not validated again."""
        names = {"stage": stage, "host": host, "fingerprint": fingerprint}
        return _DONE.model_copy(update=names)


_DONE = HostStage(stage="", host="", action=Action.SKIP, known=True)


def expected_minutes(cells: Iterable[HostStage]) -> float:
    """One stage on these hosts: those of a wave in parallel, the waves one after the other."""
    slowest: dict[int, float] = {}
    for cell in cells:
        slowest[cell.wave] = max(slowest.get(cell.wave, 0.0), cell.minutes)
    return sum(slowest.values())


class Plan(Document):
    """All cells; ``hosts`` and ``stages`` in the order they are shown and run."""

    site: Line
    profile: Line
    classes: dict[Line, Line] = Field(
        default_factory=dict,
        description="Hardware class by host, if the site has several; default: all have profile",
    )
    hosts: tuple[Line, ...]
    stages: tuple[Line, ...]
    cells: tuple[HostStage, ...] = ()
    results: tuple[CheckResult, ...] = Field(
        default=(), description="Faults on the hosts that no stage of this plan fixes"
    )
    acceptance: Acceptance | None = Field(
        default=None, description="Whether the site can be accepted as it is, and what is open"
    )

    def cell(self, stage: str, host: str) -> HostStage | None:
        """The cell of one stage on one host, None if the plan has none."""
        return self._made_of(self.cells, _by_place).get((stage, host))

    def by_stage(self, stage: str) -> tuple[HostStage, ...]:
        """The cells of one stage, in the order of ``hosts``."""
        order = self._made_of(self.hosts, _places)
        cells = self._made_of(self.cells, _by_stage).get(stage, ())
        return tuple(sorted(cells, key=lambda c: order[c.host]))

    def by_host(self, host: str) -> tuple[HostStage, ...]:
        """The cells of one host, in the order of ``stages``."""
        cells = self._made_of(self.cells, _by_host).get(host, ())
        return tuple(sorted(cells, key=lambda c: self.stages.index(c.stage)))

    def pending(self) -> tuple[HostStage, ...]:
        """The cells that would change a host, in the order of stages, then hosts."""
        return tuple(c for s in self.stages for c in self.by_stage(s) if c.action.changes)

    @property
    def changes(self) -> int:
        """How many cells would change a host."""
        return len(self.pending())

    @property
    def reboots(self) -> tuple[str, ...]:
        """Hosts that would reboot at least once."""
        rebooting = {c.host for c in self.pending() if c.reboot}
        return tuple(h for h in self.hosts if h in rebooting)

    @property
    def rebooting_stages(self) -> tuple[str, ...]:
        """Stages that would reboot a host."""
        return tuple(s for s in self.stages if any(c.reboot for c in self.by_stage(s)))

    @property
    def drained(self) -> tuple[str, ...]:
        """Hosts that are drained at least once."""
        drained = {c.host for c in self.pending() if c.drain}
        return tuple(h for h in self.hosts if h in drained)

    @property
    def draining_stages(self) -> tuple[str, ...]:
        """Stages that drain a host."""
        return tuple(s for s in self.stages if any(c.drain for c in self.by_stage(s)))

    def restarts(self, host: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Restarts on a host, certain and possible: of stages that run, and of those that only verify."""
        cells = [c for c in self.by_host(host) if c.action.changes or c.action is Action.SKIP]
        sure = tuple(dict.fromkeys(unit for c in cells for unit in c.restarts))
        maybe = dict.fromkeys(unit for c in cells for unit in c.may_restart if unit not in sure)
        return sure, tuple(maybe)

    @property
    def blocked(self) -> tuple[HostStage, ...]:
        """Cells that wait for something that this run does not do."""
        return tuple(c for c in self.cells if c.action is Action.BLOCKED)

    @property
    def unreachable(self) -> tuple[str, ...]:
        """Hosts whose state is unknown in any stage."""
        unknown = {c.host for c in self.cells if c.action is Action.UNKNOWN}
        return tuple(h for h in self.hosts if h in unknown)

    @property
    def minutes(self) -> float:
        """Stages one after the other."""
        return sum(expected_minutes(c for c in self.pending() if c.stage == s) for s in self.stages)


def _places(hosts: tuple[str, ...]) -> dict[str, int]:
    return {host: place for place, host in reversed([*enumerate(hosts)])}


def _by_place(cells: tuple[HostStage, ...]) -> dict[tuple[str, str], HostStage]:
    """Of several cells of one place, the first."""
    return {(cell.stage, cell.host): cell for cell in reversed(cells)}


def _by_stage(cells: tuple[HostStage, ...]) -> dict[str, list[HostStage]]:
    return _grouped(cells, lambda cell: cell.stage)


def _by_host(cells: tuple[HostStage, ...]) -> dict[str, list[HostStage]]:
    return _grouped(cells, lambda cell: cell.host)


def _grouped(
    cells: Iterable[HostStage], key: Callable[[HostStage], str]
) -> dict[str, list[HostStage]]:
    found: dict[str, list[HostStage]] = {}
    for cell in cells:
        found.setdefault(key(cell), []).append(cell)
    return found
