"""Resumes an interrupted run of benchmarks: its options, its results so far, and its running jobs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from appliance.benchmarks import BENCHMARKS
from appliance.benchmarks.benchmark import Outcome
from appliance.benchmarks.gpt3.trial import Framework, Request
from appliance.engine.accept.evidence import named, recorded
from appliance.engine.run.benchmark_jobs import open_jobs
from appliance.engine.session import Session
from appliance.errors import ConfigError
from appliance.stages.slurm.site import JobContainer

ASKED = "validation_asked"
PLAIN = {"dcgm", "burnin"}
"""Benchmarks whose settings are plain values. Settings of others name servers and secrets, and are not saved."""


@dataclass(frozen=True)
class BenchmarkRequest:
    """The benchmarks, their container, and the settings of each; ``left_out``: the benchmarks not run, and why.

    ``owed``: the benchmarks were named, so one without a result leaves the run incomplete.
    """

    names: tuple[str, ...]
    container: JobContainer | None = None
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    owed: bool = False


def store_request(session: Session, asked: BenchmarkRequest, unkept: tuple[str, ...] = ()) -> None:
    """Saves the options of a run, so that it can be resumed; ``unkept``: options that cannot be saved, which prevent that."""
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


def resumed_request(session: Session) -> tuple[BenchmarkRequest, dict[str, Outcome]]:
    """The options of this run, and its results by benchmark. Raises ConfigError if it cannot be resumed."""
    entry = session.journal.last(ASKED, run=session.run)
    if entry is None:
        raise ConfigError(
            f"run {session.run} is not a benchmark run", "list the runs: appliance report --list"
        )
    end = session.journal.last("run_finished", run=session.run)
    if end and not end.data.get("interrupted") and not open_jobs(session):
        raise ConfigError(
            f"run {session.run} is already complete",
            f"show it: appliance report --run {session.run}",
        )
    lost = entry.data.get("lost")
    if isinstance(lost, list) and lost:
        raise ConfigError(
            f"the settings of {', '.join(map(str, lost))} in run {session.run} were not saved",
            "run the original command again, without --resume",
        )
    try:
        asked = _read(entry.data)
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        raise ConfigError(
            f"the options of run {session.run} cannot be read ({type(error).__name__})",
            "run the original command again, without --resume",
        ) from None
    return asked, _shown(session)


def _read(data: Mapping[str, Any]) -> BenchmarkRequest:
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
    return BenchmarkRequest(names, container, settings, left_out, bool(data.get("owed")))


def _shown(session: Session) -> dict[str, Outcome]:
    shown: dict[str, Outcome] = {}
    for one in recorded(session):
        found = one.evidence
        profile = found.profile if session.site.has_classes and _by_class(found.benchmark) else ""
        name = named(found.benchmark, profile)
        if one.run == session.run and not open_jobs(session, name):
            shown[name] = Outcome(found.results, found.measurements, found.tables)
    return shown


def _by_class(name: str) -> bool:
    return any(b.of_class for b in BENCHMARKS if b.name == name)
