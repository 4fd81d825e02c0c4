"""A lease on the hosts that a run changes: a note on each host that other control machines honour, which share no lock with this one."""

import hashlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from appliance.adapters.json_answers import parsed
from appliance.engine.look.gather import PYTHON, each
from appliance.engine.session import Session
from appliance.engine.user import operator
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
"""Time that a host stays leased after the last sign of life of a killed run, for other control machines."""
RENEWED_S = 300.0
TAKE_S, GIVE_BACK_S = 20.0, 10.0
AT_ONCE_S, MOST_AT_ONCE = 1.0, 32
"""Seconds that an interrupted run waits for its hosts, and for how many of them."""
LONGEST = 16 << 10
"""Bytes of an answer; a note has at most 4096."""
SHOWN = 64
FEW = 3
"""Number of holders that are listed one by one."""

MayTakeOver = Callable[[str], bool]
"""Asks for consent with a sentence that names the holder and the hosts."""


class LeaseHeld(ConfigError):
    """Another run changes a host that this one would change; nothing was changed."""


@dataclass(frozen=True)
class Holder:
    """The holder of a host as that host reports it, cleaned and truncated."""

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
    """Return the hosts that the plan changes or may change, if a stage learns from one that runs; in the site's order."""
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
    """Lease the hosts for the block. Raises LeaseHeld if another run holds one of them; then none is leased.

    A host that cannot store a note, or does not answer, is used without one: its stages report the reason.
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
    """As ``leased``; a run that another one blocks is over, and the journal records that."""
    try:
        with leased(session, hosts, may_take_over):
            yield
    except LeaseHeld as error:
        session.journal.append(session.run, "run_finished", exit=error.exit_code)
        raise


def all_hosts(session: Session) -> tuple[str, ...]:
    """For measurements: a change by another run would spoil them."""
    return tuple(host.name for host in session.site.hosts)


def control_hosts(session: Session) -> tuple[str, ...]:
    """For changes of the cluster, or of hosts that cannot store a note: a deployment changes the cluster under these notes."""
    return tuple(host.name for host in session.site.with_role(Role.CONTROL))


def _take_all(
    session: Session, hosts: Sequence[str], held: _Held, may_take_over: MayTakeOver
) -> None:
    found = _taken(session, hosts, held, over=False)
    if found and may_take_over(_holders_text(found)):
        # The program never refuses that, so such a host lies; it must not block the others.
        for host in _taken(session, list(found), held, over=True):
            _warn(
                session,
                host,
                "its lease was taken over, but it still reports another run as the holder",
            )
    elif found:
        raise _refusal(found)


def require_free(session: Session, hosts: Sequence[str]) -> None:
    """Raises LeaseHeld if another run changes one of them; for verbs that power hosts off, which would leave a note there."""

    def look(host: str) -> Holder | None:
        told = _asked(session, host, "look", TAKE_S)
        return _holder(told["held"]) if not isinstance(told, str) and "held" in told else None

    if found := {host: holder for host, holder in each(hosts, look) if holder}:
        raise _refusal(found)


def report_held_leases(session: Session, facts: Mapping[str, HostFacts]) -> None:
    """Name hosts that another checkout changes right now: their results may change with it."""
    if said := held_leases(session, facts):
        session.tell(Message(text=said, level="warning"))


def held_leases(session: Session, facts: Mapping[str, HostFacts]) -> str:
    """Which hosts another checkout changes right now, and who does: one line for people, "" if none."""
    held = {host: f.lease for host, f in facts.items() if f.lease}
    mine = _owner(session.runs) if held else ""
    found = {h: _holder(note.model_dump()) for h, note in held.items() if note.owner != mine}
    return _holders_text(found)


def _refusal(found: Mapping[str, Holder]) -> LeaseHeld:
    return LeaseHeld(
        _holders_text(found),
        "wait for that run, or exclude these hosts; if that run is dead, wait 15 minutes for its lease to expire, or take over: appliance deploy --take-over",
    )


def _taken(session: Session, hosts: Sequence[str], held: _Held, *, over: bool) -> dict[str, Holder]:
    """Lease the hosts concurrently; return the holders of those that refused."""

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
            _warn(session, host, "its answer is invalid")
        return None

    return {host: holder for host, holder in each(hosts, take) if holder}


def _warn(session: Session, host: str, why: str) -> None:
    if why:
        text = f"other control machines cannot see that this run changes the host: {why}"
        session.tell(Message(text=text, level="warning", host=host))


def _asked(
    session: Session, host: str, do: str, seconds: float, *, over: bool = False
) -> Mapping[str, object] | str:
    """Return the host's answer, or why there is none; "" if it is unreachable."""
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
        "who": operator(),
        "run": session.run,
        "verb": session.verb,
        "seconds": SECONDS,
    }


def _owner(runs: Path) -> str:
    """The identity of this checkout on this machine: its runs share a lock, so its own note belongs to a run that is over."""
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


def _holders_text(found: Mapping[str, Holder]) -> str:
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
                text = f"was taken over by {_holder(lost)}; this run continues"
                session.tell(Message(text=text, level="warning", host=host))


def _give_back(session: Session, host: str) -> None:
    # A note that is not removed expires on the host, and this checkout's next run takes it over.
    with suppress(ApplianceError):
        _asked(session, host, "release", GIVE_BACK_S)


def _give_back_at_once(session: Session, hosts: Sequence[str]) -> None:
    """As many as answer in a moment: a frozen host must not delay the end."""
    working = [
        threading.Thread(target=_give_back, args=(session, host), daemon=True) for host in hosts
    ]
    end = time.monotonic() + AT_ONCE_S
    for one in working[:MOST_AT_ONCE]:
        one.start()
    for one in working[:MOST_AT_ONCE]:
        one.join(max(0.0, end - time.monotonic()))
