"""Virtual media of one machine: a disc that its controller fetches, and the next start from it (Redfish VirtualMedia)."""

from enum import StrEnum

from appliance.adapters.redfish import Document, Redfish, ResourceFailed
from appliance.bmc.document import link, links, section, text, truth
from appliance.bmc.inventory import main_system, manager_of
from appliance.bmc.reader import Reader
from appliance.errors import ApplianceError
from appliance.models.bmc import BmcArea

INSERT, EJECT = "#VirtualMedia.InsertMedia", "#VirtualMedia.EjectMedia"
REFUSED = (400, 405, 501)
DISCS = frozenset({"CD", "DVD"})
HALL = "install from a stick instead: appliance provision media"


class Source(StrEnum):
    """What a machine starts from (BootSource of ComputerSystem)."""

    DISC = "Cd"
    DISK = "Hdd"


class Drive:
    """A machine's virtual drive for discs. ``is_verified``: the controller checks whom it fetches from."""

    def __init__(self, controller: Redfish) -> None:
        """Raises ResourceFailed where the machine has none."""
        self._controller = controller
        root = controller.root()
        controller.log_in(root)
        reader = Reader(controller)
        self.system, _ = main_system(reader, root)
        self._path = _drive(reader, self.system, manager_of(reader, root, self.system))
        self.is_verified = False

    def insert(self, url: str, certificate: str) -> None:
        """Lets the controller fetch a disc. ``certificate``: of the server there, in PEM. Raises ApplianceError."""
        self.eject()
        self.is_verified = self._pinned(certificate)
        drive = self._controller.get(self._path)
        target = text(section(drive, "Actions", INSERT), "target")
        if not target:
            raise ResourceFailed("its controller cannot fetch a disc", HALL)
        body: Document = {"Image": url}
        try:
            self._controller.post(target, {**body, "Inserted": True, "WriteProtected": True})
        except ResourceFailed as error:
            # Some makers refuse what they take for granted.
            if error.status not in REFUSED:
                raise
            self._controller.post(target, body)

    def eject(self) -> None:
        """Takes out what is in; nothing where it is empty. Raises ApplianceError."""
        drive = self._controller.get(self._path)
        if not text(drive, "Image") and not truth(drive, "Inserted"):
            return
        if target := text(section(drive, "Actions", EJECT), "target"):
            self._controller.post(target, {})

    def start_once(self, source: Source) -> None:
        """What the machine starts from next time, and that time alone. Raises ApplianceError."""
        path = text(self.system, "@odata.id")
        wanted: Document = {
            "BootSourceOverrideEnabled": "Once",
            "BootSourceOverrideTarget": source.value,
        }
        mode: Document = {"BootSourceOverrideMode": "UEFI"}
        try:
            self._controller.patch(path, {"Boot": {**wanted, **mode}})
        except ResourceFailed as error:
            # The mode may be read-only, or not be there at all.
            if error.status not in REFUSED:
                raise
            self._controller.patch(path, {"Boot": wanted})

    def _pinned(self, certificate: str) -> bool:
        """Gives the controller the server's certificate to compare; False where it has no place for one."""
        drive = self._controller.get(self._path)
        place = link(drive, "Certificates")
        body: Document = {"CertificateString": certificate, "CertificateType": "PEM"}
        try:
            if place:
                self._clear(place)
                self._controller.post(place, body)
                self._controller.patch(self._path, {"VerifyCertificate": True})
                return True
        except ResourceFailed:
            place = ""
        if truth(self._controller.get(self._path), "VerifyCertificate"):
            self._controller.patch(self._path, {"VerifyCertificate": False})
        return False

    def _clear(self, place: str) -> None:
        """Certificates of servers that discs came from before; a drive has room for one or a few."""
        for path in links(self._controller.get(place), "Members"):
            self._controller.delete(path)


def _drive(reader: Reader, system: Document, manager: Document) -> str:
    """The path of the first drive for discs: of the system since Redfish 2020.4, of its manager before."""
    for owner in (system, manager):
        if link(owner, "VirtualMedia"):
            for drive in reader.of(BmcArea.SYSTEM, owner, "VirtualMedia"):
                kinds = drive.get("MediaTypes")
                if isinstance(kinds, list) and DISCS & {k for k in kinds if isinstance(k, str)}:
                    return text(drive, "@odata.id")
    if reader.lost:
        raise reader.lost
    why = reader.unread.get(BmcArea.SYSTEM, "none is listed")
    raise ApplianceError(f"its controller has no virtual drive for discs: {why}", HALL)
