"""A site of the hall's machines, and the system that they are installed with: built once, and kept with the cache."""

import json
import shutil
import socket
import ssl
import sys
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from urllib.request import Request, urlopen

from appliance.adapters.process import Completed, run
from appliance.config import known_bmcs
from appliance.lab import hall as lab_hall
from appliance.lab import machine_image, requirements, vms
from appliance.lab.hall import PORT, USER
from tests.support.machine_hall import NETWORK, Machine, hall

INSTALL_S, START_S = 2400.0, 600.0
OWN_MODULES = "/etc/initramfs-tools/conf.d/hall"
"""With every driver of its kernel, an initial RAM disk is made for 11 minutes on emulated processors at load."""
PROGRAM = str(Path(sys.executable).with_name("appliance"))
SITE = """version: 1
name: hall
profile: {profile}
access: {{user: root, private_key: id_ed25519}}
networks:
  management: {{cidr: {network}, gateway: {gateway}, dns: [{dns}]}}
provision: {{image: {image}}}
hosts:
{hosts}secrets: {{munge_key: {{file: secrets/any}}, slurmdbd_password: {{file: secrets/any}}}}
{more}"""
HOST = """  - name: {name}
    roles: [{roles}]
    address: {address}
    mac: "{mac}"
    bmc: {{address: {controller}, port: {port}, user: {user}, password: {{file: secrets/bmc}}}}
"""
DISK = """    disk: {{serial: {name}-{letter}}}
"""


@contextmanager
def kept_image() -> Iterator[Path]:
    """The image that the present code builds; one hall at a time has it. Beside it lies what was installed from it."""
    if packages := requirements.missing(virtual=True):
        raise AssertionError(f"not installed: apt-get install {' '.join(packages)}")
    with machine_image.kept(print) as folder:
        yield folder


