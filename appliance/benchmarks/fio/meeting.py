"""Judges a shared directory as its hosts see it: files that one host has written, a lock that one holds."""

import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from appliance.benchmarks.equals import in_container
from appliance.benchmarks.fio.gates import LOCKS, VISIBLE
from appliance.benchmarks.jobs import HostOutput, Task
from appliance.benchmarks.reading import Foreign, Rate, Unread, document
from appliance.checks.check import View, failed, judged, not_assessed, passed
from appliance.models.profile import Limit
from appliance.models.result import CLUSTER, CheckResult, Judgement, Place, Status, place
from appliance.text import first_few, one_line, shortened

PROGRAM = Path(__file__).with_name("seen.py")
WITHIN = Limit(
    value=1.0, unit="s", source="own choice: programs that exchange files do not wait longer"
)
SECONDS = 180.0
TOOLS = {"python3": "apt-get install python3 there (Debian, Ubuntu), dnf install python3 (RHEL)"}
CACHES = "check there the mount options (actimeo, lookupcache), and the server's load"
NO_LOCKS = "mount there without nolock and local_lock; NFS 3 needs rpc.statd on both sides, and its ports open in the firewall"


class Met(Foreign):
    """The report of one host. ``longest``: s from a write to the last answer, only from the first host; ``lock``: the result of its lock request."""

    place: int | None
    longest: Rate | None = None
    lock: str = ""
    counted: int = 0
    added: int = 0
    trouble: str = ""


def task(at: str, hosts: int) -> Task:
    """The hosts meet in a folder of their own below ``at``, which is removed."""
    folder = f"{at}/.appliance-seen-{secrets.token_hex(4)}"
    return Task(
        "fio",
        'exec python3 -c "$1" "$2" "$3"',
        SECONDS,
        TOOLS,
        f"{at} seen",
        (PROGRAM.read_text(encoding="utf-8"), folder, str(hosts)),
    )


def judge(view: View, at: str, said: Mapping[str, HostOutput]) -> Iterator[CheckResult]:
    """Both verdicts are for all hosts together; a host that could not take part has its own result."""
    simulated = any(in_container(view, host) for host in said)
    met: dict[str, Met] = {}
    for host, one in said.items():
        where = place(host, at.removeprefix("/"))
        if one.trouble:
            yield one.verdict(VISIBLE, where, simulated=simulated)
            continue
        try:
            met[host] = document(Met, one.output)
        except Unread as error:
            fix = "run it by hand on the host and check its output"
            yield judged(where, Status.ERROR, cause=str(error), fix=fix).of(VISIBLE)
    if len(met) < len(said):
        return
    whole = place(CLUSTER, f"{at.removeprefix('/')} {len(said)} hosts")
    yield _visible(view, whole, met, simulated).of(VISIBLE)
    yield _locks(whole, met, simulated).of(LOCKS)


def _meeting_text(met: Mapping[str, Met]) -> str:
    return first_few(
        [
            f"{host}: {shortened(one_line(one.trouble), 160)}"
            for host, one in met.items()
            if one.trouble
        ]
    )


def _visible(view: View, at: Place, met: Mapping[str, Met], simulated: bool) -> Judgement:
    bound = view.limit(VISIBLE) or WITHIN
    shown: dict[str, Any] = {
        "limit": bound.value,
        "limit_source": bound.source,
        "unit": "s",
        "simulated": simulated,
    }
    longest = next((one.longest for one in met.values() if one.place == 0), None)
    if longest is None or any(one.longest is None for one in met.values()):
        return failed(
            at, f"hosts do not see each other's files: {_meeting_text(met)}", CACHES, **shown
        )
    places = sorted(-1 if one.place is None else one.place for one in met.values())
    if places != list(range(len(met))):
        cause = "several hosts created the same file exclusively"
        return failed(at, cause, CACHES, **shown)
    # There and back: each way is half of it.
    late = longest / 2
    value = round(late, 3)
    if late > float(bound.value or 0):
        cause = f"all hosts see a file {late:.4g} s after it was written"
        return failed(at, cause, CACHES, value=value, **shown)
    return passed(at, value, **shown)


def _locks(at: Place, met: Mapping[str, Met], simulated: bool) -> Judgement:
    holder = next((host for host, one in met.items() if one.lock == "held"), "")
    also = [host for host, one in met.items() if one.lock == "got"]
    first = next((one for one in met.values() if one.place == 0), None)
    common: dict[str, Any] = {"simulated": simulated}
    if also:
        cause = f"{first_few(also)} got a lock that {holder or 'another host'} held: locks apply only within one host"
        return failed(at, cause, NO_LOCKS, names=tuple(also), **common)
    if any(one.longest is None for one in met.values()):
        return not_assessed(at, "the hosts did not see each other's files", **common)
    if _meeting_text(met) or first is None:
        return failed(
            at,
            f"a file lock could not be acquired: {_meeting_text(met) or 'no host got it first'}",
            NO_LOCKS,
            **common,
        )
    odd = [h for h, one in met.items() if one.lock != ("held" if one is first else "refused")]
    if odd or first.added <= 0:
        cause = f"{first_few(odd) or 'no host'} did not report the result of the lock"
        return not_assessed(at, cause, **common)
    if first.counted != first.added:
        cause = f"{first.added - first.counted} of {first.added} additions under a lock were lost"
        return failed(at, cause, NO_LOCKS, **common)
    return passed(at, first.counted, unit="additions", limit=first.added, **common)
