"""A hall of one's own: powered-off virtual machines with blank disks, each behind sushy-tools' Redfish controller.

Libvirt, QEMU and the controllers run in mount and process namespaces of their own and end with them; the machine's own
libvirt is not touched. A bridge is the hall's network; packages come through it by this machine.
"""

import signal
import subprocess  # noqa: TID251 - programs of others, in namespaces of their own
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

import bcrypt

from appliance.adapters.process import run
from appliance.lab import network
from appliance.lab.spec import TABLES
from tests.redfish_emulator import await_port
from tests.redfish_server import PASSWORD, USER, certificate

BRIDGE, NETWORK, GATEWAY = "lab-metal", "10.94.7", "10.94.7.1"
TABLE = f"{TABLES}metal"
OWN = ("/etc/libvirt", "/run/libvirt", "/var/lib/libvirt", "/var/log/libvirt", "/var/cache/libvirt")
FIRMWARE = Path("/usr/share/OVMF")
NEEDED = ("libvirtd", "virtlogd", "virsh", "qemu-system-x86_64", "qemu-img")
PACKAGES = "libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients python3-libvirt qemu-system-x86 qemu-utils ovmf"
CONTROLLER_PORT = 8701
QEMU = """user = "root"
group = "root"
security_driver = "none"
namespaces = []
cgroup_controllers = []
remember_owner = 0
stdio_handler = "file"
"""
START = """
for folder in {own}; do
  mkdir -p $folder {folder}/own$folder
  mount --bind {folder}/own$folder $folder
done
cp {folder}/qemu.conf {folder}/libvirtd.conf /etc/libvirt/
for file in passwd group; do mount --bind {folder}/$file /etc/$file; done
libvirtd --daemon
virsh --quiet pool-define-as default dir --target {folder}/pool
virsh --quiet pool-start default
for file in {folder}/*.xml; do virsh --quiet define $file; done
for file in {folder}/*.conf.py; do
  {python} -c "$EMULATOR" --config $file >$file.log 2>&1 &
done
wait
"""
# The machine's own libvirt binding is for the machine's own Python, which is this one's release.
EMULATOR = (
    "import sys; sys.path.append('/usr/lib/python3/dist-packages'); "
    "from sushy_tools.emulator.main import main; sys.exit(main())"
)
DOMAIN = """<domain type="qemu">
  <name>{name}</name><uuid>{uuid}</uuid>
  <memory unit="MiB">{memory}</memory><vcpu>2</vcpu>
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


@dataclass(frozen=True)
class Machine:
    """One machine: its address once it has a system, and its controller's, which is one of the bridge's."""

    name: str
    number: int
    folder: Path
    disks: int = 1
    disk_gb: int = 8
    memory_mib: int = 1536
    has_secure_boot: bool = True

    @property
    def address(self) -> str:
        return f"{NETWORK}.{10 + self.number}"

    @property
    def controller(self) -> str:
        return f"{NETWORK}.{100 + self.number}"

    @property
    def mac(self) -> str:
        return f"52:54:00:94:07:{10 + self.number:02x}"

    @property
    def console(self) -> str:
        """What its serial line said."""
        file = self.folder / f"{self.name}.console"
        return file.read_text(errors="replace") if file.exists() else ""

    @property
    def disk(self) -> Path:
        """The file of its first disk."""
        return self.folder / f"{self.name}-a.qcow2"

    @property
    def variables(self) -> Path:
        """What its firmware begins with: with Microsoft's keys Secure Boot is on, without any it is off."""
        return FIRMWARE / f"OVMF_VARS_4M{'.ms' if self.has_secure_boot else ''}.fd"

    @property
    def allocated(self) -> int:
        """Bytes that its first disk takes on this machine: what was written to it."""
        return self.disk.stat().st_blocks * 512

    @property
    def orders(self) -> int:
        """How often its controller was told to change anything."""
        said = (self.folder / f"{self.name}.conf.py.log").read_text(errors="replace")
        return sum(
            said.count(f'"{method} /redfish') for method in ("POST", "PATCH", "PUT", "DELETE")
        )


def lacking() -> str:
    """The packages to install for a hall; "" where all is there."""
    told = run(("sh", "-c", f"for p in {' '.join(NEEDED)}; do command -v $p || exit 1; done"), check=False)  # fmt: skip
    return "" if told.returncode == 0 and FIRMWARE.exists() else PACKAGES


