"""BIOS settings as the profile wants them, by model of server: what differs, and setting it; no machine that carries work is started anew."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from appliance.actions.interrupt import interruptible
from appliance.actions.opening import Target, open_session
from appliance.adapters.redfish import Controller, Patience
from appliance.bmc import bios
from appliance.bmc.bios import Change, Seen, Setting, differing
from appliance.bmc.power import OFF, Order
from appliance.engine.busy import REMEDY, busy
from appliance.engine.controllers import controllers
from appliance.engine.gather import each
from appliance.engine.lease import require_free
from appliance.errors import ApplianceError, ConfigError
from appliance.models.bmc import BiosValue
from appliance.models.events import Observer
from appliance.models.profile import Profile

NONE_NAMED = "write them into the profile, by model: servers (docs/discover.md)"


@dataclass(frozen=True)
class Compared:
    """One machine: how many settings the profile names for its model, which differ, or why that is not known."""

    host: str
    model: str = ""
    power: str = ""
    wanted: Mapping[str, BiosValue] | None = None
    changes: tuple[Change, ...] = ()
    error: ApplianceError | None = None

    @property
    def is_good(self) -> bool:
        """All that the profile names is so; a model that it does not name is not good, for nobody knows."""
        return not (self.error or self.changes) and bool(self.wanted)


def settings(target: Target, observer: Observer, host: str) -> Seen:
    """All settings of one machine. Raises ApplianceError."""
    with open_session(target, "bios", observer, only_looks=True, by_ssh=False) as session:
        known = controllers(session, (host,))
        if len(known) != 1:
            raise ConfigError(f"{host} are several hosts", "name one of them")
        return bios.look(known[host])


def status(target: Target, observer: Observer, hosts: tuple[str, ...] = ()) -> list[Compared]:
    """What differs on these machines (none: on all with a controller); changes nothing."""
    with open_session(target, "bios", observer, only_looks=True, by_ssh=False) as session:
        _require(session.profile)
        return _compared(session.profile, controllers(session, hosts))


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
    """Sets what differs on these machines, side by side; None where the user declined.

    Returns each as it is afterwards. Raises ConfigError, and touches none, where one that would be started anew carries work or
    nobody knows, unless ``force``. A machine's own failure is a value.
    """
    with open_session(target, "bios", observer, changes=True, by_ssh=not force) as session:
        _require(session.profile)
        known = controllers(session, hosts)
        before = _compared(session.profile, known, patience)
        differ = [one for one in before if one.changes]
        to_change = {one.host: known[one.host] for one in differ}
        if not force and (carried := busy(session, to_change)):
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
            return _compare(session.profile, to_change[name], patience)

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
    """Those of them that are on, and would be started anew."""
    return [one.host for one in found if one.changes and one.power != OFF]


def _require(profile: Profile) -> None:
    if not any(server.bios for server in profile.servers):
        raise ConfigError(f"profile {profile.name} names no BIOS settings", NONE_NAMED)


def _compared(
    profile: Profile, known: Mapping[str, Controller], patience: Patience | None = None
) -> list[Compared]:
    return [found for _, found in each(known, lambda n: _compare(profile, known[n], patience))]


def _compare(profile: Profile, known: Controller, patience: Patience | None) -> Compared:
    try:
        seen = bios.look(known, patience)
        server = profile.server(seen.model)
        if server is None or not server.bios:
            raise ApplianceError(
                f"profile {profile.name} names no BIOS settings of {seen.model or 'a model that its controller does not say'}",
                NONE_NAMED,
            )
        changes = differing(seen.settings, server.bios)
    except ApplianceError as error:
        return Compared(known.host, error=error)
    return Compared(known.host, seen.model, seen.power, server.bios, changes)
