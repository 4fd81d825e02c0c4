"""BIOS settings of the profile, by server model: what differs, and setting it; a machine that carries work is never restarted."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from appliance.actions.sites.interrupts import interruptible
from appliance.actions.sites.opening import Target, open_session
from appliance.adapters.redfish import Controller, Patience
from appliance.bmc import bios
from appliance.bmc.bios import Setting, SettingChange, SettingsRead, differing
from appliance.bmc.power import OFF, Order
from appliance.engine.look.controllers import controllers
from appliance.engine.look.gather import each
from appliance.engine.run.lease import require_free
from appliance.engine.run.machines_in_use import REMEDY, machines_in_use
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.models.bmc import BiosValue
from appliance.models.events import Observer
from appliance.models.profile import Profile

NONE_NAMED = "add them to the profile, by model: servers (docs/discover.md)"


@dataclass(frozen=True)
class Compared:
    """One machine: the number of settings in the profile for its model, those that differ, or why they are unknown."""

    host: str
    model: str = ""
    power: str = ""
    wanted: Mapping[str, BiosValue] | None = None
    changes: tuple[SettingChange, ...] = ()
    error: ApplianceError | None = None

    @property
    def is_good(self) -> bool:
        """All settings match the profile; a model that the profile does not list is unknown, not good."""
        return not (self.error or self.changes) and bool(self.wanted)


def settings(target: Target, observer: Observer, host: str) -> SettingsRead:
    """All settings of one machine. Raises ApplianceError."""
    with open_session(target, "bios", observer, only_looks=True, by_ssh=False) as session:
        known = controllers(session, (host,))
        if len(known) != 1:
            raise ConfigError(f"{host} matches several hosts", "name one of them")
        return bios.look(known[host])


def status(target: Target, observer: Observer, hosts: tuple[str, ...] = ()) -> list[Compared]:
    """What differs on these machines (none: on all with a BMC); changes nothing."""
    with open_session(target, "bios", observer, only_looks=True, by_ssh=False) as session:
        _require(session)
        return _compared(session, controllers(session, hosts))


def apply(
    target: Target,
    hosts: tuple[str, ...],
    observer: Observer,
    consent: Callable[[list[Compared]], bool],
    *,
    hard: bool = False,
    force: bool = False,
    setting: Setting | None = None,
    patience: Patience | None = None,
) -> list[Compared] | None:
    """Sets what differs on these machines, in parallel; None if the user declined.

    Returns the state of each afterwards. Raises ConfigError before any change if a machine to be restarted carries work,
    or if that is unknown, unless ``force``. A machine's own failure is a value.
    """
    with open_session(target, "bios", observer, changes=True, by_ssh=not force) as session:
        _require(session)
        known = controllers(session, hosts)
        before = _compared(session, known, patience)
        differ = [one for one in before if one.changes]
        to_change = {one.host: known[one.host] for one in differ}
        if not force and (carried := machines_in_use(session, to_change)):
            raise ConfigError("; ".join(f"{n}: {why}" for n, why in carried.items()), REMEDY)
        if not differ:
            return before
        if not force:
            require_free(session, tuple(to_change))
        if not consent(before):
            return None
        session.journal.append(session.run, "run_started", verb="bios apply")
        off = Order.FORCE_OFF if hard else Order.SHUT_DOWN
        wanted = {one.host: one.wanted or {} for one in differ}

        def work(name: str) -> Compared:
            stop = session.cancelled.is_set
            try:
                bios.apply(
                    to_change[name],
                    wanted[name],
                    off,
                    setting or Setting(),
                    patience or Patience(),
                    stop,
                )
            except ApplianceError as error:
                return Compared(name, error=error)
            return _compare(session.profile_of(name), to_change[name], patience)

        with interruptible(session):
            after = dict(each(to_change, work))
        for one in differ:
            done = after[one.host]
            session.journal.append(
                session.run,
                "bios_set",
                host=one.host,
                changes=[session.redact(str(change)) for change in one.changes],
                error=session.redact(done.error.message) if done.error else "",
            )
        found = [after.get(one.host, one) for one in before]
        session.journal.append(
            session.run, "run_finished", exit=int(not all(one.is_good for one in found))
        )
        return found


def restarted(found: list[Compared]) -> list[str]:
    """Those of them that are on, and would be restarted."""
    return [one.host for one in found if one.changes and one.power != OFF]


def _require(session: Session) -> None:
    profiles = {p.name: p for p in (session.profile_of(h.name) for h in session.site.hosts)}
    if not any(server.bios for profile in profiles.values() for server in profile.servers):
        several = len(profiles) > 1
        said = (
            f"profile{'s' if several else ''} {' and '.join(profiles)} list{'' if several else 's'}"
        )
        raise ConfigError(f"{said} no BIOS settings", NONE_NAMED)


def _compared(
    session: Session, known: Mapping[str, Controller], patience: Patience | None = None
) -> list[Compared]:
    compared = each(known, lambda n: _compare(session.profile_of(n), known[n], patience))
    return [found for _, found in compared]


def _compare(profile: Profile, known: Controller, patience: Patience | None) -> Compared:
    try:
        seen = bios.look(known, patience)
        server = profile.server(seen.model)
        if server is None or not server.bios:
            raise ApplianceError(
                f"profile {profile.name} lists no BIOS settings of {seen.model or 'a model that the BMC does not report'}",
                NONE_NAMED,
            )
        changes = differing(seen.settings, server.bios)
    except ApplianceError as error:
        return Compared(known.host, error=error)
    return Compared(known.host, seen.model, seen.power, server.bios, changes)
