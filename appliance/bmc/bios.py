"""BIOS settings of one machine: what differs, and a change that is followed until the BMC reads it back."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from appliance.adapters.redfish import Controller, Document, Patience, Redfish, ResourceFailed
from appliance.bmc.checks.firmware import AS_SHOWN, mismatch
from appliance.bmc.document import link, objects, section, text
from appliance.bmc.inventory import bios_settings
from appliance.bmc.power import OFF, ON, Order, Waiting, carry_out, system_of
from appliance.errors import ApplianceError, DeadlineExceeded
from appliance.models.bmc import BiosValue
from appliance.text import one_line

SETTINGS = "@Redfish.Settings"
ON_RESET = "OnReset"
OWN_PAGE = "change it in the firmware setup, or on the web page of the BMC"


@dataclass(frozen=True)
class SettingChange:
    """One setting that differs from the profile."""

    name: str
    found: BiosValue
    wanted: BiosValue

    def __str__(self) -> str:
        return f"{self.name}: {self.found} -> {self.wanted}"


@dataclass(frozen=True)
class SettingsRead:
    """A machine's settings as reported by its BMC. ``power``: On, Off or a transitional state."""

    model: str
    power: str
    settings: Mapping[str, BiosValue]


@dataclass(frozen=True)
class Setting:
    """Timeouts of a change, in seconds. Servers test their memory, and some restart two or three times, before settings are read back."""

    power: Waiting = field(default_factory=Waiting)
    read_back: float = 1800.0
    pause: float = 10.0

    def patience(self, patience: Patience) -> Patience:
        """A session timeout long enough for all of it."""
        whole = self.power.patience(patience).whole + self.read_back + self.power.force_off
        return Patience(whole, patience.retries, patience.pause)


def look(known: Controller, patience: Patience | None = None) -> SettingsRead:
    """Raises ApplianceError if the BMC shows no settings."""
    with Redfish(known, patience) as controller:
        system = system_of(controller)
        _, found = _read(controller, system)
        return SettingsRead(one_line(text(system, "Model")), text(system, "PowerState"), found)


def differing(
    found: Mapping[str, BiosValue], wanted: Mapping[str, BiosValue]
) -> tuple[SettingChange, ...]:
    """What is to be changed. Raises ApplianceError for a setting whose current value is unknown, or of another type."""
    unknown = [name for name in wanted if name not in found]
    if unknown:
        raise ApplianceError(
            f"its BMC does not report {', '.join(unknown[:4])}, so nothing is changed",
            "compare with the names that it uses (appliance bios show), and correct servers in the profile",
        )
    for name, value in wanted.items():
        if why := mismatch(name, found[name], value):
            raise ApplianceError(why, AS_SHOWN)
    return tuple(
        SettingChange(name, found[name], value)
        for name, value in wanted.items()
        if found[name] != value
    )


def apply(
    known: Controller,
    wanted: Mapping[str, BiosValue],
    off: Order,
    setting: Setting,
    patience: Patience,
    cancelled: Callable[[], bool],
) -> tuple[SettingChange, ...]:
    """Sets what differs, restarts the machine and reads it back; returns what was changed. Raises ApplianceError.

    ``off``: how a running machine is switched off. A machine that was off is switched on for this, and off again afterwards.
    """
    with Redfish(known, setting.patience(patience)) as controller:
        system = system_of(controller)
        bios, found = _read(controller, system)
        changes = differing(found, wanted)
        if not changes:
            return ()
        power = text(system, "PowerState")
        if power not in (ON, OFF):
            raise ApplianceError(
                f"its BMC reports power state {power or 'unknown'}, so nothing is changed",
                "check again in a minute: appliance power status",
            )
        _order(controller, bios, found, changes)
        try:
            orders = (Order.ON,) if power == OFF else (off, Order.ON)
            carry_out(controller, system, orders, setting.power, cancelled)
            _await(controller, text(bios, "@odata.id"), changes, setting, cancelled)
        except ApplianceError as error:
            told = f"{error.message}; the settings are pending on its BMC until the next start"
            raise ApplianceError(told, error.hint) from error
        if power == OFF:
            carry_out(controller, system, (Order.FORCE_OFF,), setting.power, cancelled)
        return changes


def _read(controller: Redfish, system: Document) -> tuple[Document, dict[str, BiosValue]]:
    at = link(system, "Bios")
    bios = controller.get(at) if at else {}
    found = bios_settings(bios)
    if not found:
        raise ApplianceError("its BMC shows no BIOS settings", OWN_PAGE)
    # Settings are read again at the address that the resource itself gives.
    return {**bios, "@odata.id": at}, found


def _order(
    controller: Redfish,
    bios: Document,
    found: Mapping[str, BiosValue],
    changes: tuple[SettingChange, ...],
) -> None:
    """Sends the settings to the BMC; pending changes of others would be applied by the same restart."""
    at = link(bios, SETTINGS, "SettingsObject")
    if not at:
        raise ApplianceError("its BMC does not allow changes of BIOS settings", OWN_PAGE)
    ours = {change.name for change in changes}
    waiting = [
        f"{name}: {found[name]} -> {value}"
        for name, value in bios_settings(controller.get(at)).items()
        if name in found and name not in ours and found[name] != value
    ]
    if waiting:
        raise ApplianceError(
            f"another change is pending until the next start ({', '.join(waiting[:4])}), so nothing is changed",
            "apply it with a restart (appliance power cycle), or discard it on the web page of the BMC",
        )
    body: Document = {"Attributes": {change.name: change.wanted for change in changes}}
    times = section(bios, SETTINGS).get("SupportedApplyTimes")
    if isinstance(times, list) and ON_RESET in times:
        # Dell creates the configuration job only if the apply time is given.
        body["@Redfish.SettingsApplyTime"] = {"ApplyTime": ON_RESET}
    controller.patch(at, body)


def _await(
    controller: Redfish,
    at: str,
    changes: tuple[SettingChange, ...],
    setting: Setting,
    cancelled: Callable[[], bool],
) -> None:
    ends = time.monotonic() + setting.read_back
    left, why = changes, ""
    while True:
        try:
            bios = controller.get(at)
        except ResourceFailed:
            # Some BMCs answer with errors while their machine runs its self-test.
            bios = {}
        if found := bios_settings(bios):
            left = tuple(c for c in changes if found.get(c.name) != c.wanted)
            if not left:
                return
            said = (text(m, "Message") for m in objects(section(bios, SETTINGS), "Messages"))
            why = next(filter(None, said), "")
        if cancelled():
            raise ApplianceError("interrupted before the settings were read back")
        if time.monotonic() > ends:
            break
        time.sleep(setting.pause)
    told = f": {why}" if why else ""
    raise DeadlineExceeded(
        f"{', '.join(f'{c.name} is not {c.wanted}' for c in left[:4])} {setting.read_back:g} s after its start{told}",
        "check its console and its event log: appliance discover",
    )
