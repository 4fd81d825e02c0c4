"""Firmware of the profile, by server model: what is older, and its update in waves with drains."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from appliance.actions.hosts import maintenance
from appliance.actions.hosts.reboot import reboot_host
from appliance.actions.hosts.waves import Work, Worked, in_waves, require_possible, waves
from appliance.actions.sites.opening import Target, open_session
from appliance.adapters.redfish import Controller, Patience
from appliance.bmc import firmware
from appliance.bmc.firmware import FirmwareChange, Watching, is_new_enough
from appliance.engine.look.controllers import controllers
from appliance.engine.look.gather import each
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.models.events import Message, Observer
from appliance.models.profile import Profile
from appliance.models.site import Host, Role

WHY = "firmware update"
TASK = "firmware_task"
"""Kind of journal entries: a task that a BMC was given, and its end. A run after a power cut continues to watch it."""
STARTED, ENDED = "started", "ended"
NO_FIRMWARE = "add firmware and images to servers in the profile (docs/discover.md)"


@dataclass(frozen=True)
class FirmwareOfHost:
    """One machine: its components that are older than in the profile, or why that is unknown."""

    host: str
    model: str = ""
    changes: tuple[FirmwareChange, ...] = ()
    error: ApplianceError | None = None

    @property
    def is_good(self) -> bool:
        """Whether everything is as new as in the profile."""
        return not self.changes and self.error is None


def status(
    target: Target, observer: Observer, hosts: Sequence[str] = ()
) -> tuple[FirmwareOfHost, ...]:
    """What is older on these machines (none: on all with a BMC); changes nothing."""
    with open_session(target, "bios", observer, only_looks=True, by_ssh=False) as session:
        return _seen(session, hosts)


def update(
    target: Target,
    observer: Observer,
    hosts: Sequence[str],
    consent: Callable[[Sequence[FirmwareOfHost], Sequence[Sequence[Host]]], bool],
    minutes: float,
    *,
    at_once: int = 1,
    evict: bool = False,
    watching: Watching | None = None,
    patience: Patience | None = None,
) -> tuple[tuple[Worked, ...], tuple[str, ...]] | None:
    """Update these machines in waves: what became of each, and those that were not reached; None if declined.

    Raises ApplianceError before any change if a machine cannot be compared, has no image, does not answer, or is drained
    by another operator. A run after an interrupted one watches the task that was recorded.
    """
    with open_session(target, "bios", observer) as session:
        found = _seen(session, hosts)
        for one in found:
            if one.error:
                raise ApplianceError(one.error.message, one.error.hint, one.host)
        _require_images(found)
        left = _left_drained(session, [one.host for one in found])
        names = tuple(one.host for one in found if one.changes or one.host in left)
        if not names:
            return (), ()
        order = waves(session.site, names, at_once)
        require_possible(session, order, force=False)
    if not consent(found, order):
        return None

    def act(session: Session, name: str) -> ApplianceError | None:
        try:
            _bring(session, name, watching or Watching(), patience or Patience())
        except ApplianceError as error:
            return error
        return None

    work = Work("bios update", WHY, "updated", act, frozenset({WHY}))
    return in_waves(target, observer, order, work, minutes, evict=evict)


def _seen(session: Session, hosts: Sequence[str]) -> tuple[FirmwareOfHost, ...]:
    known = controllers(session, hosts)
    found = each(known, lambda name: _look(session.profile_of(name), known[name]))
    return tuple(one for _, one in found)


def _look(profile: Profile, known: Controller, patience: Patience | None = None) -> FirmwareOfHost:
    try:
        seen = firmware.look(known, patience)
        server = profile.server(seen.model)
        if server is None or not server.firmware:
            model = seen.model or "a model that the BMC does not report"
            raise ApplianceError(
                f"profile {profile.name} lists no firmware of {model}", NO_FIRMWARE
            )
        return FirmwareOfHost(known.host, seen.model, firmware.older(seen, server))
    except ApplianceError as error:
        return FirmwareOfHost(known.host, error=error)


def _require_images(found: Sequence[FirmwareOfHost]) -> None:
    for one in found:
        for change in one.changes:
            if not change.image:
                raise ConfigError(
                    f"{one.host}: the profile gives no image of {change.component.name} {change.wanted}",
                    f"add it to images of {one.model} in servers (docs/discover.md)",
                )


def _left_drained(session: Session, names: Sequence[str]) -> frozenset[str]:
    """GPU hosts that an earlier, interrupted run of this work left drained."""
    gpu = [h for h in session.site.hosts if h.name in names and Role.GPU in h.roles]
    seen = maintenance.looked(session, gpu)
    return frozenset(s.host for s in seen if s.maintenance and s.maintenance.why == WHY)


def _bring(session: Session, name: str, watching: Watching, patience: Patience) -> None:
    """Update one machine, component by component. Raises ApplianceError."""
    known = controllers(session, (name,))[name]
    _continue(session, known, watching, patience)
    seen = _look(session.profile_of(name), known, patience)
    if seen.error:
        raise seen.error
    staged = [
        change
        for change in seen.changes
        if not _ordered(session, known, change, watching, patience)
    ]
    if not staged:
        return
    # BIOS and adapters take a staged image at the next start.
    if error := reboot_host(session, name):
        raise error
    for change in staged:
        version = firmware.await_version(
            known, change, patience, watching, session.cancelled.is_set
        )
        if not is_new_enough(version, change.wanted):
            raise ApplianceError(
                f"{change.component.name} is {version or 'not reported'} after its update and a restart, expected {change.wanted}",
                f"switch the machine off and on, then compare: appliance bios firmware {name}",
            )


def _ordered(
    session: Session,
    known: Controller,
    change: FirmwareChange,
    watching: Watching,
    patience: Patience,
) -> bool:
    """Orders one update and watches it; whether the new version is in use without a restart. Raises ApplianceError."""
    task = firmware.start(known, change, patience)
    about = {"component": change.component.name, "wanted": change.wanted, "task": task}
    session.journal.append(session.run, TASK, host=known.host, state=STARTED, **about)
    session.tell(Message(text=f"updates {change}", host=known.host))
    is_known = _watched(session, known, about, watching, patience)
    version = firmware.await_version(known, change, patience, watching, session.cancelled.is_set)
    if not is_known and not is_new_enough(version, change.wanted):
        raise ApplianceError(
            f"its BMC lost task {task}: {change.component.name} is {version or 'not reported'}, expected {change.wanted}",
            "look at the BMC's event log, then run the command again",
        )
    return is_new_enough(version, change.wanted)


def _continue(session: Session, known: Controller, watching: Watching, patience: Patience) -> None:
    """Watches a task that an interrupted run left. Raises ApplianceError if it failed."""
    last = session.journal.last(TASK, host=known.host)
    if last is None or last.data["state"] == ENDED:
        return
    about = {name: str(last.data[name]) for name in ("component", "wanted", "task")}
    session.tell(Message(text=f"continues the update of {about['component']}", host=known.host))
    _watched(session, known, about, watching, patience)


def _watched(
    session: Session,
    known: Controller,
    about: dict[str, str],
    watching: Watching,
    patience: Patience,
) -> bool:
    """``firmware.watch``; the end of a task is recorded, except where it still runs."""
    stop = session.cancelled.is_set
    try:
        is_known = firmware.watch(known, about["task"], patience, watching, stop)
    except firmware.TaskFailed as error:
        session.journal.append(session.run, TASK, host=known.host, state=ENDED, **about)
        raise ApplianceError(f"{about['component']}: {error.message}", error.hint) from error
    session.journal.append(session.run, TASK, host=known.host, state=ENDED, **about)
    return is_known
