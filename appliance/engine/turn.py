"""The turn of a stage of the cluster: how it begins and ends on the screen."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from appliance.benchmarks.benchmark import Outcome
from appliance.engine.session import Session
from appliance.models.events import StageDone, StageStarted
from appliance.models.run import StageState
from appliance.text import plural


@dataclass(frozen=True)
class Done:
    """How the work ended, and what it measured. ``seconds`` of wall time.

    ``receipt``: what the journal keeps of it, None if the next run is to do it again. ``note``: for the screen, if it is
    not the number of changes.
    """

    state: StageState = StageState.DONE
    why: str = ""
    cause: str = ""
    fix: str = ""
    changes: int = 0
    measured: Outcome = field(default_factory=Outcome)
    receipt: Mapping[str, Any] | None = None
    note: str = ""
    seconds: float = 0.0


def turn(
    session: Session, stage: str, hosts: Sequence[str], minutes: float, work: Callable[[], Done]
) -> Done:
    """Does the work and reports its beginning and its end. ``minutes``: expected."""
    session.tell(StageStarted(stage=stage, hosts=tuple(hosts), expected_seconds=minutes * 60))
    began = time.monotonic()
    done = work()
    seconds = time.monotonic() - began
    session.tell(
        StageDone(
            stage=stage,
            state=done.state,
            done=len(hosts) if done.state is StageState.DONE else 0,
            hosts=len(hosts),
            seconds=seconds,
            note=done.note or plural(done.changes, "change"),
        )
    )
    return replace(done, seconds=seconds)
