"""Runs a stage of the cluster and reports its beginning and end."""

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
class ClusterOutcome:
    """How the stage ended, and what it measured.

    ``seconds`` of wall time.
    ``receipt``: what the journal keeps, None if the next run must repeat it. ``note``: text for the screen
    instead of the number of changes.
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


def run_reported(
    session: Session,
    stage: str,
    hosts: Sequence[str],
    minutes: float,
    work: Callable[[], ClusterOutcome],
) -> ClusterOutcome:
    """Run the stage and report its beginning and its end. ``minutes``: expected."""
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
