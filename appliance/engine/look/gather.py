"""Gathers facts of all hosts concurrently, in one round trip each. A host that does not answer is a value, not an error."""

import gc
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import ValidationError

from appliance.adapters.json_answers import parsed
from appliance.adapters.remote import Reachable, Remote
from appliance.checks.check import View
from appliance.engine.look.answer_limits import LONGEST, LONGEST_BESIDE, SMALL, excess
from appliance.engine.threads import threads
from appliance.errors import ApplianceError, OutOfFiles
from appliance.models.facts import HostFacts
from appliance.probe.bundle import command, compiled, payload, program, sent
from appliance.stages.kubernetes.facts import ExternalCluster
from appliance.stages.runai.facts import RunaiAnswer
from appliance.text import one_line, quoted, shortened

T = TypeVar("T")

PYTHON = "/usr/bin/python3"
DEADLINE = 45.0
DEEP_DEADLINE = 600.0
"""Seconds, for a request that reads every file."""
CONNECTS_S = 0.1
"""Seconds. Connecting costs this machine's processor; after that it waits for the hosts."""
MANY = 32
"""Number of hosts above which a connection is closed as soon as its host has answered: 250 idle connections take a third of a processor."""
FEW = 8
"""Number of hosts up to which each is sent bytecode as well:

200 KB more traffic, 50 ms less of its processor time. For more hosts the transfer takes longer than it saves.
"""
LONGEST_FIELD = 80
DEFECT = "check the host; if it is healthy, report this as a bug in appliance"


LOGIN = (
    "check what runs at login there: the account's .bashrc and .profile, /etc/profile.d, /etc/bash.bashrc, "
    "ForceCommand of sshd_config; it may print, but must not end the shell"
)
BY_HAND = (
    "log in there by hand with the account of access.user and run "
    + PYTHON
    + " -V: whatever blocks that command also blocks the probe"
)
HINDRANCES: tuple[tuple[str, str], ...] = (
    (r"you must have a tty to run sudo", "visudo there: Defaults:ACCOUNT !requiretty"),
    (
        r"password is required|terminal is required|a password for",
        "visudo there: ACCOUNT ALL=(ALL) NOPASSWD: ALL",
    ),
    (r"not in the sudoers file|may not run sudo", "visudo there: ACCOUNT ALL=(ALL) NOPASSWD: ALL"),
    (
        r"^Unmatched|: Event not found|Ambiguous output redirect|^Badly placed",
        "the account's shell is csh: chsh -s /bin/sh ACCOUNT there",
    ),
    (r"account is currently not available|nologin", "chsh -s /bin/sh ACCOUNT there"),
    (r"account has expired|has expired", "chage -l ACCOUNT there, then chage -E -1 ACCOUNT"),
    (r"unable to resolve host", "give the host its own name in /etc/hosts there"),
    (
        r"^exit [0-9]+$",
        "another program runs instead of the probe: check ForceCommand of sshd_config, command= of authorized_keys, or the account's shell",
    ),
)
"""Output of programs that run before the probe, and what to do about it; ACCOUNT stands for access.user."""


@dataclass(frozen=True)
class Unanswered:
    """A host without facts: the reason and the remedy. ``away``: it cannot be reached at all.

    ``cause`` and ``fix`` are one line each, whatever the host sent.
    """

    host: str
    cause: str
    fix: str
    away: bool = False

    def __post_init__(self) -> None:
        for name in ("cause", "fix"):
            object.__setattr__(self, name, shortened(one_line(getattr(self, name))))


@dataclass(frozen=True)
class Round:
    """One round of requests: facts by host, the hosts that gave none, an external cluster, and Run:ai."""

    facts: Mapping[str, HostFacts]
    unanswered: Mapping[str, Unanswered]
    external: ExternalCluster | None = None
    runai: RunaiAnswer | None = None
    views: list[View] = field(default_factory=list, init=False, compare=False, repr=False)
    """Return what checks may read after this round, on demand."""


def gather(
    remote: Reachable,
    requests: Mapping[str, Mapping[str, object]],
    meanwhile: Callable[[], object] = lambda: None,
) -> Round:
    """Send each host its own request (appliance.probe lists the keys). ``meanwhile``: work done while hosts answer.

    Raises OutOfFiles if this machine cannot open enough connections; a host that was not asked must not count as
    silent.
    """
    facts: dict[str, HostFacts] = {}
    unanswered: dict[str, Unanswered] = {}

    archive = compiled() if len(requests) <= FEW else program()
    # Made once for all hosts, not once per thread.
    sent(archive)

    def work(host: str) -> HostFacts | Unanswered:
        answer = _answer(remote, host, requests[host], archive)
        if len(requests) > MANY:
            remote.leave(host)
        return answer

    def ready() -> None:
        HostFacts.model_rebuild()
        meanwhile()

    for host, answer in each(requests, work, ready):
        if isinstance(answer, HostFacts):
            facts[host] = answer
        else:
            unanswered[host] = answer
    if len(facts) > MANY:
        # They live to the end and hold no cycles: the collector need not visit them again.
        gc.freeze()
    return Round(facts, unanswered)


