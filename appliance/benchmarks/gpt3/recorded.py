"""Throughput from recorded logs: a folder laid out by model, platform and nodes, or described by runs.yml."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Literal

from pydantic import Field, ValidationError

from appliance.benchmarks.gpt3 import logs, steps, tables
from appliance.benchmarks.gpt3.judge import THROUGHPUT, judge
from appliance.benchmarks.gpt3.reference import Platform, Reference, load
from appliance.benchmarks.gpt3.throughput import Run
from appliance.checks.check import not_assessed
from appliance.config import document
from appliance.config.finding import InvalidConfig
from appliance.models.base import Model
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Measurement
from appliance.models.run import Table

DESCRIPTION = "runs.yml"
NODES = re.compile(r"(\d+)n")
LAYOUT = "lay logs out as MODEL/bare-metal|kubernetes/NODESn*.log (5b/kubernetes/2n-a.log), or describe them in runs.yml"
Outcome = tuple[list[CheckResult], list[Measurement], list[Table]]


class Recorded(Model):
    """One log and what it does not say itself. ``log`` is relative to the folder of runs.yml."""

    log: str
    model: str
    platform: Platform
    nodes: int = Field(ge=1)
    gpu: str | None = None
    gpus_per_node: int | None = Field(default=None, ge=1)
    global_batch: int | None = Field(default=None, ge=1)
    sequence: int | None = Field(default=None, ge=1)
    rule: str | None = None


class Description(Model):
    """runs.yml. Without ``runs`` the folder's layout says which log is which."""

    version: Literal[1] = 1
    gpu: str | None = None
    gpus_per_node: int = Field(default=8, ge=1)
    rule: str = "default"
    runs: tuple[Recorded, ...] = ()


def from_logs(
    folders: Sequence[Path], *, gpu: str | None = None, tolerance: Limit | None = None
) -> Outcome:
    """Results, measurements and tables of the logs in ``folders``.

    ``gpu`` names the GPU where runs.yml does not. A log that yields no figure is a required result without a
    verdict. Raises UnusableLog where a folder holds no log, InvalidConfig for a wrong runs.yml.
    """
    reference = load()
    results: list[CheckResult] = []
    runs: list[Run] = []
    for folder in folders:
        description = _description(folder)
        for recorded in description.runs or tuple(_laid_out(folder)):
            try:
                runs.append(_run(folder, recorded, description, gpu, reference))
            except steps.UnusableLog as error:
                what = f"cluster/{recorded.model} {recorded.platform} {recorded.nodes}n"
                results.append(not_assessed(THROUGHPUT, what, error.message, fix=error.hint))
    merged = _merged(runs)
    results += judge(merged, reference, tolerance)
    return (
        results,
        list(tables.measurements(merged, reference)),
        list(tables.tables(merged, reference)),
    )


def _description(folder: Path) -> Description:
    file = folder / DESCRIPTION
    if not file.is_file():
        return Description()
    read = document.read(file)
    try:
        return Description.model_validate(read.data)
    except ValidationError as error:
        findings = [
            read.finding(tuple(e["loc"]), e["msg"], "see docs/gpt3.md") for e in error.errors()
        ]
        raise InvalidConfig(findings) from None


def _laid_out(folder: Path) -> Iterator[Recorded]:
    found = False
    for path in sorted(folder.glob("*/*/*")):
        nodes = NODES.match(path.name)
        model, platform = path.parts[-3], path.parts[-2]
        if nodes and platform in {"bare-metal", "kubernetes"} and path.is_file():
            found = True
            yield Recorded.model_validate(
                {
                    "log": str(path.relative_to(folder)),
                    "model": model,
                    "platform": platform,
                    "nodes": int(nodes[1]),
                }
            )
    if not found:
        raise steps.UnusableLog(f"{folder}: no training logs found", LAYOUT)


def _run(
    folder: Path, recorded: Recorded, common: Description, gpu: str | None, reference: Reference
) -> Run:
    log = logs.read(folder / recorded.log)
    selection = steps.select(log, recorded.rule or common.rule)
    batch, sequence, notes = _shape(log, recorded, reference)
    named = recorded.gpu or common.gpu or gpu
    return Run(
        model=recorded.model,
        platform=recorded.platform,
        nodes=recorded.nodes,
        gpus_per_node=recorded.gpus_per_node or common.gpus_per_node,
        gpu=(reference.gpu(named) or named) if named else None,
        global_batch=batch,
        sequence=sequence,
        seconds=selection.seconds,
        deviation=selection.deviation,
        used=len(selection.steps),
        rule=selection.rule,
        source=f"{log.source}:{selection.lines}",
        family=log.family,
        diverged=next((f"{r.reason}, line {r.line}" for r in log.refused if r.diverged), ""),
        notes=(*notes, *_refused(log), *log.notes),
    )


def _shape(
    log: steps.Log, recorded: Recorded, reference: Reference
) -> tuple[int, int, tuple[str, ...]]:
    """Global batch and sequence: said in runs.yml, printed in the log, else the model's published ones."""
    gpt = reference.models.get(recorded.model)
    batch = recorded.global_batch or log.global_batch or (gpt.global_batch if gpt else None)
    sequence = recorded.sequence or (gpt.sequence if gpt else None)
    if batch is None or sequence is None:
        known = ", ".join(reference.models)
        raise steps.UnusableLog(
            f"{log.source}: global batch or sequence of model {recorded.model} is not known",
            f"say global_batch and sequence in runs.yml, or name a known model ({known})",
        )
    if recorded.global_batch and log.global_batch not in {None, recorded.global_batch}:
        raise steps.UnusableLog(
            f"{log.source}: prints global batch {log.global_batch}, runs.yml says {recorded.global_batch}",
            "correct runs.yml: a wrong batch makes a wrong figure",
        )
    printed = recorded.global_batch or log.global_batch
    assumed = () if printed else ("global batch not in the log: the model's published one assumed",)
    return batch, sequence, assumed


def _refused(log: steps.Log) -> Iterator[str]:
    if log.refused:
        first = log.refused[0]
        yield f"{len(log.refused)} values refused (first: line {first.line}, {first.reason})"


def _merged(runs: Sequence[Run]) -> list[Run]:
    """Repeats of one cell become one run with their mean step time, each source named."""
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
            "used": sum(r.used for r in group),
            "source": ", ".join(r.source for r in group),
            "diverged": next((r.diverged for r in group if r.diverged), ""),
            "notes": (f"mean of {len(group)} runs, {spread:.1f} % apart", *group[0].notes),
        }
    )
