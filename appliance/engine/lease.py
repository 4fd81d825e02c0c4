"""Hosts that a run changes are its own meanwhile: a note on each host says so to control machines that share no lock with this one."""

import hashlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from appliance.adapters.answers import parsed
from appliance.engine.gather import PYTHON, each
from appliance.engine.session import Session
from appliance.engine.user import user_name
from appliance.errors import ApplianceError, ConfigError, OutOfFiles
from appliance.models.events import Message
from appliance.models.facts import HostFacts
from appliance.models.plan import Action, Plan
from appliance.models.site import Role
from appliance.probe import lease as on_host
from appliance.stages import OF_CLUSTER
from appliance.stages.stage import Stage
from appliance.text import one_line, shortened

SECONDS = 900.0
"""So long a host counts as held after the last sign of life of a run that was killed, for control machines other than its own."""
RENEWED_S = 300.0
TAKE_S, GIVE_BACK_S = 20.0, 10.0
AT_ONCE_S, MOST_AT_ONCE = 1.0, 32
"""So long a run that is to stop at once waits for its hosts, and for so many of them."""
LONGEST = 16 << 10
"""Bytes of an answer; a note has 4096."""
SHOWN = 64
FEW = 3
"""Holders that are told one by one."""

MayTakeOver = Callable[[str], bool]
"""Is asked with a sentence that says by whom which hosts are held."""


class LeaseHeld(ConfigError):
    """Another run changes a host that this one would change; nothing was changed."""


@dataclass(frozen=True)
class Holder:
    """Who holds a host, in words of that host, cleaned and cut."""

    who: str
    run: str
    verb: str
    since: str

    def __str__(self) -> str:
        return f"{self.who} since {self.since} (run {self.run}, {self.verb})"


@dataclass
class _Held:
    hosts: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)


def hosts_changed(session: Session, plan: Plan, stages: Sequence[Stage]) -> tuple[str, ...]:
    """Those the plan changes, and those it may come to change, where a stage learns from one that runs; in the site's order."""
    running = {c.stage for c in plan.pending()}
    learning = {s.name for s in stages if running.intersection(s.facts_from)}
    names = {
        c.host
        for c in plan.cells
        if c.action.changes or (c.stage in learning and c.action is Action.SKIP)
    }
    cluster = bool(running.intersection(OF_CLUSTER))
    return tuple(
        h.name
        for h in session.site.hosts
        if h.name in names or (cluster and Role.CONTROL in h.roles)
    )


@contextmanager
def leased(
    session: Session, hosts: Sequence[str], may_take_over: MayTakeOver = lambda _: False
) -> Iterator[None]:
    """Holds the hosts for the block. Raises LeaseHeld where another run has one of them; then none is held.

    A host that cannot keep a note, or does not answer, is worked on without one: its stages say what is the matter.
    """
    held = _Held()
    try:
        _take_all(session, hosts, held, may_take_over)
        if held.hosts:
            threading.Thread(target=_renew, args=(session, held), daemon=True).start()
        yield
    except KeyboardInterrupt:
        held.over.set()
        _give_back_at_once(session, held.hosts)
        raise
    finally:
        if not held.over.is_set():
            held.over.set()
            each(held.hosts, partial(_give_back, session))


@contextmanager
def leased_by_run(
    session: Session, hosts: Sequence[str], may_take_over: MayTakeOver = lambda _: False
) -> Iterator[None]:
    """As ``leased``; a run that another one keeps from its hosts is over, and the journal says so."""
    try:
        with leased(session, hosts, may_take_over):
            yield
    except LeaseHeld as error:
        session.journal.append(session.run, "run_finished", exit=error.exit_code)
        raise


def all_hosts(session: Session) -> tuple[str, ...]:
    """For what is measured: whoever changes one of them meanwhile spoils it."""
    return tuple(host.name for host in session.site.hosts)


def control_hosts(session: Session) -> tuple[str, ...]:
    """For what changes the cluster, or hosts that cannot keep a note: a deployment changes the cluster under these notes, too."""
    return tuple(host.name for host in session.site.with_role(Role.CONTROL))


def _take_all(
    session: Session, hosts: Sequence[str], held: _Held, may_take_over: MayTakeOver
) -> None:
    found = _taken(session, hosts, held, over=False)
    if found and may_take_over(_told(found)):
        # The program never refuses that: a host that does says so by itself, and keeps nobody from the others.
        for host in _taken(session, list(found), held, over=True):
            _warn(session, host, "it was taken over, and says that another run has it all the same")
    elif found:
        raise _refusal(found)


def require_free(session: Session, hosts: Sequence[str]) -> None:
    """Raises LeaseHeld where another run changes one of them; for verbs that turn hosts off, which would leave a note there."""

    def look(host: str) -> Holder | None:
        told = _asked(session, host, "look", TAKE_S)
        return _holder(told["held"]) if not isinstance(told, str) and "held" in told else None

    if found := {host: holder for host, holder in each(hosts, look) if holder}:
        raise _refusal(found)


