"""Assigns logs to runs, by runs.yml or by the folder's layout, and checks them against the tables of models and GPUs."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from appliance.benchmarks.gpt3 import steps
from appliance.benchmarks.gpt3.reference import Platform, Reference
from appliance.config import document
from appliance.config.document import Document
from appliance.config.finding import Finding, InvalidConfig
from appliance.errors import ConfigError
from appliance.models.base import Model
from appliance.models.profile import GpuExpectation
from appliance.text import plural

DESCRIPTION = "runs.yml"
NO_LOGS = (".sbatch", ".json", ".yml", ".yaml", ".bak", ".orig", ".old", ".swp", "~")
"""Job files next to the logs, and copies that editors and users create."""
NODES = re.compile(r"(\d{1,5})n(?=[.\-_]|$)")
LAYOUT = "arrange logs as MODEL/bare-metal|kubernetes/NODESn*.log (5b/kubernetes/2n-a.log), or describe them in runs.yml"
OTHER_CLASS = "name the profile of the hosts that ran it with --profile, or correct runs.yml"


@dataclass(frozen=True)
class Hardware:
    """The GPU hosts that are expected for a run, and the source of this expectation ("profile hpc"). ``hosts``: their number, None for any.

    ``gpu``: the GPU that the hosts report, for logs that name none.
    """

    of: str
    expected: GpuExpectation
    hosts: int | None = None
    gpu: str | None = None


class Recorded(Model):
    """One log, and its properties that are not in the log itself. ``log`` is relative to the folder of runs.yml."""

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
    """runs.yml. Without ``runs``, the folder's layout assigns the logs."""

    version: Literal[1] = 1
    gpu: str | None = None
    gpus_per_node: int | None = Field(default=None, ge=1)
    rule: str = "default"
    runs: tuple[Recorded, ...] = ()


def described(folder: Path, reference: Reference, hardware: Hardware | None) -> Description:
    """Returns the runs of ``folder``, with models and GPUs by the names of the tables.

    Raises InvalidConfig for an invalid runs.yml, ConfigError for an unknown name, UnusableLog if there is no log.
    """
    read, given = _description(folder)
    runs = given.runs or tuple(_laid_out(folder))
    words = _Words(read, folder, reference, hardware)
    findings = [*words.common(given), *(f for i, run in enumerate(runs) for f in words.run(i, run))]
    if findings and read:
        raise InvalidConfig(findings)
    if findings:
        raise ConfigError(findings[0].message, findings[0].remedy)
    return given.model_copy(update={"runs": tuple(words.named(run, given) for run in runs)})


def near(word: str, known: Iterator[str] | tuple[str, ...], title: str) -> str:
    """Returns ``did you mean "x"?``, ignoring the case, or the list of names."""
    names = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), names, n=1)
    return (
        f'did you mean "{names[close[0]]}"?' if close else f"{title}: {', '.join(names.values())}"
    )


@dataclass(frozen=True)
class _Words:
    """Checks names and counts. Without a runs.yml, a finding names the folder."""

    read: Document | None
    folder: Path
    reference: Reference
    hardware: Hardware | None

    def common(self, given: Description) -> Iterator[Finding]:
        yield from self._gpu(("gpu",), given.gpu)
        yield from self._count(("gpus_per_node",), given.gpus_per_node)
        yield from self._rule(("rule",), given.rule)

    def run(self, index: int, run: Recorded) -> Iterator[Finding]:
        if self._model(run.model) is None:
            remedy = near(run.model, tuple(self.reference.models), "models")
            yield self._finding(
                ("runs", index, "model"), f'no model is called "{run.model}"', remedy
            )
        yield from self._gpu(("runs", index, "gpu"), run.gpu)
        yield from self._count(("runs", index, "gpus_per_node"), run.gpus_per_node)
        yield from self._rule(("runs", index, "rule"), run.rule)
        hosts = self.hardware.hosts if self.hardware else None
        if run.nodes < 1 or (hosts is not None and run.nodes > hosts):
            has = f"{self.hardware.of} has {hosts}" if self.hardware and hosts else "at least 1"
            message = f"{run.log}: {plural(run.nodes, 'GPU host')}; {has}"
            yield self._finding(
                ("runs", index, "nodes"), message, "use logs of runs on these hosts"
            )

    def named(self, run: Recorded, given: Description) -> Recorded:
        """Returns the run with the common values, under the names of the tables."""
        gpu = run.gpu or given.gpu
        count = run.gpus_per_node or given.gpus_per_node
        return run.model_copy(
            update={
                "model": self._model(run.model),
                "gpu": self.reference.gpu(gpu) or gpu if gpu else None,
                "gpus_per_node": count or (self.hardware.expected.count if self.hardware else 8),
                "rule": run.rule or given.rule,
            }
        )

    def _model(self, name: str) -> str | None:
        known = {model.lower(): model for model in self.reference.models}
        return known.get(name.lower())

    def _gpu(self, path: tuple[str | int, ...], name: str | None) -> Iterator[Finding]:
        if name is None:
            return
        accepted = self.hardware.expected.models if self.hardware else ()
        key = self.reference.gpu(name)
        if key is None and name.lower() not in {model.lower() for model in accepted}:
            known = (*self.reference.gpus, *accepted)
            yield self._finding(path, f'no GPU is called "{name}"', near(name, known, "GPUs"))
        elif self.hardware and not self.reference.is_same_gpu(name, accepted):
            message = f"{name} is no GPU of {self.hardware.of} ({', '.join(accepted)})"
            yield self._finding(path, message, OTHER_CLASS)

    def _count(self, path: tuple[str | int, ...], count: int | None) -> Iterator[Finding]:
        if count and self.hardware and count != self.hardware.expected.count:
            message = f"{count} GPUs a host; {self.hardware.of} has {self.hardware.expected.count}"
            yield self._finding(path, message, OTHER_CLASS)

    def _rule(self, path: tuple[str | int, ...], rule: str | None) -> Iterator[Finding]:
        if rule is not None and not steps.is_rule(rule):
            yield self._finding(path, f'there is no rule "{rule}"', steps.RULES)

    def _finding(self, path: tuple[str | int, ...], message: str, remedy: str) -> Finding:
        if self.read:
            return self.read.finding(path, message, remedy)
        return Finding(self.folder, 0, "", f"{self.folder}: {message}", remedy)


def _description(folder: Path) -> tuple[Document | None, Description]:
    file = folder / DESCRIPTION
    if not file.is_file():
        return None, Description()
    read = document.read(file)
    try:
        return read, Description.model_validate(read.data)
    except ValidationError as error:
        findings = [
            read.finding(tuple(e["loc"]), e["msg"], "see docs/gpt3.md") for e in error.errors()
        ]
        raise InvalidConfig(findings) from None


def _laid_out(folder: Path) -> Iterator[Recorded]:
    found = False
    for path in sorted(folder.glob("*/*/*")):
        nodes = None if path.name.endswith(NO_LOGS) else NODES.match(path.name)
        model, platform = path.parts[-3], path.parts[-2]
        if nodes and platform in {"bare-metal", "kubernetes"} and not path.is_dir():
            # Includes pipes and dangling links: the reader reports why they are not logs.
            found = True
            if not int(nodes[1]):
                raise ConfigError(
                    f"{path}: a run on 0 hosts",
                    "name the file by its number of hosts, such as 2n.log",
                )
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