@contextmanager
def hall(folder: Path, machines: tuple[Machine, ...]) -> Iterator[Path]:
    """The machines, off; yields the certificate (PEM) of their controllers.

    A disk that lies in the folder already is taken as it is.
    """
    pem = certificate(folder, "bmc", GATEWAY)
    (folder / "pool").mkdir()
    (folder / "qemu.conf").write_text(QEMU)
    (folder / "libvirtd.conf").write_text('auth_unix_rw = "none"\nauth_unix_ro = "none"\n')
    # Libvirt looks its own account up before it reads that another one is wanted.
    for name, line in (("passwd", "libvirt-qemu:x:64055:64055::/:/bin/false"), ("group", "libvirt-qemu:x:64055:\nkvm:x:64056:")):  # fmt: skip
        (folder / name).write_text(f"{Path('/etc', name).read_text()}{line}\n")
    (folder / "users").write_text(f"{USER}:{bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()}\n")  # fmt: skip
    for machine in machines:
        _describe(folder, machine, pem)
    _bridge("add", machines)
    network.let_out(TABLE, IPv4Network(f"{NETWORK}.0/24"))
    script = START.format(own=" ".join(OWN), folder=folder, python=sys.executable)
    command = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-euc", script)  # fmt: skip
    with (folder / "hall.log").open("w") as log:
        running = subprocess.Popen(command, stdout=log, stderr=log, env={"EMULATOR": EMULATOR, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})  # fmt: skip
    try:
        for machine in machines:
            await_port(CONTROLLER_PORT, running, machine.controller)
        yield pem
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait(30)
        time.sleep(1)
        network.shut_in(TABLE)
        _bridge("delete", machines)


def _describe(folder: Path, machine: Machine, pem: Path) -> None:
    identity = str(uuid.uuid4())
    disks = []
    for letter in "abcd"[: machine.disks]:
        file = folder / f"{machine.name}-{letter}.qcow2"
        if not file.exists():
            size = f"{machine.disk_gb}G"
            run(("qemu-img", "create", "-q", "-f", "qcow2", str(file), size))
        disks.append(DISK.format(file=file, letter=letter, serial=f"{machine.name}-{letter}"))
    (folder / f"{machine.name}.xml").write_text(
        DOMAIN.format(
            name=machine.name,
            uuid=identity,
            memory=machine.memory_mib,
            code=FIRMWARE / "OVMF_CODE_4M.ms.fd",
            variables=machine.variables,
            folder=folder,
            bridge=BRIDGE,
            mac=machine.mac,
            disks="\n    ".join(disks),
        )
    )
    state = folder / f"{machine.name}.state"
    state.mkdir()
    (folder / f"{machine.name}.conf.py").write_text(
        f'SUSHY_EMULATOR_LIBVIRT_URI = "qemu:///system"\nSUSHY_EMULATOR_ALLOWED_INSTANCES = ["{identity}"]\n'
        f'SUSHY_EMULATOR_AUTH_FILE = "{folder}/users"\nSUSHY_EMULATOR_STATE_DIR = "{state}"\n'
        f'SUSHY_EMULATOR_LISTEN_IP = "{machine.controller}"\nSUSHY_EMULATOR_LISTEN_PORT = {CONTROLLER_PORT}\n'
        f'SUSHY_EMULATOR_SSL_CERT = "{pem}"\nSUSHY_EMULATOR_SSL_KEY = "{pem}"\n'
        # It knows one kind of variables from the other by this file, and takes it whenever it changes what is booted.
        f'SUSHY_EMULATOR_SECURE_BOOT_DISABLED_NVRAM = "{machine.variables}"\n'
        f'SUSHY_EMULATOR_BOOT_LOADER_MAP = {{"UEFI": {{"x86_64": "{FIRMWARE}/OVMF_CODE_4M.ms.fd"}}}}\n'
    )


def _bridge(what: str, machines: tuple[Machine, ...]) -> None:
    run(("ip", "link", "delete", BRIDGE), check=False)
    if what == "add":
        run(("ip", "link", "add", BRIDGE, "type", "bridge", "forward_delay", "0"))
        for address in (GATEWAY, *(machine.controller for machine in machines)):
            run(("ip", "address", "add", f"{address}/24", "dev", BRIDGE))
        run(("ip", "link", "set", BRIDGE, "up"))
