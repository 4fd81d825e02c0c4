"""A hall of the tests' own: the lab's virtual machines on a bridge beside any rack, and what tests want to know of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from appliance.lab import hall as lab_hall
from appliance.lab import network
from appliance.lab.hall import Hall
from appliance.lab.hardware import Hardware
from appliance.lab.spec import Rack, RackSpec

TAG = "metal"
NETWORK = IPv4Network("10.94.7.0/24")


@dataclass(frozen=True)
class Machine(lab_hall.Machine):
    """A machine of the hall, smaller than a rack's."""

    network: IPv4Network = NETWORK
    disk_gb: int = 8
    memory_mib: int = 1536

    @property
    def console(self) -> str:
        """What its serial line said."""
        return lab_hall.console(self)

    @property
    def allocated(self) -> int:
        """Bytes that its first disk takes on this machine: what was written to it."""
        return self.disk.stat().st_blocks * 512

    @property
    def orders(self) -> int:
        """How often its controller was told to change anything."""
        return orders(self)


def orders(machine: lab_hall.Machine) -> int:
    """How often a machine's controller was told to change anything."""
    said = (machine.folder / f"{machine.name}.conf.py.log").read_text(errors="replace")
    return sum(said.count(f'"{method} /redfish') for method in ("POST", "PATCH", "PUT", "DELETE"))


class Shelf(Rack):
    """What the lab's own tools need to know of the hall: its network, and a folder."""

    @property
    def state_dir(self) -> Path:
        return Path(self.layers["folder"])

    @property
    def network(self) -> IPv4Network:
        return NETWORK


def shelf(folder: Path, profile: str = "hpc", hardware: Hardware | None = None) -> Shelf:
    """The hall's, in its folder."""
    spec = RackSpec(TAG, hosts=2, profile=profile, machines="vm")
    return Shelf(spec, 0, TAG, {"folder": str(folder)}, hardware or Hardware())


@contextmanager
def hall(folder: Path, machines: tuple[Machine, ...]) -> Iterator[Hall]:
    """The machines, off. A disk that lies in the folder already is taken as it is."""
    own = shelf(folder)
    made = Hall(folder, folder, own.bridge, TAG, machines)
    network.raise_bridge(own)
    try:
        lab_hall.start(made)
        yield made
    finally:
        lab_hall.stop(made)
        network.lower_bridge(own)
