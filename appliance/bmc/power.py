"""Power of one machine: its state, and a change that is followed to its end."""

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
    """Commands for a machine (ResetType of ComputerSystem)."""

    ON = "On"
    SHUT_DOWN = "GracefulShutdown"
    FORCE_OFF = "ForceOff"


ENDS_IN = {Order.ON: ON, Order.SHUT_DOWN: OFF, Order.FORCE_OFF: OFF}


@dataclass(frozen=True)
class Waiting:
    """Timeout of a change, and the interval between reads of the state; seconds."""

    on: float = 180.0
    shut_down: float = 600.0
    force_off: float = 90.0
    pause: float = 3.0

    def of(self, order: Order) -> float:
        """For one command. A shutdown waits for jobs' epilogues and file systems."""
        return {
            Order.ON: self.on,
            Order.SHUT_DOWN: self.shut_down,
            Order.FORCE_OFF: self.force_off,
        }[order]

    def patience(self, patience: Patience) -> Patience:
        """A session timeout long enough for two changes."""
        whole = patience.whole + 2 * max(self.on, self.shut_down, self.force_off)
        return Patience(whole, patience.retries, patience.pause)


def state(known: Controller, patience: Patience | None = None) -> str:
    """On, Off, or a transitional state from the BMC; "" if it is not reported. Raises ApplianceError."""
    with Redfish(known, patience) as controller:
        return text(system_of(controller), "PowerState")


def switch(
    known: Controller,
    orders: tuple[Order, ...],
    waiting: Waiting,
    patience: Patience,
    cancelled: Callable[[], bool],
) -> None:
    """Sends the commands one after the other, and waits for the result of each; a command whose result is already reached is skipped.

    Raises ApplianceError, or its subclass DeadlineExceeded if the machine does not reach that state.
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
    """The same within an open session."""
    path = text(system, "@odata.id")
    for order in orders:
        if text(controller.get(path), "PowerState") != ENDS_IN[order]:
            _give(controller, system, order)
            _watch(controller, path, order, waiting, cancelled)


def system_of(controller: Redfish) -> Document:
    """Logs in and reads the machine's own document. Raises ApplianceError."""
    root = controller.root()
    controller.log_in(root)
    system, _ = main_system(Reader(controller), root)
    return system


def _give(controller: Redfish, system: Document, order: Order) -> None:
    action = section(system, "Actions", RESET)
    target = text(action, "target")
    if not target:
        raise ResourceFailed(
            "its BMC does not support power control", "switch it on the web page of the BMC"
        )
    allowed = _allowed(controller, action)
    if allowed and order not in allowed:
        listed = ", ".join(sorted(quoted(word) for word in allowed))
        raise ResourceFailed(
            f"its BMC does not support {order}, only {listed}",
            "use --hard, or switch it on the web page of the BMC",
        )
    controller.post(target, {"ResetType": order.value})


def _allowed(controller: Redfish, action: Document) -> set[str]:
    """From the action itself, or from the resource it refers to; empty if neither lists them."""
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
            # Some BMCs answer with errors while their host changes its state.
            found = ""
        if found == ENDS_IN[order]:
            return
        if cancelled():
            raise ApplianceError(f"interrupted; {order} was sent and may still take effect")
        time.sleep(waiting.pause)
    raise DeadlineExceeded(
        f"{order} was sent, but its BMC reports power state {found or 'unknown'} after {waiting.of(order):g} s",
        "check its console and its event log: appliance discover"
        + ("; or cut the power with --hard" if order is Order.SHUT_DOWN else ""),
    )
