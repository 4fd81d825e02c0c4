"""Throughput from recorded logs: each log becomes a run, repeated runs are merged, and all are judged."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean

from appliance.benchmarks.gpt3 import consistency, copies, logs, steps, tables
from appliance.benchmarks.gpt3.described import Hardware, Recorded, described
from appliance.benchmarks.gpt3.judge import THROUGHPUT, judge
from appliance.benchmarks.gpt3.reference import Reference, load
from appliance.benchmarks.gpt3.throughput import Run
from appliance.checks.check import not_assessed
from appliance.errors import ConfigError
from appliance.models.evidence import EvidenceFile
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Measurement
from appliance.models.run import Table
from appliance.text import plural

AHEAD = timedelta(days=1)
"""Maximum seconds by which the clock of the training machine may be ahead, time zones included."""
Outcome = tuple[list[CheckResult], list[Measurement], list[Table]]


@dataclass(frozen=True)
class Recording:
    """The results of a folder of logs; ``gpus``: the GPUs that its runs name."""

    results: tuple[CheckResult, ...]
    measurements: tuple[Measurement, ...]
    tables: tuple[Table, ...]
    files: tuple[EvidenceFile, ...]
    gpus: frozenset[str]


def from_logs(
    folders: Sequence[Path], *, hardware: Hardware | None = None, tolerance: Limit | None = None
) -> Outcome:
    """Returns results, measurements and tables of the logs in ``folders``, which ``recording`` reads."""
    parts = [recording(folder, hardware=hardware, tolerance=tolerance) for folder in folders]
    return (
        [r for part in parts for r in part.results],
        [m for part in parts for m in part.measurements],
        [t for part in parts for t in part.tables],
    )


def recording(
    folder: Path,
    *,
    hardware: Hardware | None = None,
    tolerance: Limit | None = None,
    model: str | None = None,
) -> Recording:
    """Reads the logs in ``folder``, or only those of ``model`` if it is given.

    A log without a result is a required result without a verdict. Raises UnusableLog if a folder has no log,
    InvalidConfig for an invalid runs.yml, ConfigError for unknown names.
    """
    reference = load()
    results: list[CheckResult] = []
    taken: list[_Taken] = []
    files: list[EvidenceFile] = []
    for recorded in _wanted(folder, described(folder, reference, hardware).runs, model):
        file = folder / recorded.log
        try:
            log = logs.read(file)
            files.append(_file(file, recorded.model, log))
            run = run_of(log, recorded, reference, hardware)
            taken.append(_Taken(recorded, run, copies.trace(log)))
        except steps.UnusableLog as error:
            results.append(_without(recorded, error))
    runs, refused = _distinct(taken)
    results += [_without(recorded, error) for recorded, error in refused]
    merged = _merged(runs)
    return Recording(
        results=(*results, *judge(merged, reference, tolerance)),
        measurements=tables.measurements(merged, reference),
        tables=tables.tables(merged, reference),
        files=tuple(files),
        gpus=frozenset(run.gpu for run in runs if run.gpu),
    )


def runs_of(folder: Path) -> list[Run]:
    """Returns the runs of a folder of valid logs, one per cell. Raises UnusableLog and the errors of ``recording``."""
    reference = load()
    taken = []
    for recorded in described(folder, reference, None).runs:
        log = logs.read(folder / recorded.log)
        run = run_of(log, recorded, reference, None)
        taken.append(_Taken(recorded, run, copies.trace(log)))
    runs, refused = _distinct(taken)
    if refused:
        raise refused[0][1]
    return _merged(runs)


@dataclass(frozen=True)
class _Taken:
    """A log with a result."""

    recorded: Recorded
    run: Run
    trace: copies.Trace

    @property
    def cell(self) -> str:
        """The cell of its result."""
        return f"{self.recorded.model} {self.recorded.platform} {self.recorded.nodes}n"


def _without(recorded: Recorded, error: steps.UnusableLog) -> CheckResult:
    what = f"cluster/{recorded.model} {recorded.platform} {recorded.nodes}n"
    return not_assessed(what, error.message, fix=error.hint).of(THROUGHPUT)


def _distinct(
    taken: Sequence[_Taken],
) -> tuple[list[Run], list[tuple[Recorded, steps.UnusableLog]]]:
    """Returns one run per training. Of copies for one cell the slowest counts. One training in several cells counts for none."""
    runs: dict[int, Run] = {i: one.run for i, one in enumerate(taken)}
    refused: list[tuple[Recorded, steps.UnusableLog]] = []
    for members in copies.groups([one.trace for one in taken]):
        alike = [taken[i] for i in members]
        slowest = max(members, key=lambda i: taken[i].run.seconds)
        for i in members:
            del runs[i]
        if len({one.cell for one in alike}) == 1 and not _in_parts(alike):
            others = ", ".join(taken[i].trace.source for i in members if i != slowest)
            note = f"from the same training, not counted again: {others}"
            own = taken[slowest].run
            runs[slowest] = own.model_copy(update={"notes": (note, *own.notes)})
        else:
            refused += [(one.recorded, _one_training(alike)) for one in alike]
    return [runs[i] for i in sorted(runs)], refused


def _in_parts(alike: Sequence[_Taken]) -> bool:
    return any(copies.parts(a.trace, b.trace) for a in alike for b in alike)


def _one_training(alike: Sequence[_Taken]) -> steps.UnusableLog:
    named = ", ".join(f"{one.trace.source} ({one.cell})" for one in alike)
    said = f"one training is given as {len(alike)} results"
    if any(_cannot_tell(a.trace, b.trace) for a in alike for b in alike):
        said += ", or they cannot be distinguished: the steps of one follow those of another, and at least one log has no dates"
    return steps.UnusableLog(
        f"{said}: {named}",
        "use each training only once: one complete file, in the folder of its configuration; train again for the other results",
    )


def _cannot_tell(one: copies.Trace, other: copies.Trace) -> bool:
    return copies.parts(one, other) and not copies.dated(one, other)


def _wanted(folder: Path, runs: Sequence[Recorded], model: str | None) -> list[Recorded]:
    chosen = [run for run in runs if model is None or run.model == model]
    if not chosen:
        there = ", ".join(dict.fromkeys(run.model for run in runs))
        raise ConfigError(f"{folder}: no log of model {model}", f"models there: {there}")
    return chosen


def _file(path: Path, model: str, log: steps.Log) -> EvidenceFile:
    """Raises UnusableLog for a log with a future date, because nothing could be newer than it."""
    began, dated_by = log.printed.began, "time stamps in the log"
    if began is None:
        began, dated_by = datetime.fromtimestamp(path.stat().st_mtime, UTC), "the file's own time"
    if began > datetime.now(UTC) + AHEAD:
        raise steps.UnusableLog(
            f"{path}: began at {began:%Y-%m-%d %H:%M} by {dated_by}, which is in the future",
            "set the clocks, then train again",
        )
    return EvidenceFile(
        path=str(path.absolute()),
        sha256=log.sha256,
        size=log.size,
        part=model,
        began=began,
        dated_by=dated_by,
    )


def run_of(
    log: steps.Log, recorded: Recorded, reference: Reference, hardware: Hardware | None
) -> Run:
    """Returns the training of a log and its speed. Raises UnusableLog if the log contradicts itself or its description."""
    selection = steps.select(log, recorded.rule or "default")
    gpus_per_node = recorded.gpus_per_node or 8
    batch, sequence, notes = _shape(log, recorded, reference)
    consistency.batch(log, batch)
    consistency.row(log, selection)
    theirs = hardware.gpu if hardware and not recorded.gpu else None
    if hardware and theirs:
        notes = (*notes, f"no GPU in runs.yml: assumed {theirs}, as in {hardware.of}")
    run = Run(
        model=recorded.model,
        platform=recorded.platform,
        nodes=recorded.nodes,
        gpus_per_node=gpus_per_node,
        gpu=recorded.gpu or (reference.gpu(theirs) or theirs if theirs else None),
        global_batch=batch,
        sequence=sequence,
        seconds=selection.seconds,
        deviation=selection.deviation,
        rounding=selection.rounding,
        used=len(selection.steps),
        rule=selection.rule,
        source=f"{log.source}:{selection.lines}",
        family=log.family,
        diverged=consistency.diverged(log),
        plain=log.printed.plain,
        notes=(
            *notes,
            *_world(log, recorded.nodes, gpus_per_node),
            *_refused(log),
            *consistency.notes(log, selection),
            *log.notes,
        ),
    )
    consistency.throughput(log, run, reference)
    return run


def _shape(
    log: steps.Log, recorded: Recorded, reference: Reference
) -> tuple[int, int, tuple[str, ...]]:
    """Returns global batch, sequence, and the assumed values. The log's own values have precedence over the published ones."""
    gpt = reference.models[recorded.model]
    of_steps = () if log.global_batch is None else (log.global_batch,)
    batches = of_steps or log.printed.batch
    batch, no_batch = _size(log, "global batch", batches, recorded.global_batch, gpt.global_batch)
    sequence, no_sequence = _size(
        log, "sequence length", log.printed.sequence, recorded.sequence, gpt.sequence
    )
    return batch, sequence, tuple(note for note in (no_batch, no_sequence) if note)


