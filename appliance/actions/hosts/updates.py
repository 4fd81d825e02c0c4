"""Update the distribution's packages in waves, and undo the last update of a host."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.actions.hosts import maintenance
from appliance.actions.hosts.reboot import reboot_host
from appliance.actions.hosts.waves import Work, Worked, in_waves, require_possible, waves
from appliance.actions.sites.opening import Target, open_session
from appliance.adapters.json_answers import parsed
from appliance.engine.host_names import named_hosts
from appliance.engine.look.gather import DEFECT, PYTHON, each
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.models.events import Message, Observer
from appliance.models.site import Host, Role
from appliance.stages.base.variables import HELD_PACKAGES
from appliance.text import one_line, shortened
from appliance.updates import on_host

PLAN_S, APPLY_S = 300.0, 3600.0
"""Seconds for an answer: a slow mirror; hundreds of packages."""
LONGEST = 2 << 20
"""Bytes of an answer: 5000 packages with names and versions."""
UNIT = "appliance-update"
KERNEL = "^linux-"
WHY = "update of packages"
"""Reason of the drain, of an update and of the way back: either ends the other's."""
Waves = tuple[tuple[Host, ...], ...]


@dataclass(frozen=True)
class Update:
    """One package of a host. ``old``: "" for a package that is new there; ``security``: from a security archive."""

    name: str
    old: str
    new: str
    security: bool


@dataclass(frozen=True)
class HostUpdates:
    """What would change on a host. ``held``: packages of stages, which stay; ``error``: why it is unknown."""

    host: str
    updates: tuple[Update, ...] = ()
    held: tuple[str, ...] = ()
    can_go_back: bool = False
    error: ApplianceError | None = None


@dataclass(frozen=True)
class Choice:
    """Which hosts and packages. ``words``: hosts as users type them, none means all; ``kernel``: kernels too."""

    words: tuple[str, ...] = ()
    security: bool = False
    kernel: bool = False


def plan(target: Target, choice: Choice, observer: Observer) -> tuple[str, tuple[HostUpdates, ...]]:
    """The site's name, and what an update would change on each host. Hosts read their mirrors' lists again."""
    with open_session(target, "update", observer) as session:
        return session.site.name, _planned(session, _names(session, choice.words), choice)


def apply(
    target: Target,
    choice: Choice,
    observer: Observer,
    consent: Callable[[Sequence[HostUpdates], Waves], bool],
    minutes: float,
    *,
    canary: str = "",
    at_once: int = 1,
    evict: bool = False,
    reboots: bool = True,
) -> tuple[tuple[Worked, ...], tuple[str, ...]] | None:
    """Update hosts in waves, the canary first: what became of each, and the hosts that were not reached; None if declined.

    Raises ApplianceError before any change if a host cannot be planned, does not answer, or is drained by another operator.
    """
    with open_session(target, "update", observer) as session:
        found = _planned(session, _names(session, choice.words), choice)
        for one in found:
            if one.error:
                raise one.error
        left = _left_drained(session, [one.host for one in found])
        there = {one.host: one.updates for one in found if one.updates or one.host in left}
        if canary and canary not in there:
            raise ConfigError(
                f"--canary: {canary} has nothing to update, or is not chosen",
                f"name one of {', '.join(there) or 'the hosts with updates'}",
            )
        if not there:
            return (), ()
        one_by_one = waves(session.site, tuple(there), 1)
        order = waves(session.site, tuple(there), at_once, canary or one_by_one[0][0].name)
        require_possible(session, order, force=False)
    if not consent(found, order):
        return None
    work = Work(
        "update apply",
        WHY,
        "updated",
        lambda session, name: _update(session, name, there[name], reboots=reboots),
        frozenset({WHY}),
    )
    return in_waves(target, observer, order, work, minutes, evict=evict)


def back(
    target: Target,
    words: Sequence[str],
    observer: Observer,
    consent: Callable[[Waves], bool],
    minutes: float,
    *,
    evict: bool = False,
    reboots: bool = True,
) -> tuple[tuple[Worked, ...], tuple[str, ...]] | None:
    """Undo the last update of these hosts, one by one; None if declined.

    A host that the update left drained is returned. Raises ApplianceError before any change.
    """
    with open_session(target, "update", observer) as session:
        names = _names(session, words)
        asked = dict(each(names, lambda name: _asked(session, name, {"do": "records"}, PLAN_S)))
        for name, said in asked.items():
            if isinstance(said, ApplianceError):
                raise said
            if said.get("back") is not True:
                raise ConfigError(
                    f"{name} has no update that can be undone",
                    f"if it is still drained: appliance node return {name}",
                    name,
                )
        order = waves(session.site, names, 1)
        require_possible(session, order, force=False)
    if not consent(order):
        return None
    work = Work(
        "update back",
        WHY,
        "changed",
        lambda session, name: _changed(
            session, name, {"do": "back"}, "has its old packages", reboots=reboots
        ),
        frozenset({WHY}),
    )
    return in_waves(target, observer, order, work, minutes, evict=evict)


