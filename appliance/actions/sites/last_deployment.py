"""The last deployment as the journal records it: what each stage has done on each host, also while it runs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from appliance.actions.sites.history import Run, history
from appliance.journal import Entry, Journal, holder
from appliance.stages import NAMES

VERB = "deploy"


class Progress(StrEnum):
    """The state of one stage on one host in a run."""

    PLANNED = "planned"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


ENDS = {
    "host_done": Progress.DONE,
    "host_failed": Progress.FAILED,
    "host_interrupted": Progress.INTERRUPTED,
}
"""Kinds of entries that end a stage on a host."""


@dataclass(frozen=True)
class Cell:
    """One stage on one host. ``seconds`` of wall time; ``changes``: tasks that changed something; ``task``: the last such task.

    ``since``: when it began. ``why``: the reason of the plan.
    """

    state: Progress
    why: str = ""
    since: datetime | None = None
    seconds: float = 0.0
    changes: int = 0
    task: str = ""
    cause: str = ""
    fix: str = ""


@dataclass(frozen=True)
class Deployment:
    """One run of ``deploy``; ``cells`` by stage and host. ``is_running``: its process holds the site now."""

    run: Run
    is_running: bool
    hosts: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    cells: Mapping[tuple[str, str], Cell] = field(default_factory=dict)


@dataclass(frozen=True)
class SiteRecord:
    """What the journal of a site tells. ``holder``: the note of the run that holds the site now, empty if none does."""

    runs: tuple[Run, ...]
    deployment: Deployment | None
    holder: Mapping[str, str]


def site_record(folder: Path) -> SiteRecord:
    """The runs in this folder's journal, the last deployment cell by cell, and who holds the site. Contacts no host."""
    runs, held = history(folder), holder(folder)
    last = next((run for run in reversed(runs) if run.verb == VERB), None)
    if last is None:
        return SiteRecord(runs, None, held)
    with Journal(folder, needed=False) as journal:
        entries = tuple(journal.entries(run=last.run))
    return SiteRecord(runs, deployment(last, entries, held.get("run") == last.run), held)


def deployment(run: Run, entries: Iterable[Entry], is_running: bool) -> Deployment:
    """A run by its entries. A stage that began and has no end counts as interrupted once the run is over."""
    cells: dict[tuple[str, str], Cell] = {}
    for entry in entries:
        _add(cells, entry)
    if not is_running:
        cells = {place: _over(cell) for place, cell in cells.items()}
    used = {stage for stage, _ in cells}
    return Deployment(
        run=run,
        is_running=is_running,
        hosts=tuple(dict.fromkeys(host for _, host in cells)),
        stages=tuple(name for name in NAMES if name in used),
        cells=cells,
    )


def _add(cells: dict[tuple[str, str], Cell], entry: Entry) -> None:
    data = entry.data
    if entry.kind == "plan":
        pending = data.get("cells")
        for cell in pending if isinstance(pending, list) else ():
            cells[cell["stage"], cell["host"]] = Cell(Progress.PLANNED, str(cell.get("why", "")))
        return
    place = (entry.stage, entry.host)
    before = cells.get(place, Cell(Progress.PLANNED))
    if entry.kind == "host_started":
        why = str(data.get("why") or before.why)
        cells[place] = Cell(Progress.RUNNING, why, entry.time)
    elif entry.kind in ENDS:
        cells[place] = Cell(
            ENDS[entry.kind],
            before.why,
            before.since,
            float(str(data.get("seconds") or 0)),
            int(str(data.get("changes") or 0)),
            before.task,
            str(data.get("cause") or ""),
            str(data.get("fix") or ""),
        )
    elif entry.kind.startswith("task_") and before.state is Progress.RUNNING:
        task = str(data.get("task") or "").rpartition(" | ")[2]
        cells[place] = Cell(
            Progress.RUNNING, before.why, before.since, changes=before.changes + 1, task=task
        )


def _over(cell: Cell) -> Cell:
    if cell.state is not Progress.RUNNING:
        return cell
    return Cell(Progress.INTERRUPTED, cell.why, cell.since, changes=cell.changes, task=cell.task)