def _size(
    log: steps.Log, what: str, printed: tuple[int, ...], said: int | None, published: int
) -> tuple[int, str]:
    """Returns the size, and a note if only the published configuration contains it. Raises UnusableLog."""
    if said is not None and printed and said not in printed:
        raise steps.UnusableLog(
            f"{log.source}: the log has {what} {_listed(printed)}, but runs.yml has {said}",
            f"correct runs.yml: a wrong {what} gives a wrong result",
        )
    if said is None and len(printed) > 1:
        key = what.replace(" length", "").replace(" ", "_")
        raise steps.UnusableLog(
            f"{log.source}: the log has several values of {what}: {_listed(printed)}",
            f"set the value of the training in runs.yml, such as {key}: {printed[-1]}",
        )
    size = said or next(iter(printed), 0)
    if size:
        return size, ""
    return (
        published,
        f"{what} not in the log: assumed the published value of the model, {published}",
    )


def _world(log: steps.Log, nodes: int, gpus_per_node: int) -> Iterator[str]:
    """Returns a note if the log does not contain the number of its GPUs. Raises UnusableLog if it contains another number."""
    expected = nodes * gpus_per_node
    if not log.printed.world:
        yield f"number of GPUs not in the log: assumed {nodes} x {gpus_per_node}"
    elif log.printed.world != (expected,):
        raise steps.UnusableLog(
            f"{log.source}: ran on {_listed(log.printed.world)} GPUs, and {nodes} x {gpus_per_node} are {expected}",
            "name the file by its number of hosts, or correct nodes and gpus_per_node in runs.yml",
        )


