"""Power: machines switched by their management controllers; none that carries work, unless the user insists."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from appliance.actions.interrupt import interruptible
from appliance.actions.opening import Target, open_session
from appliance.adapters.redfish import Controller, Patience
from appliance.bmc.power import Order, Waiting, state, switch
from appliance.engine.busy import REMEDY, busy
from appliance.engine.controllers import controllers
from appliance.engine.gather import each
from appliance.engine.lease import require_free
from appliance.errors import ApplianceError, ConfigError
from appliance.models.events import Observer


class Wish(StrEnum):
    """What the user wants of machines."""

    ON = "on"
    OFF = "off"
    CYCLE = "cycle"

    def orders(self, *, hard: bool) -> tuple[Order, ...]:
        """What a machine is told, in this order. ``hard``: its system is not asked."""
        off = Order.FORCE_OFF if hard else Order.SHUT_DOWN
        return {Wish.ON: (Order.ON,), Wish.OFF: (off,), Wish.CYCLE: (off, Order.ON)}[self]


@dataclass(frozen=True)
class Powered:
    """One machine: its state, or why it is not known or not reached."""

    host: str
    state: str = ""
    error: ApplianceError | None = None


def status(target: Target, observer: Observer, hosts: tuple[str, ...] = ()) -> list[Powered]:
    """The state of these machines (none: of all with a controller); changes nothing."""
    with open_session(target, "power", observer, only_looks=True, by_ssh=False) as session:
        known = controllers(session, hosts)
        return [found for _, found in each(known, lambda name: _look(known[name]))]


def power(
    target: Target,
    wish: Wish,
    hosts: tuple[str, ...],
    observer: Observer,
    consent: Callable[[tuple[str, ...]], bool],
    *,
    hard: bool = False,
    force: bool = False,
    waiting: Waiting | None = None,
    patience: Patience | None = None,
) -> list[Powered] | None:
    """Switches these machines side by side; None where the user declined.

    Raises ConfigError, and touches none, where one of them carries work or nobody knows, unless ``force``. A machine's
    own failure is a value.
    """
    is_gentle = wish is not Wish.ON and not force
    with open_session(target, "power", observer, changes=True, by_ssh=is_gentle) as session:
        known = controllers(session, hosts)
        if is_gentle and (carried := busy(session, known)):
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
