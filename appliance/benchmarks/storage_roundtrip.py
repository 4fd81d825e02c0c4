"""Proves the shared storage's data path: a file written on each host is read on all, and how fast."""

import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from appliance.adapters.remote import Remote
from appliance.benchmarks.benchmark import Outcome
from appliance.benchmarks.storage_route import Route, StoragePath, routes
from appliance.checks.check import View, failed, not_assessed, passed, warned
from appliance.errors import ApplianceError, ConnectionFailed
from appliance.models.result import CheckResult, Measurement, Place, place
from appliance.stages.storage.site import NfsMount

CHECK = "storage.roundtrip"
PROOF, SPEED = "proof", "speed"
PROOF_BYTES = 1 << 20
SPEED_BYTES = 64 << 20
TIMEOUT = 60.0
TIMED = re.compile("[0-9]{1,18}")
"""Nanoseconds."""
"""Seconds; a hard mount would wait forever if its server is down."""
SIDE_BY_SIDE = 16
FIX = "log in to the host and test the directory by hand; the server's log lists refused clients"


@dataclass(frozen=True)
class HostAnswer:
    """The output of a host, or its error. ``silent``: it was not reached, so nothing is proved."""

    output: str = ""
    trouble: str = ""
    remark: str = ""
    silent: bool = False


def run(view: View, remote: Remote) -> Outcome:
    """Write, read everywhere, measure, and remove every file again, also when something failed on the way."""
    results: list[CheckResult] = []
    measured: list[Measurement] = []
    for wanted in view.site.storage.mounts:
        found = routes(view, wanted)
        results += [_no_way(wanted, h, why) for h, why in found.items() if isinstance(why, str)]
        usable = [route for route in found.values() if isinstance(route, Route)]
        with_path = [route for route in usable if route.way is not StoragePath.LIBNFS]
        # The server maps root of a client to nobody, who may not remove files of the server's own root.
        cleaner = min(with_path, key=lambda route: route.way is not StoragePath.LOCAL, default=None)
        if cleaner is None:
            cause = "no host could remove the files"
            results += [_no_way(wanted, route.host, cause) for route in usable]
            continue
        token = f".appliance-{secrets.token_hex(6)}"
        try:
            results += _prove(remote, wanted, usable, token)
            measured += _measure(remote, wanted, usable, token)
        finally:
            results += _remove(remote, wanted, cleaner, token)
    return Outcome(tuple(results), tuple(measured))


def _prove(
    remote: Remote, wanted: NfsMount, usable: Sequence[Route], token: str
) -> Iterable[CheckResult]:
    written = _each(usable, lambda r: _ask(remote, r.host, r.write(token, PROOF, PROOF_BYTES)))
    digests = {host: digest for host, answer in written.items() if (digest := _digest(answer))}
    writers = sorted(digests)
    read = _each(usable, lambda r: _ask(remote, r.host, r.read(token, PROOF, writers)))
    for route in usable:
        expected = {route.file(token, writer, PROOF): digests[writer] for writer in writers}
        yield _judge(wanted, route, written[route.host], read[route.host], expected)


def _measure(
    remote: Remote, wanted: NfsMount, usable: Sequence[Route], token: str
) -> Iterable[Measurement]:
    """One host after the other, so that each has the server to itself."""
    for route in usable:
        if route.way is StoragePath.LOCAL:
            continue
        written = _ask(remote, route.host, route.write(token, SPEED, SPEED_BYTES))
        if not _is_timed(written):
            continue
        yield _speed("storage.write", wanted, route, written)
        read = _ask(remote, route.host, route.time_read(token, SPEED))
        if _is_timed(read):
            yield _speed("storage.read", wanted, route, read)