def _listed(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes))


def _refused(log: steps.Log) -> Iterator[str]:
    if log.refused.count:
        first = log.refused.first[0]
        yield f"{plural(log.refused.count, 'value')} refused (first: line {first.line}, {first.reason})"


def _merged(runs: Sequence[Run]) -> list[Run]:
    """Merges repeated runs of one cell into one run with their mean step time; lists each source."""
    cells: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        cells.setdefault(
            (
                run.model,
                run.platform,
                run.nodes,
                run.gpu,
                run.gpus_per_node,
                run.global_batch,
                run.sequence,
                run.plain,
            ),
            [],
        ).append(run)
    return [_mean(group) for group in cells.values()]


def _mean(group: Sequence[Run]) -> Run:
    if len(group) == 1:
        return group[0]
    spread = (max(r.seconds for r in group) / min(r.seconds for r in group) - 1) * 100
    return group[0].model_copy(
        update={
            "seconds": fmean(r.seconds for r in group),
            "deviation": max(r.deviation for r in group),
            "rounding": fmean(r.rounding for r in group),
            "used": sum(r.used for r in group),
            "source": ", ".join(r.source for r in group),
            "apart": spread,
            "diverged": next((r.diverged for r in group if r.diverged), ""),
            "notes": (f"mean of {len(group)} runs, {spread:.1f} % apart", *group[0].notes),
        }
    )
