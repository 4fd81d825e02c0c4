"""What is handed over: the site as it was built, and the form in which that is kept for later comparison."""

from typing import Literal

from pydantic import AwareDatetime, Field

from appliance.models.base import Model
from appliance.models.line import Line
from appliance.models.result import CheckResult
from appliance.models.run import HostRecord


class Baseline(Model):
    """The site as it was accepted: what ``--since handover`` compares with.

    Kept twice, in the same form: as ``baseline.json`` of the hand-over, and in the site's journal as the entry of kind
    ``handover``, data ``{"baseline": this, "archive": file name, "sha256": of the archive, "signer": fingerprint or ""}``.
    The entry written last counts.

    ``hosts``: inventory with serials, UUIDs, GUIDs and firmware as reports have it (HostRecord); ``versions``: host ->
    component -> version; ``declared``: digest of each section of site and profile and of each role, as
    engine/deployed.py makes them; ``results``: every check and benchmark with its value on that day, to compare
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
    """Something of the site that is not as it was. ``host``: "" of the site itself; empty ``then``: new, empty ``now``: gone.

    Both empty: it is another, and nobody kept what it was. Where ``known`` is False nobody can say: ``what`` says why, and it may have changed.
    """

    host: Line = ""
    what: Line
    then: Line = ""
    now: Line = ""
    known: bool = True
