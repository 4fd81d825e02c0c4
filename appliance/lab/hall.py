"""Virtual machines of a rack: powered off, with blank disks, each behind sushy-tools' Redfish controller.

Libvirt, QEMU and the controllers run in mount and process namespaces of their own and end with them; the machine's own
libvirt is not touched. Processors are emulated.
"""

import secrets
import shutil
import socket
import ssl
import sys
import time
import uuid
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import bcrypt

from appliance.adapters.certificates import KeyPair
from appliance.adapters.process import run, spawn
from appliance.errors import ApplianceError
from appliance.lab import processes

USER = "admin"
PORT = 8701
"""Port of the BMCs, each at its own address on the rack's bridge."""
FIRST_ADDRESS, FIRST_CONTROLLER = 10, 110
FIRMWARE = Path("/usr/share/OVMF")
CODE = FIRMWARE / "OVMF_CODE_4M.ms.fd"
DAYS = 3650
MEMORY_MIB, DISK_GB = 4096, 16
START_S = 60.0
END_S = 10.0
NAMESPACE = uuid.UUID("1d9a6d0e-3b0f-4f0b-8f7b-0f3f5b8f6c52")
OWN = ("/etc/libvirt", "/run/libvirt", "/var/lib/libvirt", "/var/log/libvirt", "/var/cache/libvirt")
QEMU = """user = "root"
group = "root"
security_driver = "none"
namespaces = []
cgroup_controllers = []
remember_owner = 0
stdio_handler = "file"
"""
LIBVIRTD = 'auth_unix_rw = "none"\nauth_unix_ro = "none"\n'
# Libvirt looks its own account up before it reads that another one is wanted.
ACCOUNTS = {
    "passwd": "libvirt-qemu:x:64055:64055::/:/bin/false\n",
    "group": "libvirt-qemu:x:64055:\nkvm:x:64056:\n",
}
START = """
cd "$1"
for folder in $LAB_OWN; do
  mkdir -p $folder own$folder
  mount --bind own$folder $folder
done
cp qemu.conf libvirtd.conf /etc/libvirt/
for file in passwd group; do mount --bind $file /etc/$file; done
libvirtd --daemon
virsh --quiet pool-define-as default dir --target "$1/pool"
virsh --quiet pool-start default
for file in *.xml; do virsh --quiet define $file; done
for file in *.conf.py; do
  "$2" -c "$LAB_EMULATOR" --config "$1/$file" >>$file.log 2>&1 &
done
wait
"""
# The machine's own libvirt binding is for the machine's own Python, which must be this one's release.
BINDING = "import sys; sys.path.append('/usr/lib/python3/dist-packages'); import libvirt; "
EMULATOR = BINDING + "from sushy_tools.emulator.main import main; sys.exit(main())"
DOMAIN = """<domain type="qemu">
  <name>{guest}</name><uuid>{uuid}</uuid>
  <memory unit="MiB">{memory}</memory><vcpu>2</vcpu>
  {sysinfo}
  <os>
    <type arch="x86_64" machine="q35">hvm</type>
    <loader readonly="yes" type="pflash">{code}</loader>
    <nvram template="{variables}">{folder}/{name}.nvram</nvram>
    <boot dev="hd"/>
  </os>
  <features><acpi/><smm state="on"/></features>
  <cpu mode="maximum"/>
  <clock offset="utc"/>
  <on_reboot>restart</on_reboot>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    {disks}
    <controller type="sata" index="0"/>
    <interface type="bridge"><source bridge="{bridge}"/><mac address="{mac}"/><model type="virtio"/></interface>
    <serial type="file"><source path="{folder}/{name}.console" append="on"/></serial>
    <rng model="virtio"><backend model="random">/dev/urandom</backend></rng>
  </devices>
</domain>
"""
DISK = """<disk type="file" device="disk"><driver name="qemu" type="qcow2" cache="unsafe"/>
      <source file="{file}"/><target dev="vd{letter}" bus="virtio"/><serial>{serial}</serial></disk>"""
SYSINFO = '<sysinfo type="fwcfg"><entry name="opt/io.systemd.credentials/{name}" file="{file}"/></sysinfo>'