def _remove(remote: Remote, wanted: NfsMount, cleaner: Route, token: str) -> list[CheckResult]:
    answer = _ask(remote, cleaner.host, cleaner.remove(token))
    if not answer.trouble:
        return []
    target = place(cleaner.host, f"{wanted.at}/{token}".removeprefix("/"))
    cause = f"its files stay behind: {answer.trouble}"
    fix = f"rm {cleaner.base}/{token}-* on {cleaner.host}"
    return [warned(target, cause, fix).of(CHECK)]


def _judge(
    wanted: NfsMount,
    route: Route,
    written: HostAnswer,
    read: HostAnswer,
    expected: Mapping[str, str],
) -> CheckResult:
    target = _place(wanted, route.host)
    evidence = f"{route.way} through {route.base}"
    for answer, doing in ((written, "write to"), (read, "read from")):
        if answer.silent:
            return not_assessed(target, answer.trouble, evidence=evidence).of(CHECK)
        if answer.trouble:
            cause = f"cannot {doing} {wanted.at}: {answer.trouble}"
            return failed(target, cause, FIX, evidence=evidence).of(CHECK)
    if not _digest(written):
        cause = f"the writer's answer cannot be read: {written.output.strip()[:80]!r}"
        return failed(target, cause, FIX, evidence=evidence).of(CHECK)
    digests = dict(line.split()[:2] for line in read.output.splitlines() if " " in line.strip())
    wrong = [file for file, digest in expected.items() if digests.get(file) != digest]
    common = {"unit": "files", "limit": len(expected), "evidence": evidence}
    if not wrong:
        return passed(target, len(expected), **common).of(CHECK)
    writers = ", ".join(file.rpartition(f"-{PROOF}-")[2] for file in wrong)
    remark = f" ({read.remark})" if read.remark else ""
    cause = f"reads wrong data, or none, in files of {writers}{remark}"
    return failed(target, cause, FIX, value=len(expected) - len(wrong), **common).of(CHECK)


def _place(wanted: NfsMount, host: str) -> Place:
    return place(host, wanted.at.removeprefix("/"))


def _speed(name: str, wanted: NfsMount, route: Route, answer: HostAnswer) -> Measurement:
    seconds = int(answer.output.split()[0]) / 1e9
    return Measurement(
        name=name,
        value=round(SPEED_BYTES / 1e6 / seconds, 1),
        unit="MB/s",
        target=str(_place(wanted, route.host)),
        simulated=route.in_container,
        detail={"client": str(route.way), "bytes": SPEED_BYTES, "seconds": round(seconds, 3)},
    )


def _no_way(wanted: NfsMount, host: str, why: str) -> CheckResult:
    return not_assessed(_place(wanted, host), why).of(CHECK)


def _is_timed(answer: HostAnswer) -> bool:
    """Whether the first word is a time; a copy of many bytes takes more than no nanoseconds."""
    words = answer.output.split()
    return (
        not answer.trouble and bool(words) and bool(TIMED.fullmatch(words[0])) and int(words[0]) > 0
    )


def _digest(answer: HostAnswer) -> str:
    """The digest that a writer reports; "" if it reports none."""
    words = answer.output.split()
    return words[1] if _is_timed(answer) and len(words) > 1 else ""


def _each(usable: Sequence[Route], work: Callable[[Route], HostAnswer]) -> dict[str, HostAnswer]:
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        return dict(zip((r.host for r in usable), pool.map(work, usable), strict=True))


def _ask(remote: Remote, host: str, argv: Sequence[str]) -> HostAnswer:
    try:
        done = remote.run(host, argv, timeout=TIMEOUT)
    except ConnectionFailed as error:
        return HostAnswer(trouble=error.message, silent=True)
    except ApplianceError as error:
        return HostAnswer(trouble=error.message)
    # libnfs prints the reason first and repeats the name of the file last.
    said = (done.stderr.strip().splitlines() or [""])[0]
    if done.returncode:
        return HostAnswer(trouble=said or f"exit {done.returncode}")
    return HostAnswer(done.stdout, remark=said)
