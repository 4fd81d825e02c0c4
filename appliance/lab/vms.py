"""A rack of virtual machines: bare, to be installed by their controllers; and what their system finds that no virtual machine has."""

import shutil
import tempfile
from pathlib import Path

from appliance.config import known_bmcs
from appliance.lab import firmware, hall, network, seed
from appliance.lab.hall import Hall, Machine
from appliance.lab.recipe import LIB_FOLDER
from appliance.lab.spec import Rack, RackHost

SIMULATOR_FILES = (f"{LIB_FOLDER}/umad2sim",)
PASSWORD = "bmc"


def hall_of(rack: Rack) -> Hall:
    """The rack's machines and their controllers."""
    folder = rack.state_dir / "machines"
    machines = tuple(
        # The module of a simulated driver is not signed.
        Machine(host.name, number, folder, rack.network, has_secure_boot=not host.is_gpu)
        for number, host in enumerate(rack.hosts)
    )
    return Hall(folder, rack.state_dir, rack.bridge, rack.tag, machines)


def start(rack: Rack) -> None:
    """Creates the machines, off, with BMCs that answer; running ones continue. Raises ApplianceError."""
    found = hall_of(rack)
    found.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for host, machine in zip(rack.hosts, found.machines, strict=True):
        machine.hardware.write_text(hardware(rack, host), encoding="utf-8")
    hall.start(found)


def hardware(rack: Rack, host: RackHost) -> str:
    """Files that its firmware passes to its system: GPUs and adapters, and the mark that they are simulated."""
    told = seed.marks(rack, host)
    own = [told.pop(name) for name in tuple(told) if name.startswith("etc/tmpfiles.d/")]
    with tempfile.TemporaryDirectory(prefix="appliance-lab-") as folder:
        root = Path(folder)
        for name, text in told.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        seed.hardware(root, rack, host)
        for name in SIMULATOR_FILES if rack.hardware.has_subnet else ():
            shutil.copytree(Path(rack.layers["base"]) / name, root / name, symlinks=True)
        return "".join((*own, firmware.lines(root)))


def write_access(rack: Rack) -> None:
    """Writes the site's files for machines without a system: the BMCs' password and certificate."""
    found = hall_of(rack)
    secret = rack.site_dir / "secrets" / PASSWORD
    secret.touch(mode=0o600)
    secret.write_text(f"{found.password}\n", encoding="ascii")
    pinned = {f"{one.controller}:{hall.PORT}": found.fingerprint for one in found.machines}
    known_bmcs.write(rack.site_dir, pinned)
    # Each machine's own key is pinned when it is installed.
    (rack.site_dir / "known_hosts").touch()


def nameservers() -> list[str]:
    """Addresses of the name servers for the machines."""
    words = (line.split() for line in network.resolver().splitlines())
    return [line[1] for line in words if len(line) > 1 and line[0] == "nameserver"]
