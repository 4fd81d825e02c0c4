"""Evidence of finished runs, as the journal keeps it: which logs, of which site and class, and what they show."""

from typing import Literal

from pydantic import AwareDatetime, Field

from appliance.models.base import Model
from appliance.models.line import Line
from appliance.models.profile import Limit
from appliance.models.result import CheckResult, Measurement
from appliance.models.run import Table


class LogFile(Model):
    """A log as it was read: absolute path, digest, and when its training began, by ``dated_by``."""

    path: Line
    sha256: Line
    size: int = Field(ge=0)
    model: Line
    began: AwareDatetime
    dated_by: Line


class LogEvidence(Model):
    """What logs of finished runs have shown, and of which site, class and limit it was judged."""

    version: Literal[1] = 1
    benchmark: Line
    folder: Line
    files: tuple[LogFile, ...]
    site: Line
    profile: Line
    gpu: Line
    gpus_per_node: int
    hosts: int
    limit: Limit
    results: tuple[CheckResult, ...]
    measurements: tuple[Measurement, ...] = ()
    tables: tuple[Table, ...] = ()