@dataclass(frozen=True)
class Machine:
    """One machine: its address after the installation, and the address of its BMC on the bridge.

    ``credentials``: a file of lines for systemd-tmpfiles that its firmware passes to its system; none if it is missing.
    """

    name: str
    number: int
    folder: Path
    network: IPv4Network
    disks: int = 1
    disk_gb: int = DISK_GB
    memory_mib: int = MEMORY_MIB
    has_secure_boot: bool = True

    @property
    def address(self) -> str:
        return str(self.network[FIRST_ADDRESS + self.number])

    @property
    def controller(self) -> str:
        return str(self.network[FIRST_CONTROLLER + self.number])

    @property
    def mac(self) -> str:
        return f"52:54:00:94:{self.network.network_address.packed[2]:02x}:{FIRST_ADDRESS + self.number:02x}"

    @property
    def disk(self) -> Path:
        """The file of its first disk."""
        return self.folder / f"{self.name}-a.qcow2"

    @property
    def hardware(self) -> Path:
        """The file of substitutes for hardware that a virtual machine lacks (lab/firmware.py); optional."""
        return self.folder / f"{self.name}.tmpfiles"

    @property
    def variables(self) -> Path:
        """The firmware's initial variables: with Microsoft's keys Secure Boot is on, without keys it is off."""
        return FIRMWARE / f"OVMF_VARS_4M{'.ms' if self.has_secure_boot else ''}.fd"


@dataclass(frozen=True)
class Hall:
    """The machines of one bridge. ``mark``: the folder that their processes are known by (lab/processes.py)."""

    folder: Path
    mark: Path
    bridge: str
    tag: str
    machines: tuple[Machine, ...]

    @property
    def password(self) -> str:
        """The BMCs' password for ``USER``; created with the hall."""
        return (self.folder / "password").read_text(encoding="ascii").strip()

    @property
    def certificate(self) -> Path:
        """Certificate and key (PEM) of the controllers."""
        return self.folder / "bmc.pem"

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the BMCs' certificate, hex."""
        shown = self.certificate.read_text(encoding="ascii").partition("-----BEGIN PRIVATE")[0]
        return sha256(ssl.PEM_cert_to_DER_cert(shown)).hexdigest()


def start(hall: Hall) -> None:
    """Creates the machines, off, with BMCs that answer; does nothing if they exist. Raises ApplianceError.

    An existing disk in the folder is used unchanged.
    """
    if is_running(hall):
        return
    processes_end(hall)
    _prepare(hall)
    for machine in hall.machines:
        _describe(hall, machine)
    for machine in hall.machines:
        run(("ip", "address", "replace", f"{machine.controller}/32", "dev", hall.bridge))
    log = hall.folder / "hall.log"
    unshare = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
    started = spawn(
        (*unshare, "bash", "-euc", START, "appliance-lab", str(hall.folder), sys.executable),
        env={
            processes.MARK: str(hall.mark),
            "LAB_OWN": " ".join(OWN),
            "LAB_EMULATOR": EMULATOR,
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        },
        log=log,
    )
    processes.remember(started, _pid(hall))
    deadline = time.monotonic() + START_S
    waiting = list(hall.machines)
    while waiting:
        waiting = [machine for machine in waiting if not _listens(machine.controller)]
        if waiting and (time.monotonic() > deadline or not is_running(hall)):
            names = ", ".join(machine.name for machine in waiting)
            raise ApplianceError(f"the BMCs of {names} do not answer", f"see {log}")
        time.sleep(0.1)


def stop(hall: Hall) -> None:
    """Cuts the power of all machines, and ends their controllers."""
    found = processes.recall(_pid(hall))
    if found is not None:
        processes.kill(found)
    processes_end(hall)
    _pid(hall).unlink(missing_ok=True)


def processes_end(hall: Hall) -> None:
    """Waits until no machine of the hall runs: their memory is given back after they were killed."""
    deadline = time.monotonic() + END_S
    while any(pid(hall, machine) for machine in hall.machines) and time.monotonic() < deadline:
        time.sleep(0.1)


def is_running(hall: Hall) -> bool:
    """Whether there are BMCs to query."""
    return processes.recall(_pid(hall)) is not None


def pid(hall: Hall, machine: Machine) -> int | None:
    """QEMU's process while the machine is on."""
    return processes.with_argument(f"guest={_guest(hall, machine)},")


