"""What is handed over: the accepted state of the site, and its format for later comparison."""

from typing import Literal

from pydantic import AwareDatetime, Field

from appliance.models.base import Model
from appliance.models.line import Line
from appliance.models.result import CheckResult
from appliance.models.run import HostRecord


class Baseline(Model):
    """The accepted state of the site: ``--since handover`` compares with it.

    Kept twice, in the same format: as ``baseline.json`` of the hand-over, and in the site's journal as the entry of kind
    ``handover``, data ``{"baseline": this, "archive": file name, "sha256": of the archive, "signer": fingerprint or ""}``.
    The last entry counts.

    ``hosts``: inventory with serials, UUIDs, GUIDs and firmware as in reports (HostRecord); ``versions``: host ->
    component -> version; ``declared``: digest of each section of site and profile and of each role, from
    engine/accept/deployment_state.py; ``results``: every check and benchmark with its value on that day, to compare
    counters and rates with.
    """

    version: Literal[1] = 1
    site: Line
    profile: Line
    run: Line
    accepted: AwareDatetime
    appliance: Line = Field(description="Version of the program")
    hosts: tuple[HostRecord, ...]
    versions: dict[Line, dict[Line, Line]]
    declared: dict[Line, Line]
    results: tuple[CheckResult, ...]


class Difference(Model):
    """A difference from the earlier state. ``host``: "" for the site itself; empty ``then``: new, empty ``now``: gone.

    Both empty: it differs, and its earlier value was not recorded. ``known`` False: undecidable; ``what`` says why.
    """

    host: Line = ""
    what: Line
    then: Line = ""
    now: Line = ""
    known: bool = True
