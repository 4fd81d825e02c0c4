"""Evidence: the results of a benchmark, its site and class, and its origin; kept in the journal."""

from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import AwareDatetime, Field, model_validator

from appliance.models.base import Model
from appliance.models.line import Line
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Measurement
from appliance.models.run import Table
from appliance.text import plural


class Source(StrEnum):
    """The origin of evidence. Only the program's own measurements are ordered by the journal alone."""

    NOW = "measured by this program"
    LOGS = "logs from elsewhere"
    TOOL = "another tool's output"


class EvidenceFile(Model):
    """A file as it was read: path, digest, the part of the benchmark it belongs to, and when that began, by ``dated_by``."""

    path: Line
    sha256: Line
    size: int = Field(ge=0)
    part: Line = ""
    began: AwareDatetime
    dated_by: Line


class Evidence(Model):
    """The results of one benchmark, with its site, class and limits.

    ``origin``: its path, for people. ``began``: when measuring began, by ``dated_by``. ``gpu``: the model in the notation of
    gates, "" if hosts differed. ``hosts``: the site's GPU hosts at that time; version 1 recorded only their number,
    ``size``. ``limits``: by gate. ``simulated``: the simulated areas of hardware.
    """

    version: Literal[2] = 2
    benchmark: Line
    source: Source
    origin: Line
    files: tuple[EvidenceFile, ...] = ()
    began: AwareDatetime
    dated_by: Line
    site: Line
    profile: Line
    gpu: Line = ""
    gpus_per_host: int = Field(ge=0)
    hosts: tuple[Line, ...] = ()
    size: int = Field(ge=0)
    limits: dict[Line, Limit] = Field(default_factory=dict)
    simulated: tuple[Line, ...] = ()
    results: tuple[CheckResult, ...]
    measurements: tuple[Measurement, ...] = ()
    tables: tuple[Table, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _of_version_1(cls, given: Any) -> Any:
        """Version 1 supported only logs of GPT-3."""
        return _upgraded(given) if isinstance(given, dict) and given.get("version") == 1 else given

    @model_validator(mode="after")
    def _counts_its_hosts(self) -> Self:
        if self.hosts and len(self.hosts) != self.size:
            raise ValueError(
                f"{plural(len(self.hosts), 'host is', 'hosts are')} listed, but {self.size} were counted"
            )
        return self

    def began_of(self, part: str) -> tuple[AwareDatetime, str] | None:
        """When measuring of a part began, and the source of that date; None if none of its files could be read."""
        if not part:
            return self.began, self.dated_by
        own = [file for file in self.files if file.part == part]
        first = min(own, key=lambda file: file.began, default=None)
        return (first.began, first.dated_by) if first else None


def _upgraded(old: dict[str, Any]) -> dict[str, Any]:
    files = [
        {"part" if key == "model" else key: value for key, value in file.items()}
        for file in old["files"]
    ]
    first = min(files, key=lambda file: str(file["began"]), default={})
    return {
        **{key: old[key] for key in ("benchmark", "site", "profile", "gpu", "results")},
        **{key: old[key] for key in ("measurements", "tables") if key in old},
        "source": Source.LOGS,
        "origin": f"logs in {old['folder']}",
        "files": files,
        "began": first.get("began"),
        "dated_by": first.get("dated_by"),
        "gpus_per_host": old["gpus_per_node"],
        "size": old["hosts"],
        "limits": {f"{old['benchmark']}.{file['part']}": old["limit"] for file in files},
    }
