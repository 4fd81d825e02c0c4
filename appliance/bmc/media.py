"""Virtual media of one machine: a disc that its BMC fetches, and a single boot from it (Redfish VirtualMedia)."""

from enum import StrEnum

from appliance.adapters.redfish import Document, EmptyAnswer, Redfish, ResourceFailed
from appliance.bmc.document import link, links, section, text, truth
from appliance.bmc.inventory import main_system, manager_of
from appliance.bmc.reader import Reader
from appliance.errors import ApplianceError
from appliance.models.bmc import BmcArea

INSERT, EJECT = "#VirtualMedia.InsertMedia", "#VirtualMedia.EjectMedia"
REFUSED = (400, 405, 501)
DISCS = frozenset({"CD", "DVD"})
HALL = "install from a USB stick instead: appliance provision media"
HELD = (
    "close the virtual media of the BMC's remote console, which may occupy the drive, and try again; else "
    + HALL
)
IDRAC = "iDRAC"
DELL: Document = {
    "ServerBoot.1.BootOnce": "Enabled",
    "ServerBoot.1.FirstBootDevice": "VCD-DVD",
}
"""On an iDRAC, "Cd" is a built-in drive; its virtual drive has another name."""
ALLOWED = "BootSourceOverrideTarget@Redfish.AllowableValues"
SUPERMICRO, USB_DISC = "supermicro", "UsbCd"
"""On Supermicro's BMCs, "Cd" is a drive at the SATA port, and virtual media are a drive at a USB port."""


class Source(StrEnum):
    """Boot devices of a machine (BootSource of ComputerSystem)."""

    DISC = "Cd"
    DISK = "Hdd"


class Drive:
    """A machine's virtual drive for discs. ``is_verified``: the BMC verifies the server it fetches from."""

    def __init__(self, controller: Redfish) -> None:
        """Raises ResourceFailed if the machine has none."""
        self._controller = controller
        root = controller.root()
        controller.log_in(root)
        reader = Reader(controller)
        self.system, _ = main_system(reader, root)
        self._manager = manager_of(reader, root, self.system)
        self._path = _drive(reader, self.system, self._manager)
        self.is_verified = False

    def insert(self, url: str, certificate: str) -> None:
        """Makes the BMC fetch a disc. ``certificate``: of the server there, in PEM. Raises ApplianceError."""
        self.eject()
        self.is_verified = self._pinned(certificate)
        drive = self._shown()
        target = text(section(drive, "Actions", INSERT), "target")
        if not drive:
            target = f"{self._path}/Actions/{INSERT.removeprefix('#')}"
        if not target:
            raise ResourceFailed("its BMC cannot fetch a disc", HALL)
        try:
            self._put(target, url)
        except ResourceFailed as error:
            raise ResourceFailed(error.message, error.hint or HELD, error.status) from None

    def _put(self, target: str, url: str) -> None:
        body: Document = {"Image": url}
        try:
            self._controller.post(target, {**body, "Inserted": True, "WriteProtected": True})
        except ResourceFailed as error:
            # Some vendors refuse parameters that have their default value.
            if error.status not in REFUSED:
                raise
            self._controller.post(target, body)

    def _shown(self) -> Document:
        """The drive's document; some vendors answer with nothing while it is empty."""
        try:
            return self._controller.get(self._path)
        except EmptyAnswer:
            return {}

    def eject(self) -> None:
        """Ejects the disc; does nothing if the drive is empty. Raises ApplianceError."""
        drive = self._shown()
        if not text(drive, "Image") and not truth(drive, "Inserted"):
            return
        if target := text(section(drive, "Actions", EJECT), "target"):
            self._controller.post(target, {})

    def start_once(self, source: Source) -> None:
        """Sets the boot device for the next boot only. Raises ApplianceError."""
        if source is Source.DISC and text(self._manager, "Id").startswith(IDRAC):
            self._controller.patch(_attributes(self._manager), {"Attributes": DELL})
            return
        path = text(self.system, "@odata.id")
        wanted: Document = {
            "BootSourceOverrideEnabled": "Once",
            "BootSourceOverrideTarget": _name_of(source, self.system),
        }
        mode: Document = {"BootSourceOverrideMode": "UEFI"}
        try:
            self._controller.patch(path, {"Boot": {**wanted, **mode}})
        except ResourceFailed as error:
            # The mode may be read-only or missing.
            if error.status not in REFUSED:
                raise
            self._controller.patch(path, {"Boot": wanted})

    def _pinned(self, certificate: str) -> bool:
        """Installs the server's certificate on the BMC for verification; False if it cannot store one."""
        place = link(self._shown(), "Certificates")
        body: Document = {"CertificateString": certificate, "CertificateType": "PEM"}
        try:
            if place:
                self._clear(place)
                self._controller.post(place, body)
                self._controller.patch(self._path, {"VerifyCertificate": True})
                return True
        except ResourceFailed:
            place = ""
        if truth(self._shown(), "VerifyCertificate"):
            self._controller.patch(self._path, {"VerifyCertificate": False})
        return False

    def _clear(self, place: str) -> None:
        """Removes certificates of earlier servers; a drive can store one or a few."""
        for path in links(self._controller.get(place), "Members"):
            self._controller.delete(path)


def _name_of(source: Source, system: Document) -> str:
    """The name that this machine has for a boot device."""
    allowed = section(system, "Boot").get(ALLOWED)
    names = allowed if isinstance(allowed, list) else []
    is_usb = text(system, "Manufacturer").lower().replace(" ", "").startswith(SUPERMICRO)
    if source is Source.DISC and USB_DISC in names and (is_usb or source.value not in names):
        return USB_DISC
    return source.value


def _attributes(manager: Document) -> str:
    """Where an iDRAC keeps its own settings: linked since firmware 4.40, below the manager before."""
    named = links(section(manager, "Links", "Oem", "Dell"), "DellAttributes")
    own = next((at for at in named if at.endswith(f"/{text(manager, 'Id')}")), "")
    return own or f"{text(manager, '@odata.id')}/Attributes"


def _drive(reader: Reader, system: Document, manager: Document) -> str:
    """The path of the first drive for discs: of the system since Redfish 2020.4, of its manager before.

    If none declares that it is one: the first that answers with nothing, a drive without a disc (Supermicro X10).
    """
    empty = ""
    for owner in (system, manager):
        at = link(owner, "VirtualMedia")
        for item in reader.entries(BmcArea.SYSTEM, at) if at else ():
            path = text(item, "@odata.id")
            try:
                drive = item if len(item) > 2 else reader.get(path)
            except EmptyAnswer:
                empty = empty or path
                continue
            except ResourceFailed as error:
                reader.note(BmcArea.SYSTEM, error.message)
                continue
            kinds = drive.get("MediaTypes")
            if isinstance(kinds, list) and DISCS & {k for k in kinds if isinstance(k, str)}:
                return text(drive, "@odata.id")
    if empty:
        return empty
    if reader.lost:
        raise reader.lost
    why = reader.unread.get(BmcArea.SYSTEM, "none is listed")
    raise ApplianceError(f"its BMC has no virtual drive for discs: {why}", HELD)
