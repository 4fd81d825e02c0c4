"""A run of benchmarks that goes on after it was cut off: what it was asked for, what it has shown, what is at work."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from appliance.benchmarks.benchmark import Outcome
from appliance.benchmarks.gpt3.trial import Framework, Request
from appliance.engine.evidence import recorded
from appliance.engine.jobs import open_jobs
from appliance.engine.session import Session
from appliance.errors import ConfigError
from appliance.stages.slurm.site import JobContainer

ASKED = "validation_asked"
PLAIN = {"dcgm", "burnin"}
"""Benchmarks whose settings are plain values. Those of others name servers and secrets, and are not kept."""


@dataclass(frozen=True)
class Asked:
    """Which benchmarks, in which container, and by benchmark what its run is given; ``left_out``: which others not, and why.

    ``owed``: each was named, so that one that shows nothing leaves the run incomplete.
    """

    names: tuple[str, ...]
    container: JobContainer | None = None
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    owed: bool = False


def note(session: Session, asked: Asked, unkept: tuple[str, ...] = ()) -> None:
    """Keeps what was asked for, so that the run can go on; ``unkept``: what else it was given, without which it cannot."""
    kept: dict[str, object] = {n: dict(s) for n, s in asked.settings.items() if n in PLAIN}
    request = asked.settings.get("gpt3", {}).get("request")
    if isinstance(request, Request):
        kept["gpt3"] = {
            "model": request.model,
            "nodes": request.nodes,
            "framework": request.framework,
        }
    lost = [n for n in sorted(asked.settings) if n not in kept and n in asked.names] + list(unkept)
    container = asked.container.model_dump(mode="json") if asked.container else None
    session.journal.append(
        session.run,
        ASKED,
        names=asked.names,
        container=container,
        settings=kept,
        lost=lost,
        left_out=asked.left_out,
        owed=asked.owed,
    )


def taken_up(session: Session) -> tuple[Asked, dict[str, Outcome]]:
    """What this run was asked for, and by benchmark what it has shown. Raises ConfigError where it cannot go on."""
    entry = session.journal.last(ASKED, run=session.run)
    if entry is None:
        raise ConfigError(
            f"run {session.run} was none of benchmarks", "list the runs: appliance report --list"
        )
    end = session.journal.last("run_finished", run=session.run)
    if end and not end.data.get("interrupted") and not open_jobs(session):
        raise ConfigError(
            f"run {session.run} is through", f"see it: appliance report --run {session.run}"
        )
    lost = entry.data.get("lost")
    if isinstance(lost, list) and lost:
        raise ConfigError(
            f"what {', '.join(map(str, lost))} was given in run {session.run} is not kept",
            "give the same command again, without --resume",
        )
    try:
        asked = _read(entry.data)
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        raise ConfigError(
            f"what run {session.run} was asked for cannot be read ({type(error).__name__})",
            "give the same command again, without --resume",
        ) from None
    return asked, _shown(session)


def _read(data: Mapping[str, Any]) -> Asked:
    settings: dict[str, dict[str, Any]] = {n: dict(s) for n, s in data["settings"].items()}
    if given := settings.pop("gpt3", None):
        settings["gpt3"] = {
            "request": Request(
                str(given["model"]),
                tuple(map(int, given["nodes"])),
                framework=Framework(given.get("framework", Framework.NEMO)),
            )
        }
    container = JobContainer.model_validate(data["container"]) if data["container"] else None
    left_out = tuple(map(str, data.get("left_out", ())))
    names = tuple(map(str, data["names"]))
    return Asked(names, container, settings, left_out, bool(data.get("owed")))


def _shown(session: Session) -> dict[str, Outcome]:
    return {
        one.evidence.benchmark: Outcome(
            one.evidence.results, one.evidence.measurements, one.evidence.tables
        )
        for one in recorded(session)
        if one.run == session.run and not open_jobs(session, one.evidence.benchmark)
    }
