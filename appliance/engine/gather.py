"""Facts of all hosts: one round trip each, side by side; a host that does not answer is a value."""

import gc
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import ValidationError

from appliance.adapters.answers import parsed
from appliance.adapters.remote import Reachable, Remote
from appliance.checks.check import View
from appliance.engine.answer_bounds import LONGEST, LONGEST_BESIDE, SMALL, excess
from appliance.engine.threads import threads
from appliance.errors import ApplianceError, OutOfFiles
from appliance.models.facts import HostFacts
from appliance.probe.bundle import command, compiled, payload, program, sent
from appliance.stages.kubernetes.facts import ExternalCluster
from appliance.text import one_line, quoted, shortened

T = TypeVar("T")

PYTHON = "/usr/bin/python3"
DEADLINE = 45.0
DEEP_DEADLINE = 600.0
"""For who reads every file."""
CONNECTS_S = 0.1
"""For so long connections need this machine's processor, and the hosts wait for it; then it waits for the hosts."""
MANY = 32
"""Hosts, beyond which a round leaves each as soon as it has answered: 250 idle connections take a third of a processor."""
FEW = 8
"""Hosts, up to which each is sent bytecode too: 200 KB more, and 50 ms less of its processor. Many would wait for that longer than they save."""
LONGEST_FIELD = 80
DEFECT = (
    "look at the host: a sound one answers no such thing; if it is sound, report this as a defect"
)


@dataclass(frozen=True)
class Unanswered:
    """A host that gave no facts: why, and what to do. ``away``: it cannot be reached at all.

    ``cause`` and ``fix`` are one line each, whatever the host said.
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
    """One round of questions: facts by host, the hosts that gave none, and an external cluster."""

    facts: Mapping[str, HostFacts]
    unanswered: Mapping[str, Unanswered]
    external: ExternalCluster | None = None
    views: list[View] = field(default_factory=list, init=False, compare=False, repr=False)
    """What checks may look at after it, once somebody asked."""


def gather(
    remote: Reachable,
    requests: Mapping[str, Mapping[str, object]],
    meanwhile: Callable[[], object] = lambda: None,
) -> Round:
    """Asks each host its own request (see appliance.probe for the keys). ``meanwhile``: what needs no answer, done while hosts think.

    Raises OutOfFiles where this machine cannot ask all of them: a host it did not ask is not a host that is silent.
    """
    facts: dict[str, HostFacts] = {}
    unanswered: dict[str, Unanswered] = {}

    archive = compiled() if len(requests) <= FEW else program()
    # Made once for all hosts; each thread would make its own.
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
        # They stay to the end, and hold nothing that holds them: the collector need not look at them again.
        gc.freeze()
    return Round(facts, unanswered)


def each(
    hosts: Iterable[str],
    work: Callable[[str], T],
    meanwhile: Callable[[], object] = lambda: None,
) -> list[tuple[str, T]]:
    """Does the work for every host side by side; results in the order of ``hosts``."""
    names = list(hosts)
    if not names:
        return []
    with threads(min(32, len(names))) as pool:
        working = [pool.submit(work, name) for name in names]
        wait(working, CONNECTS_S, FIRST_COMPLETED)
        meanwhile()
        return [(name, done.result()) for name, done in zip(names, working, strict=True)]


def ask(remote: Remote, host: str, request: Mapping[str, object]) -> HostFacts | Unanswered:
    """Asks one host."""
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
        missing = "not found" in said or "No such file" in said
        fix = f"install Python 3.8 or newer as {PYTHON}" if missing else "report this as a defect"
        return Unanswered(host, f"the probe did not run: {said}", fix)
    most = LONGEST_BESIDE if "posture" in _areas(request) else LONGEST
    if len(done.stdout) > most:
        said = f"its answer is refused: it is longer than {most >> 20} MiB"
        return Unanswered(host, said, DEFECT)
    try:
        answer = parsed(done.stdout)
    except ValueError as error:
        return Unanswered(host, f"the probe's answer cannot be read: {error}", DEFECT)
    if not isinstance(answer, dict):
        return Unanswered(host, "the probe's answer cannot be read: it has no fields", DEFECT)
    if len(done.stdout) > SMALL and (too_much := excess(answer)):
        return Unanswered(host, f"its answer is refused: {too_much}", DEFECT)
    if "error" in answer:
        return Unanswered(host, f"the probe did not run: {answer['error']}", "")
    try:
        # The probe knows its host by the system's name, which a stage may still have to set.
        return HostFacts.model_validate({**answer, "host": host})
    except ValidationError as error:
        return Unanswered(host, _refused(error), DEFECT)


def _areas(request: Mapping[str, object]) -> tuple[object, ...]:
    areas = request.get("areas")
    return tuple(areas) if isinstance(areas, (list, tuple)) else ()


def _refused(error: ValidationError) -> str:
    """The first field that is no fact."""
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
    return f"its answer is refused: {what}{more}"