def console(machine: Machine) -> str:
    """Output of its serial line."""
    file = machine.folder / f"{machine.name}.console"
    return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""


def _guest(hall: Hall, machine: Machine) -> str:
    return f"{hall.tag}-{machine.name}"


def _pid(hall: Hall) -> Path:
    return hall.folder / "hall.json"


def _listens(address: str) -> bool:
    try:
        socket.create_connection((address, PORT), timeout=1).close()
    except OSError:
        return False
    return True


def _prepare(hall: Hall) -> None:
    """Creates the files of the hall except those of its machines; libvirt's own files of an earlier hall are removed."""
    hall.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.rmtree(hall.folder / "own", ignore_errors=True)
    (hall.folder / "pool").mkdir(exist_ok=True)
    (hall.folder / "qemu.conf").write_text(QEMU, encoding="ascii")
    (hall.folder / "libvirtd.conf").write_text(LIBVIRTD, encoding="ascii")
    for name, line in ACCOUNTS.items():
        (hall.folder / name).write_bytes(Path("/etc", name).read_bytes() + line.encode())
    if not hall.certificate.exists():
        _certificate(hall)
    kept = hall.folder / "password"
    if not kept.exists():
        kept.touch(mode=0o600)
        kept.write_text(f"{secrets.token_urlsafe(24)}\n", encoding="ascii")
    known = bcrypt.hashpw(hall.password.encode(), bcrypt.gensalt(4)).decode()
    (hall.folder / "users").write_text(f"{USER}:{known}\n", encoding="ascii")


def _certificate(hall: Hall) -> None:
    """A key and its own certificate for all controllers, in one file."""
    pair = KeyPair.fresh()
    shown = pair.for_server([IPv4Address(one.controller) for one in hall.machines], DAYS)
    fresh = hall.certificate.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(shown + pair.pem, encoding="ascii")
    fresh.rename(hall.certificate)


def _describe(hall: Hall, machine: Machine) -> None:
    identity = str(uuid.uuid5(NAMESPACE, f"{hall.mark} {machine.name}"))
    disks = []
    for letter in "abcd"[: machine.disks]:
        file = machine.folder / f"{machine.name}-{letter}.qcow2"
        if not file.exists():
            size = f"{machine.disk_gb}G"
            run(("qemu-img", "create", "-q", "-f", "qcow2", str(file), size))
        disks.append(DISK.format(file=file, letter=letter, serial=f"{machine.name}-{letter}"))
    handed = SYSINFO.format(name="tmpfiles.extra", file=machine.hardware)
    text = DOMAIN.format(
        guest=_guest(hall, machine),
        name=machine.name,
        uuid=identity,
        memory=machine.memory_mib,
        code=CODE,
        variables=machine.variables,
        folder=machine.folder,
        bridge=hall.bridge,
        mac=machine.mac,
        disks="\n    ".join(disks),
        sysinfo=handed if machine.hardware.exists() else "",
    )
    (hall.folder / f"{machine.name}.xml").write_text(text, encoding="utf-8")
    state = hall.folder / f"{machine.name}.state"
    state.mkdir(exist_ok=True)
    (hall.folder / f"{machine.name}.conf.py").write_text(
        f'SUSHY_EMULATOR_LIBVIRT_URI = "qemu:///system"\nSUSHY_EMULATOR_ALLOWED_INSTANCES = ["{identity}"]\n'
        f'SUSHY_EMULATOR_AUTH_FILE = "{hall.folder}/users"\nSUSHY_EMULATOR_STATE_DIR = "{state}"\n'
        f'SUSHY_EMULATOR_LISTEN_IP = "{machine.controller}"\nSUSHY_EMULATOR_LISTEN_PORT = {PORT}\n'
        f'SUSHY_EMULATOR_SSL_CERT = "{hall.certificate}"\nSUSHY_EMULATOR_SSL_KEY = "{hall.certificate}"\n'
        # sushy-tools distinguishes the two kinds of variables by this file, and uses it whenever it changes the boot device.
        f'SUSHY_EMULATOR_SECURE_BOOT_DISABLED_NVRAM = "{machine.variables}"\n'
        f'SUSHY_EMULATOR_BOOT_LOADER_MAP = {{"UEFI": {{"x86_64": "{CODE}"}}}}\n',
        encoding="utf-8",
    )