def each(
    hosts: Iterable[str],
    work: Callable[[str], T],
    meanwhile: Callable[[], object] = lambda: None,
) -> list[tuple[str, T]]:
    """Do the work for every host concurrently; results are in the order of ``hosts``."""
    names = list(hosts)
    if not names:
        return []
    with threads(min(32, len(names))) as pool:
        working = [pool.submit(work, name) for name in names]
        wait(working, CONNECTS_S, FIRST_COMPLETED)
        meanwhile()
        return [(name, done.result()) for name, done in zip(names, working, strict=True)]


def ask(remote: Remote, host: str, request: Mapping[str, object]) -> HostFacts | Unanswered:
    """Request the facts of one host."""
    try:
        return _answer(remote, host, request, program())
    except OutOfFiles as error:
        return Unanswered(host, error.message, error.hint)


def _answer(
    remote: Remote, host: str, request: Mapping[str, object], archive: bytes
) -> HostFacts | Unanswered:
    deadline = DEEP_DEADLINE if request.get("deep") else DEADLINE
    told = payload(dict(request), archive)
    try:
        done = remote.run(host, command(PYTHON), input=told, timeout=deadline)
    except OutOfFiles:
        raise
    except ApplianceError as error:
        return Unanswered(host, error.message, error.hint, away=True)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
        return Unanswered(host, f"the probe did not run: {said}", _hindrance(said))
    most = LONGEST_BESIDE if "posture" in _areas(request) else LONGEST
    if len(done.stdout) > most:
        said = f"its answer was rejected: it is longer than {most >> 20} MiB"
        return Unanswered(host, said, DEFECT)
    before, line = _answer_in(done.stdout.rstrip())
    try:
        answer = parsed(line)
    except ValueError as error:
        return _unreadable(host, before or line, error)
    if not isinstance(answer, dict):
        return Unanswered(host, "the probe's answer cannot be read: it has no fields", DEFECT)
    if len(done.stdout) > SMALL and (too_much := excess(answer)):
        return Unanswered(host, f"its answer was rejected: {too_much}", DEFECT)
    if "error" in answer:
        return Unanswered(host, f"the probe did not run: {answer['error']}", "")
    try:
        # The probe reports the system's host name, which a stage may not have set yet.
        printed = quoted(shortened(one_line(before), LONGEST_FIELD)) if before.strip() else ""
        return HostFacts.model_validate({**answer, "host": host, "printed": printed})
    except ValidationError as error:
        return Unanswered(host, _refused(error), DEFECT)


def _answer_in(said: str) -> tuple[str, str]:
    """Return what login scripts printed, and the answer, which is one line. Most print before it, those with a trap after it."""
    before, _, line = said.rpartition("\n")
    if line.startswith("{"):
        return before, line
    lines = said.split("\n")
    whole = [n for n, one in enumerate(lines) if one.startswith("{") and one.endswith("}")]
    answer = lines.pop(whole[-1] if whole else -1)
    return "\n".join(lines), answer


def _unreadable(host: str, said: str, error: ValueError) -> Unanswered:
    """Return why there is no answer: output of a login script, if there is any, else the error in the document."""
    if said.lstrip()[:1] in {"", "{"}:
        return Unanswered(host, f"the probe's answer cannot be read: {error}", DEFECT)
    printed = quoted(shortened(one_line(said), LONGEST_FIELD))
    return Unanswered(host, f"the probe did not answer; a login script printed {printed}", LOGIN)


def _hindrance(said: str) -> str:
    """Return what to do about the obstacle to the probe."""
    if ("not found" in said and "Event" not in said) or "No such file" in said:
        return (
            f"install Python 3.8 or newer as {PYTHON}; if only that name is missing: "
            f"ln -s $(ls /usr/bin | grep -m1 -x 'python3[.][0-9]*') {PYTHON}"
        )
    fixes = (fix for pattern, fix in HINDRANCES if re.search(pattern, said))
    return next(fixes, DEFECT if "Error:" in said or "Traceback" in said else BY_HAND)


def _areas(request: Mapping[str, object]) -> tuple[object, ...]:
    areas = request.get("areas")
    return tuple(areas) if isinstance(areas, (list, tuple)) else ()


def _refused(error: ValidationError) -> str:
    """Return the first field that is invalid."""
    first = error.errors(include_url=False, include_context=False)[0]
    field = shortened(".".join(map(str, first["loc"])), LONGEST_FIELD)
    match first["type"]:
        case "missing":
            what = f"it lacks {field}"
        case "extra_forbidden":
            what = f"{field} is no fact"
        case "string_pattern_mismatch":
            what = f"{field} cannot be {quoted(first['input'])}"
        case _:
            what = f"{field} cannot be {quoted(first['input'])} ({first['msg']})"
    more = f", and {error.error_count() - 1} more" if error.error_count() > 1 else ""
    return f"its answer was rejected: {what}{more}"
