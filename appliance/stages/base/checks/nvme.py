"""NVMe drives by their own word: worn, out of spare blocks, read-only, or dead."""

from collections.abc import Iterable, Iterator
from typing import Any

from appliance.checks.check import View, failed, not_assessed, passed, warned
from appliance.models.facts import HostFacts
from appliance.models.facts_host import Drive
from appliance.models.result import Judgement, place
from appliance.models.site import Host
from appliance.stages.base import ids
from appliance.stages.base.checks.memory_errors import unread
from appliance.text import plural

USED_UP = 100
NEAR = 10
"""A warning starts at this many percent below the limit."""
LEAST = 60
"""Hosts list drives from 50 % of their life used."""
SOURCE = "NVM Express base specification, health information (log page 02h)"
LOST = {0x04: "the drive reports degraded reliability", 0x08: "the drive is read-only"}
"""Warning bits of a drive that can no longer be used."""
SPENT = 0x01
WARNINGS = {
    SPENT: "spare blocks ({spare} %) are below the drive's threshold ({least} %)",
    **LOST,
    0x10: "the backup of volatile memory failed",
    0x20: "the persistent memory is read-only",
    0x02: "the drive reports a temperature warning",
}
KNOWN = sum(WARNINGS)
SMART = "smartctl -a /dev/{name} on the host shows the details"
REPLACE = f"save its data and replace it; {SMART}"
IS_HOT = 0x02
HOT = f"check the host's fans and blanking plates; {SMART}"
DEAD = "journalctl -k -g {name} on the host shows why; power the host off and on, reseat the drive, or replace it"


def judge_nvme(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """No drive warns of itself, none is at the end of its life; a host without NVMe drives is not judged."""
    found = facts.nvme
    told: dict[str, Any] = {"simulated": bool(facts.simulated)}
    if found is None:
        return [unread(host, facts, "nvme", **told)]
    if not found.drives:
        return []
    own = view.number(ids.NVME)
    most, source = own or (USED_UP, SOURCE)
    results = [result for d in found.notable for result in _drive(host, d, most, source, told)]
    if found.unasked:
        why = facts.gap("nvme", "the drive did not answer")
        results.append(not_assessed(place(host.name, *found.unasked), why, **told))
    if results:
        return results
    said = {"unit": "% used", "limit": most, "limit_source": source}
    return [
        passed(host.name, found.most_used, evidence=plural(found.drives, "drive"), **said, **told)
    ]


def _drive(
    host: Host, drive: Drive, most: float, source: str, told: dict[str, Any]
) -> Iterator[Judgement]:
    """One result, the gravest."""
    at, name = place(host.name, drive.name), drive.name
    fix = REPLACE.format(name=name)
    # The two lengths of spare blocks say so, too, where a drive forgets the bit.
    warning = drive.warning | (SPENT if drive.spare < drive.spare_least else 0)
    said = [words for bit, words in WARNINGS.items() if warning & bit]
    if warning & ~KNOWN:
        said.append(f"the drive reports an unknown warning ({warning & ~KNOWN:#04x})")
    shown: dict[str, Any]
    if drive.dead:
        yield failed(at, "the kernel disabled the drive", DEAD.format(name=name), **told)
    elif said:
        judge = failed if any(warning & bit for bit in LOST) else warned
        cause = "; ".join(said).format(spare=drive.spare, least=drive.spare_least)
        shown = {"value": f"{warning:#04x}", "limit": "0x00", "limit_source": SOURCE}
        yield judge(at, cause, HOT.format(name=name) if warning == IS_HOT else fix, **shown, **told)
    elif drive.used >= most - NEAR:
        cause = f"{drive.used} % of its rated life is used"
        shown = {"value": drive.used, "unit": "%", "limit": most, "limit_source": source}
        yield warned(at, cause, fix, **shown, **told)
    elif drive.media_errors:
        cause = f"{plural(drive.media_errors, 'unrecoverable data error')} in its life"
        shown = {"value": drive.media_errors, "unit": "errors", "limit": 0}
        yield warned(at, cause, fix, **shown, limit_source="own choice", **told)