class Hall:
    """Machines by their roles, and the site that means them."""

    def __init__(
        self,
        folder: Path,
        image: Path,
        machines: Mapping[Machine, str],
        profile: str = "hpc",
        more: str = "",
    ) -> None:
        self.folder, self.image, self.machines = folder, image, machines
        self.profile, self.more = profile, more
        self.system_disks: dict[str, str] = {}
        """Letters, by name of a machine of several."""
        self.site = folder / "site"
        self.pem, self.password = folder, ""

    def write(self, raised: lab_hall.Hall) -> None:
        """The site's folder."""
        self.pem, self.password = raised.certificate, raised.password
        (self.site / "secrets").mkdir(parents=True, exist_ok=True)
        for name, text in (("bmc", self.password), ("wrong", "wrong"), ("any", "x" * 40)):
            file = self.site / "secrets" / name
            file.write_text(text)
            file.chmod(0o600)
        key = self.site / "id_ed25519"
        if not key.exists():
            run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)))
        pinned = {f"{m.controller}:{PORT}": raised.fingerprint for m in self.machines}
        known_bmcs.write(self.site, pinned)
        hosts = "".join(
            HOST.format(
                name=m.name,
                roles=roles,
                address=m.address,
                mac=m.mac,
                controller=m.controller,
                port=PORT,
                user=USER,
            )
            + self._disk(m)
            for m, roles in self.machines.items()
        )
        text = SITE.format(
            profile=self.profile,
            network=NETWORK,
            gateway=NETWORK[1],
            dns=", ".join(vms.nameservers()),
            image=self.image,
            hosts=hosts,
            more=self.more,
        )
        (self.site / "site.yml").write_text(text)

    def _disk(self, machine: Machine) -> str:
        letter = self.system_disks.get(machine.name)
        return DISK.format(name=machine.name, letter=letter) if letter else ""

    @contextmanager
    def edited(self, name: str, old: str, new: str) -> Iterator[None]:
        """A file of the site, with something else in it for a while."""
        file = self.site / name
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))
        try:
            yield
        finally:
            file.write_text(text)

    def command(self, *words: str) -> tuple[str, ...]:
        """How the program is called on this site."""
        return (PROGRAM, *words, "--site", str(self.site))

    def appliance(self, *words: str) -> Completed:
        """The program, as an integrator calls it."""
        return run(self.command(*words), check=False, timeout=INSTALL_S)

    def install(self, *words: str) -> dict[str, dict[str, object]]:
        """How it ended, by host."""
        done = self.appliance("provision", "install", *words, "--yes", "--json")
        assert done.stdout, done.stderr
        return {host["host"]: host for host in json.loads(done.stdout)["hosts"]}

    def way(self, machine: Machine, command: str) -> tuple[str, ...]:
        """A command there, over ssh that takes the pinned key alone."""
        known = f"UserKnownHostsFile={self.site}/known_hosts"
        options = (known, "StrictHostKeyChecking=yes", "BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=10")  # fmt: skip
        given = (word for option in options for word in ("-o", option))
        key = str(self.site / "id_ed25519")
        return ("ssh", *given, "-i", key, f"root@{machine.address}", command)

    def ssh(self, machine: Machine, command: str, *, check: bool = True) -> str:
        """What a command says there."""
        return run(self.way(machine, command), timeout=300, check=check).stdout.strip()

    def boot(self, machine: Machine) -> str:
        """Which start of its kernel this is."""
        return self.ssh(machine, "cat /proc/sys/kernel/random/boot_id")

    def order(self, machine: Machine, order: str) -> None:
        """An order to a machine's controller that the program knows nothing of."""
        trust = ssl.create_default_context(cafile=str(self.pem))
        trust.check_hostname = False
        at = f"https://{machine.controller}:{PORT}"
        way = {"Authorization": f"Basic {b64encode(f'{USER}:{self.password}'.encode()).decode()}"}
        with urlopen(Request(f"{at}/redfish/v1/Systems", headers=way), context=trust) as answer:
            system = json.loads(answer.read())["Members"][0]["@odata.id"]
        asked = Request(
            f"{at}{system}/Actions/ComputerSystem.Reset",
            json.dumps({"ResetType": order}).encode(),
            {**way, "Content-Type": "application/json"},
        )
        urlopen(asked, context=trust).close()

    @property
    def installed(self) -> Path:
        """Where the disks of these machines are kept once they have their system."""
        told = repr([(m.name, m.number, m.disk_gb) for m in self.machines]) + "10.94.7"
        return self.image.parent / f"installed-{sha256(told.encode()).hexdigest()[:16]}"

    def take(self) -> bool:
        """Disks as they were kept, key and pinned host keys with them; False where none are. The machines are off."""
        if not self.installed.exists():
            return False
        shutil.copytree(self.installed / "site", self.site, dirs_exist_ok=True)
        for machine in self.machines:
            kept = str(self.installed / machine.disk.name)
            making = ("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", kept)
            run((*making, str(machine.disk)))
        return True

    def start(self, *names: str) -> None:
        """Switches machines on that have their system."""
        done = self.appliance("power", "on", *names, "--yes")
        assert done.returncode == 0, done.stderr
        for machine in self.machines:
            if machine.name in names:
                await_ssh(machine)
                self.ssh(machine, f"echo MODULES=dep > {OWN_MODULES}")

    def keep(self) -> None:
        """Keeps the disks as they are now, and goes on above them. The machines are off."""
        fresh = self.installed.with_name("installing")
        shutil.rmtree(fresh, ignore_errors=True)
        (fresh / "site").mkdir(parents=True)
        for name in ("id_ed25519", "known_hosts"):
            shutil.copy(self.site / name, fresh / "site" / name)
        for machine in self.machines:
            shutil.move(machine.disk, fresh / machine.disk.name)
        fresh.rename(self.installed)
        self.take()


def pair(folder: Path) -> dict[Machine, str]:
    """``head`` controls and stores, ``gpu-1`` computes. No key of anybody's signs a driver, so it has no Secure Boot."""
    head = Machine("head", 1, folder, disk_gb=16, memory_mib=4096)
    gpu = replace(head, name="gpu-1", number=2, has_secure_boot=False)
    return {head: "control, storage, login", gpu: "gpu"}


def install_pair(folder: Path, image: Path) -> None:
    """The two get their system in a hall of their own, and their disks are kept."""
    folder.mkdir()
    made = Hall(folder, image, pair(folder))
    with hall(folder, tuple(made.machines)) as raised:
        made.write(raised)
        states = {name: host["state"] for name, host in made.install().items()}
        assert states == {"head": "installed", "gpu-1": "installed"}
        off = made.appliance("power", "off", "head", "gpu-1", "--force", "--yes")
        assert off.returncode == 0, off.stderr
        made.keep()


def await_ssh(machine: Machine) -> None:
    """Until something listens there."""
    ends = time.monotonic() + START_S
    while time.monotonic() < ends:
        with suppress(OSError):
            socket.create_connection((machine.address, 22), timeout=5).close()
            return
        time.sleep(2)
    raise AssertionError(f"{machine.name} does not answer: {machine.console[-500:]}")