def _left_drained(session: Session, names: Sequence[str]) -> set[str]:
    """Hosts that an update which was killed or failed left drained: they are judged and returned now."""
    gpu = [host for host in session.site.hosts if host.name in names and Role.GPU in host.roles]
    seen = maintenance.looked(session, gpu)
    return {one.host for one in seen if one.maintenance and one.maintenance.why == WHY}


def _names(session: Session, words: Sequence[str]) -> tuple[str, ...]:
    every = [host.name for host in session.site.hosts]
    return named_hosts(words, every, flag="--hosts") if words else tuple(every)


def _planned(session: Session, names: Sequence[str], choice: Choice) -> tuple[HostUpdates, ...]:
    request = {
        "do": "plan",
        "held": [p for p in HELD_PACKAGES if not (choice.kernel and p.startswith(KERNEL))],
        "security": choice.security,
    }

    def ask(name: str) -> HostUpdates:
        said = _asked(session, name, request, PLAN_S)
        return said_updates(name, said)

    return tuple(found for _, found in each(names, ask))


def said_updates(host: str, said: Mapping[str, object] | ApplianceError) -> HostUpdates:
    """The answer of a host, which it could have made up: only names and versions of packages pass."""
    if isinstance(said, ApplianceError):
        return HostUpdates(host, error=said)
    try:
        listed = said["updates"]
        if not isinstance(listed, list) or len(listed) > on_host.MOST:
            raise ValueError
        updates = tuple(map(_update_of, listed))
        held = said["held"]
        if not isinstance(held, list) or len(held) > on_host.MOST:
            raise ValueError
        names = tuple(_matching(on_host.NAME, name) for name in held)
    except (KeyError, TypeError, ValueError):
        return HostUpdates(
            host, error=ApplianceError("its list of updates is invalid", DEFECT, host)
        )
    return HostUpdates(host, updates, names, said.get("back") is True)


def _update_of(one: Mapping[str, object]) -> Update:
    old = one["old"]
    return Update(
        _matching(on_host.NAME, one["name"]),
        _matching(on_host.VERSION, old) if old else "",
        _matching(on_host.VERSION, one["new"]),
        one["security"] is True,
    )


def _matching(pattern: re.Pattern[str], value: object) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError
    return value


def _update(
    session: Session, name: str, updates: Sequence[Update], *, reboots: bool
) -> ApplianceError | None:
    if not updates:
        return _changed(session, name, {"do": "settle"}, "is up to date", reboots=reboots)
    wanted = [{"name": one.name, "old": one.old, "new": one.new} for one in updates]
    request = {"do": "apply", "run": session.run, "updates": wanted}
    return _changed(session, name, request, "is updated", reboots=reboots)


def _changed(
    session: Session, name: str, request: Mapping[str, object], done: str, *, reboots: bool
) -> ApplianceError | None:
    """Change the packages of a host, and reboot it where that is needed; why it failed, or None."""
    said = _asked(session, name, request, APPLY_S)
    if isinstance(said, ApplianceError):
        return said
    count = said.get("changed")
    if not isinstance(count, int) or not 0 <= count <= on_host.MOST:
        return ApplianceError("its number of changed packages is invalid", DEFECT, name)
    session.journal.append(session.run, "updated", host=name, packages=count)
    why = said.get("reboot")
    reasons = (
        [shortened(one_line(str(one)), 200) for one in why[:3]] if isinstance(why, list) else []
    )
    if not reasons:
        session.tell(Message(text=f"{done}; no reboot is needed", host=name))
        return None
    if not reboots:
        text = f"{done}; a reboot is needed ({'; '.join(reasons)}): appliance node reboot {name}"
        session.tell(Message(text=text, level="warning", host=name))
        return None
    session.tell(Message(text=f"{done}; a reboot is needed: {'; '.join(reasons)}", host=name))
    return reboot_host(session, name)


def _asked(
    session: Session, host: str, request: Mapping[str, object], seconds: float
) -> Mapping[str, object] | ApplianceError:
    """The answer of a host. A change runs as a unit of its own: it ends well if the connection is lost."""
    argv = [PYTHON, "-ISB", "-", json.dumps(request)]
    if request["do"] in {"apply", "settle", "back"}:
        argv = ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", f"--unit={UNIT}", *argv]
    try:
        done = session.remote.run(
            host, argv, input=Path(on_host.__file__).read_bytes(), timeout=seconds
        )
    except ApplianceError as error:
        return error
    try:
        said = parsed(done.stdout[:LONGEST])
    except ValueError:
        said = None
    if not isinstance(said, dict):
        last = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
        text = f"the update did not run: {shortened(one_line(session.redact(last)), 200)}"
        return ApplianceError(text, f"if another update runs there, wait for {UNIT}.service", host)
    if problem := said.get("error"):
        hint = str(said.get("hint") or "")
        hint = hint if hint in on_host.HINTS else ""
        return ApplianceError(shortened(one_line(session.redact(str(problem))), 300), hint, host)
    return said
