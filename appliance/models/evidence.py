"""Evidence: what a benchmark has shown, of which site and class, and by whose word; the journal keeps it."""

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
    """How evidence came into the record. Only what the program measured itself is ordered by the journal alone."""

    NOW = "measured by this program"
    LOGS = "logs from elsewhere"
    TOOL = "another tool's output"


class EvidenceFile(Model):
    """A file as it was read: path, digest, which part of the benchmark it is of, and when that began, by ``dated_by``."""

    path: Line
    sha256: Line
    size: int = Field(ge=0)
    part: Line = ""
    began: AwareDatetime
    dated_by: Line


class Evidence(Model):
    """What one benchmark has shown, and of which site, class and limits.

    ``origin``: where it lies, for people. ``began``: when measuring began, by ``dated_by``. ``gpu``: the model as gates
    name it, "" where hosts did not agree. ``hosts``: the site's GPU hosts then; of the form of version 1 their number
    alone is known, ``size``. ``limits``: by gate. ``simulated``: what of the hardware was not real.
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
        """Version 1 knew logs of GPT-3 alone."""
        return _upgraded(given) if isinstance(given, dict) and given.get("version") == 1 else given

    @model_validator(mode="after")
    def _counts_its_hosts(self) -> Self:
        if self.hosts and len(self.hosts) != self.size:
            raise ValueError(
                f"{plural(len(self.hosts), 'host is', 'hosts are')} named, {self.size} counted"
            )
        return self

    def began_of(self, part: str) -> tuple[AwareDatetime, str] | None:
        """When measuring of a part began, and by what that is dated; None where no file of it could be read."""
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
