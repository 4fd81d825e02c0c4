"""What happens during a run, as frozen events; an Observer shows progress."""

from datetime import UTC, datetime
from typing import Annotated, Literal, Protocol

from pydantic import AwareDatetime, Field

from appliance.models.acceptance import Acceptance
from appliance.models.base import Model
from appliance.models.line import Line
from appliance.models.result import CheckResult, Verdict
from appliance.models.run import StageState


def _now() -> datetime:
    return datetime.now(UTC)


class RunStarted(Model):
    """A verb begins. ``stages``: all that are in scope, in order; ``note``: such as where it runs."""

    time: AwareDatetime = Field(default_factory=_now)
    event: Literal["run_started"] = "run_started"
    version: int = Field(default=1, description="Version of the format of all events of the run")
    run: Line
    verb: Line
    site: Line
    profile: Line
    hosts: tuple[Line, ...]
    stages: tuple[Line, ...] = ()
    simulated: tuple[Line, ...] = ()
    note: Line = ""


class FactsTaken(Model):
    """All probes answered or failed. ``hosts``: all that were contacted; ``unreachable``: of them, host -> why."""

    time: AwareDatetime = Field(default_factory=_now)
    event: Literal["facts_taken"] = "facts_taken"
    hosts: tuple[Line, ...]
    unreachable: dict[Line, Line] = Field(default_factory=dict)
    seconds: float


class StageStarted(Model):
    """A stage begins on ``hosts``; ``expected_seconds`` is None if unknown."""

    time: AwareDatetime = Field(default_factory=_now)
    event: Literal["stage_started"] = "stage_started"
    stage: Line
    hosts: tuple[Line, ...]
    expected_seconds: float | None = None


class HostTask(Model):
    """A host begins a task of a stage."""

    time: AwareDatetime = Field(default_factory=_now)
    event: Literal["host_task"] = "host_task"
    stage: Line
    host: Line
    task: Line


class HostDone(Model):
    """A host has finished a stage."""

    time: AwareDatetime = Field(default_factory=_now)
    event: Literal["host_done"] = "host_done"
    stage: Line
    host: Line
    state: StageState
    seconds: float = 0.0
    changes: int = 0
    cause: Line = ""
    fix: Line = ""


class StageDone(Model):
    """All hosts have finished a stage; ``note`` is the most important line."""

    time: AwareDatetime = Field(default_factory=_now)
    event: Literal["stage_done"] = "stage_done"
    stage: Line
    state: StageState
    done: int
    hosts: int
    seconds: float
    changes: int = 0
    note: Line = ""


class CheckDone(Model):
    """A check gave its verdict."""

    time: AwareDatetime = Field(default_factory=_now)
    event: Literal["check_done"] = "check_done"
    result: CheckResult


class Message(Model):
    """A message that the user should read now."""

    time: AwareDatetime = Field(default_factory=_now)
    event: Literal["message"] = "message"
    text: Line
    level: Literal["info", "warning", "error"] = "info"
    host: Line = ""


class RunFinished(Model):
    """The verb has ended. ``report``: path of the report; ``acceptance``: the verdict on the whole site."""

    time: AwareDatetime = Field(default_factory=_now)
    event: Literal["run_finished"] = "run_finished"
    verdict: Verdict
    exit_code: int
    seconds: float
    report: Line = ""
    acceptance: Acceptance | None = None


Event = Annotated[
    RunStarted
    | FactsTaken
    | StageStarted
    | HostTask
    | HostDone
    | StageDone
    | CheckDone
    | Message
    | RunFinished,
    Field(discriminator="event"),
]


class Observer(Protocol):
    """A receiver of events; called from any thread, and must not raise."""

    def handle(self, event: Event) -> None:
        """Processes ``event``."""