def tell_held(session: Session, facts: Mapping[str, HostFacts]) -> None:
    """Says which hosts another checkout changes right now: what is seen of them may change with it."""
    held = {host: f.lease for host, f in facts.items() if f.lease}
    mine = _owner(session.runs) if held else ""
    found = {h: _holder(note.model_dump()) for h, note in held.items() if note.owner != mine}
    if found:
        session.tell(Message(text=_told(found), level="warning"))


def _refusal(found: Mapping[str, Holder]) -> LeaseHeld:
    return LeaseHeld(
        _told(found),
        "wait for that run, or leave these hosts out; where it is dead, its hold ends within 15 minutes, or take them over: appliance deploy --take-over",
    )


def _taken(session: Session, hosts: Sequence[str], held: _Held, *, over: bool) -> dict[str, Holder]:
    """Takes the hosts side by side; who holds those that were refused."""

    def take(host: str) -> Holder | None:
        told = _asked(session, host, "take", TAKE_S, over=over)
        if isinstance(told, str):
            _warn(session, host, told)
        elif "held" in told:
            return _holder(told["held"])
        elif told.get("taken") is True:
            held.hosts.append(host)
            if before := told.get("before"):
                text = f"takes over from {_holder(before)}"
                session.tell(Message(text=text, level="warning", host=host))
        else:
            _warn(session, host, "its answer makes no sense")
        return None

    return {host: holder for host, holder in each(hosts, take) if holder}


def _warn(session: Session, host: str, why: str) -> None:
    if why:
        text = f"cannot tell other control machines that it is being changed: {why}"
        session.tell(Message(text=text, level="warning", host=host))


def _asked(
    session: Session, host: str, do: str, seconds: float, *, over: bool = False
) -> Mapping[str, object] | str:
    """The host's answer; in place of one why there is none, "" where it cannot be reached at all."""
    request = {"do": do, "over": over, "note": _note(session)}
    argv = [PYTHON, "-ISB", "-", json.dumps(request)]
    source = Path(on_host.__file__).read_bytes()
    try:
        done = session.remote.run(host, argv, input=source, timeout=seconds)
    except OutOfFiles:
        raise
    except ApplianceError:
        return ""
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
        return shortened(session.redact(one_line(said)))
    try:
        told = parsed(done.stdout[:LONGEST])
    except ValueError:
        told = None
    return told if isinstance(told, dict) else "its answer cannot be read"


def _note(session: Session) -> dict[str, object]:
    return {
        "version": 1,
        "owner": _owner(session.runs),
        "who": f"{os.environ.get('SUDO_USER') or user_name()}@{socket.gethostname()}",
        "run": session.run,
        "verb": session.verb,
        "seconds": SECONDS,
    }


def _owner(runs: Path) -> str:
    """This checkout on this machine: its runs share a lock, so that a note of its own is of a run that is over."""
    machine = inode = ""
    place = runs.resolve()
    with suppress(OSError):
        machine = Path("/etc/machine-id").read_text(encoding="ascii", errors="replace").strip()
    with suppress(OSError):
        inode = str(place.stat().st_ino)
    words = (machine, socket.gethostname(), str(place), inode)
    return hashlib.sha256("\0".join(words).encode(errors="replace")).hexdigest()[:32]


def _holder(note: object) -> Holder:
    told = note if isinstance(note, dict) else {}

    def word(key: str) -> str:
        value = told.get(key)
        return shortened(one_line(value), SHOWN) if isinstance(value, str) and value else "?"

    return Holder(word("who"), word("run"), word("verb"), word("since"))


def _told(found: Mapping[str, Holder]) -> str:
    by_holder: dict[Holder, list[str]] = {}
    for host, holder in found.items():
        by_holder.setdefault(holder, []).append(host)
    told = [
        f"{', '.join(hosts[:FEW])}{f' and {len(hosts) - FEW} more' if len(hosts) > FEW else ''}"
        f" {'are' if len(hosts) > 1 else 'is'} being changed by {holder}"
        for holder, hosts in by_holder.items()
    ]
    more = f"; and {len(told) - FEW} more runs" if len(told) > FEW else ""
    return "; ".join(told[:FEW]) + more


def _renew(session: Session, held: _Held) -> None:
    while not held.over.wait(RENEWED_S):
        for host, told in each(held.hosts, lambda h: _asked(session, h, "renew", TAKE_S)):
            lost = told.get("lost") if isinstance(told, dict) else None
            if lost and not held.over.is_set():
                held.hosts.remove(host)
                text = f"was taken over by {_holder(lost)}; this run goes on"
                session.tell(Message(text=text, level="warning", host=host))


def _give_back(session: Session, host: str) -> None:
    # What does not come back ages on the host, and this checkout's next run takes it as its own.
    with suppress(ApplianceError):
        _asked(session, host, "release", GIVE_BACK_S)


def _give_back_at_once(session: Session, hosts: Sequence[str]) -> None:
    """As many as answer in a moment: a host that is frozen keeps nobody from leaving."""
    working = [
        threading.Thread(target=_give_back, args=(session, host), daemon=True) for host in hosts
    ]
    end = time.monotonic() + AT_ONCE_S
    for one in working[:MOST_AT_ONCE]:
        one.start()
    for one in working[:MOST_AT_ONCE]:
        one.join(max(0.0, end - time.monotonic()))
