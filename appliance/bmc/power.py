"""Power of one machine: what it is, and a change of it that is watched to its end."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from appliance.adapters.redfish import Controller, Document, Patience, Redfish, ResourceFailed
from appliance.bmc.document import objects, section, text
from appliance.bmc.inventory import main_system
from appliance.bmc.reader import Reader
from appliance.errors import ApplianceError, DeadlineExceeded
from appliance.text import quoted

RESET = "#ComputerSystem.Reset"
ALLOWED = "ResetType@Redfish.AllowableValues"
INFO = "@Redfish.ActionInfo"
ON, OFF = "On", "Off"


class Order(StrEnum):
    """What is told to a machine (ResetType of ComputerSystem)."""

    ON = "On"
    SHUT_DOWN = "GracefulShutdown"
    FORCE_OFF = "ForceOff"


ENDS_IN = {Order.ON: ON, Order.SHUT_DOWN: OFF, Order.FORCE_OFF: OFF}


@dataclass(frozen=True)
class Waiting:
    """How long a change may take, and how often the state is asked for; seconds."""

    on: float = 180.0
    shut_down: float = 600.0
    force_off: float = 90.0
    pause: float = 3.0

    def of(self, order: Order) -> float:
        """For one order. A shut-down waits for jobs' epilogues and file systems."""
        return {
            Order.ON: self.on,
            Order.SHUT_DOWN: self.shut_down,
            Order.FORCE_OFF: self.force_off,
        }[order]

    def patience(self, patience: Patience) -> Patience:
        """A conversation long enough for two changes."""
        whole = patience.whole + 2 * max(self.on, self.shut_down, self.force_off)
        return Patience(whole, patience.retries, patience.pause)


def state(known: Controller, patience: Patience | None = None) -> str:
    """On, Off, or what the controller says in between; "" where it does not say. Raises ApplianceError."""
    with Redfish(known, patience) as controller:
        return text(system_of(controller), "PowerState")


def switch(
    known: Controller,
    orders: tuple[Order, ...],
    waiting: Waiting,
    patience: Patience,
    cancelled: Callable[[], bool],
) -> None:
    """Gives the orders one after the other, each watched to its end; one whose end is reached already is not given.

    Raises ApplianceError, DeadlineExceeded among them where the machine does not come to that state.
    """
    with Redfish(known, waiting.patience(patience)) as controller:
        carry_out(controller, system_of(controller), orders, waiting, cancelled)


def carry_out(
    controller: Redfish,
    system: Document,
    orders: tuple[Order, ...],
    waiting: Waiting,
    cancelled: Callable[[], bool],
) -> None:
    """The same in a conversation that goes on."""
    path = text(system, "@odata.id")
    for order in orders:
        if text(controller.get(path), "PowerState") != ENDS_IN[order]:
            _give(controller, system, order)
            _watch(controller, path, order, waiting, cancelled)


def system_of(controller: Redfish) -> Document:
    """Logs in; the machine's own document. Raises ApplianceError."""
    root = controller.root()
    controller.log_in(root)
    system, _ = main_system(Reader(controller), root)
    return system


def _give(controller: Redfish, system: Document, order: Order) -> None:
    action = section(system, "Actions", RESET)
    target = text(action, "target")
    if not target:
        raise ResourceFailed(
            "its controller offers no way to switch it", "switch it on the controller's own page"
        )
    allowed = _allowed(controller, action)
    if allowed and order not in allowed:
        listed = ", ".join(sorted(quoted(word) for word in allowed))
        raise ResourceFailed(
            f"its controller does not take {order}, but {listed}",
            "take --hard, or switch it on the controller's own page",
        )
    controller.post(target, {"ResetType": order.value})


def _allowed(controller: Redfish, action: Document) -> set[str]:
    """By the action itself, or by what it refers to; nothing where neither says it."""
    listed = action.get(ALLOWED)
    at = text(action, INFO)
    if not isinstance(listed, list) and at:
        try:
            parameters = objects(controller.get(at), "Parameters")
        except ResourceFailed:
            return set()
        named = (p for p in parameters if text(p, "Name") == "ResetType")
        listed = next(named, {}).get("AllowableValues")
    return {word for word in listed if isinstance(word, str)} if isinstance(listed, list) else set()


def _watch(
    controller: Redfish,
    path: str,
    order: Order,
    waiting: Waiting,
    cancelled: Callable[[], bool],
) -> None:
    ends = time.monotonic() + waiting.of(order)
    found = ""
    while time.monotonic() < ends:
        try:
            found = text(controller.get(path), "PowerState")
        except ResourceFailed:
            # Some controllers answer errors while their host changes its state.
            found = ""
        if found == ENDS_IN[order]:
            return
        if cancelled():
            raise ApplianceError(f"interrupted; it was told {order} and may still come to it")
        time.sleep(waiting.pause)
    raise DeadlineExceeded(
        f"it was told {order}, and its controller says {found or 'nothing'} of it after {waiting.of(order):g} s",
        "look at its console and its event log: appliance discover"
        + ("; or switch it off at once, with --hard" if order is Order.SHUT_DOWN else ""),
    )
