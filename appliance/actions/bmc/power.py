"""Power: switches machines through their BMCs; never one that carries work, unless forced."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from appliance.actions.sites.interrupts import interruptible
from appliance.actions.sites.opening import Target, open_session
from appliance.adapters.redfish import Controller, Patience
from appliance.bmc.power import Order, Waiting, state, switch
from appliance.engine.look.controllers import controllers
from appliance.engine.look.gather import each
from appliance.engine.run.lease import require_free
from appliance.engine.run.machines_in_use import REMEDY, machines_in_use
from appliance.errors import ApplianceError, ConfigError
from appliance.models.events import Observer


class PowerAction(StrEnum):
    """The requested state of machines."""

    ON = "on"
    OFF = "off"
    CYCLE = "cycle"

    def orders(self, *, hard: bool) -> tuple[Order, ...]:
        """The commands for a machine, in this order. ``hard``: without a shutdown of its operating system."""
        off = Order.FORCE_OFF if hard else Order.SHUT_DOWN
        return {
            PowerAction.ON: (Order.ON,),
            PowerAction.OFF: (off,),
            PowerAction.CYCLE: (off, Order.ON),
        }[self]


@dataclass(frozen=True)
class Powered:
    """One machine: its state, or why it is unknown or was not reached."""

    host: str
    state: str = ""
    error: ApplianceError | None = None


def status(target: Target, observer: Observer, hosts: tuple[str, ...] = ()) -> list[Powered]:
    """The state of these machines (none: of all with a BMC); changes nothing."""
    with open_session(target, "power", observer, only_looks=True, by_ssh=False) as session:
        known = controllers(session, hosts)
        return [found for _, found in each(known, lambda name: _look(known[name]))]


def power(
    target: Target,
    wish: PowerAction,
    hosts: tuple[str, ...],
    observer: Observer,
    consent: Callable[[tuple[str, ...]], bool],
    *,
    hard: bool = False,
    force: bool = False,
    waiting: Waiting | None = None,
    patience: Patience | None = None,
) -> list[Powered] | None:
    """Switches these machines in parallel; None if the user declined.

    Raises ConfigError before any change if one of them carries work, or if that is unknown, unless ``force``. A machine's
    own failure is a value.
    """
    is_gentle = wish is not PowerAction.ON and not force
    with open_session(target, "power", observer, changes=True, by_ssh=is_gentle) as session:
        known = controllers(session, hosts)
        if is_gentle and (carried := machines_in_use(session, known)):
            raise ConfigError("; ".join(f"{n}: {why}" for n, why in carried.items()), REMEDY)
        if is_gentle:
            require_free(session, tuple(known))
        if not consent(tuple(known)):
            return None
        session.journal.append(session.run, "run_started", verb=f"power {wish}")
        orders = wish.orders(hard=hard)

        def work(name: str) -> Powered:
            stop = session.cancelled.is_set
            try:
                switch(known[name], orders, waiting or Waiting(), patience or Patience(), stop)
            except ApplianceError as error:
                return Powered(name, error=error)
            return _look(known[name], patience)

        with interruptible(session):
            found = [done for _, done in each(known, work)]
        for done in found:
            said = session.redact(done.error.message if done.error else done.state)
            session.journal.append(session.run, "powered", host=done.host, wish=wish, state=said)
        failed = any(done.error for done in found)
        session.journal.append(session.run, "run_finished", exit=int(failed))
        return found


def _look(known: Controller, patience: Patience | None = None) -> Powered:
    try:
        return Powered(known.host, state(known, patience))
    except ApplianceError as error:
        return Powered(known.host, error=error)
