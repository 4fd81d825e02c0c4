"""The initial files of a host: its name, network, keys and simulated hardware."""

import json
import uuid
from importlib.resources import files
from pathlib import Path

from appliance.adapters.process import run
from appliance.lab import board, kernel_log, network, nvml, repository, sysfs
from appliance.lab.device_plugin import bundle as device_plugin
from appliance.lab.driver.packages import modprobe
from appliance.lab.hardware import Hardware
from appliance.lab.kubernetes_build import MOUNT_NFS
from appliance.lab.spec import Rack, RackHost

CLUSTER_UNIT = "appliance-lab-cluster.service"
SIMULATED_AREAS = ("gpu", "fabric")
FABRIC_TOOLS = (
    "dump_fts",
    "dump_lfts",
    "dump_mfts",
    "ibaddr",
    "ibhosts",
    "ibidsverify",
    "iblinkinfo",
    "ibnetdiscover",
    "ibnodes",
    "ibping",
    "ibportstate",
    "ibqueryerrors",
    "ibroute",
    "ibstat",
    "ibstatus",
    "ibswitches",
    "ibsysstat",
    "ibtracert",
    "opensm",
    "perfquery",
    "saquery",
    "sminfo",
    "smpdump",
    "smpquery",
)


def seed(rack: Rack, host: RackHost, client_key: str) -> None:
    """Write everything into the mounted root of a host that has never booted."""
    for name, text in texts(rack, host).items():
        _write(host.root / name, text)
    _write(host.root / "root/.ssh/authorized_keys", client_key, 0o600)
    (host.root / "root/.ssh").chmod(0o700)
    host_key(host)
    hardware(host.root, rack, host)
    if rack.spec.kubernetes:
        _mounts_nfs(host)
    if host.is_gpu:
        if rack.spec.driver:
            repository.preinstall(rack, host)
        if rack.spec.kubernetes:
            _write(host.root / device_plugin.PROGRAM, device_plugin.executable(), 0o755)
            _write(host.root / "etc/systemd/system" / device_plugin.UNIT, device_plugin.unit())


def hardware(root: Path, rack: Rack, host: RackHost) -> None:
    """Write the substitutes for the host's adapters, GPUs, memory, drives and kernel below ``root``."""
    for tool in FABRIC_TOOLS if rack.hardware_of(host.name).has_subnet else ():
        _write(root / "usr/local/sbin" / tool, _read("fabric-tool"), 0o755)
    sysfs.write(root, rack, host)
    for index in range(board.DRIVES):
        _write(root / board.PAGES / f"nvme{index}", board.health_page())
    if host.is_gpu:
        bare = nvml.without_driver(nvml.healthy_state(host.name, rack.hardware_of(host.name)))
        nvml.write(root, bare)
        for name, script in programs(rack.hardware_of(host.name)).items():
            _write(root / name, script, 0o755)
        kernel_log.clear(root)


def texts(rack: Rack, host: RackHost) -> dict[str, str]:
    """The host's configuration by file; paths relative to its root."""
    found = {
        "etc/hostname": f"{host.name}\n",
        "etc/machine-id": f"{uuid.uuid4().hex}\n",
        "etc/hosts": hosts_file(rack),
        "etc/resolv.conf": network.resolver(),
        "etc/default/locale": "LANG=C.UTF-8\n",
        "etc/systemd/network/10-host0.network": (
            f"[Match]\nName=host0\n\n[Network]\nAddress={host.address}/{rack.network.prefixlen}\n"
            f"Gateway={rack.gateway}\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n"
        ),
        "etc/ssh/sshd_config.d/10-lab.conf": (
            "PasswordAuthentication no\nPermitRootLogin prohibit-password\nUseDNS no\n"
        ),
    } | marks(rack, host)
    if rack.spec.kubernetes:
        found[f"etc/systemd/system/{CLUSTER_UNIT}"] = cluster_unit()
    return found


def cluster_unit() -> str:
    """Settings that give a container the control groups and kernel parameters of a cluster's host."""
    return _read("cluster.service")


def marks(rack: Rack, host: RackHost) -> dict[str, str]:
    """By file, the simulated hardware for a host's probe, tools and units."""
    mark = simulated(host)
    if not rack.spec.marked:
        mark["areas"] = []
    elif rack.spec.is_virtual:
        # Its processors and memory are its machine's, as a container's are.
        mark["areas"] = [*SIMULATED_AREAS, "host"]
    found = {
        "etc/tmpfiles.d/appliance-lab.conf": "d /run/appliance-lab 1777 root root -\n",
    }
    if rack.hardware_of(host.name).has_subnet:
        found["etc/appliance/fabric-simulator"] = (
            f"IBSIM_SERVER_NAME={rack.gateway}\nIBSIM_SERVER_PORT={rack.fabric_port}\n"
        )
        for unit in ("opensm", "opensm@"):
            found[f"etc/systemd/system/{unit}.service.d/50-lab.conf"] = _read(f"{unit}.conf")
    own = [f"/{name}" for name in found if name.startswith("etc/systemd/")]
    mark["files"] = [f"/etc/ssh/sshd_config.d/{name}.conf" for name in ("10-lab", "local")] + own
    found["etc/appliance/simulated.json"] = json.dumps(mark, indent=1) + "\n"
    return found


def simulated(host: RackHost) -> dict[str, object]:
    """The mark of every rack host, which shows that its facts are not from real hardware.

    A GPU host has a separate kernel log for its GPUs' messages.
    """
    mark: dict[str, object] = {
        "by": "appliance lab",
        "areas": list(SIMULATED_AREAS),
        "sysfs": f"/{sysfs.ROOT}",
        "nvme": f"/{board.PAGES}",
    }
    return mark | ({"kmsg": f"/{kernel_log.FILE}"} if host.is_gpu else {})


def hosts_file(rack: Rack) -> str:
    """Every host of the rack by name."""
    lines = [f"{host.address} {host.name}" for host in rack.hosts]
    return "\n".join(("127.0.0.1 localhost", "::1 localhost", *lines)) + "\n"


def programs(hardware: Hardware) -> dict[str, str]:
    """Programs of a GPU host that substitute for its kernel."""
    return {
        "usr/local/sbin/modprobe": modprobe(),
        "usr/local/sbin/appliance-lab-devices": device_script(hardware),
    }


def _mounts_nfs(host: RackHost) -> None:
    """Install the rack's mount.nfs for mount(8); a package with another one installs it under a diverted name."""
    for name in ("mount.nfs", "mount.nfs4"):
        place = f"/sbin/{name}"
        away = ("--no-rename", "--divert", f"{place}.kernel", "--add", place)
        run(("dpkg-divert", f"--root={host.root}", "--quiet", "--local", *away))
        (host.root / "usr/sbin" / name).symlink_to(f"/{MOUNT_NFS}")


def device_script(hardware: Hardware) -> str:
    """Makes the GPUs' device nodes, as the driver does when it is loaded."""
    nodes = [(f"nvidia{index}", index) for index in range(hardware.gpus)]
    nodes.append(("nvidiactl", 255))
    lines = [
        f"[ -e /dev/{name} ] || mknod -m 666 /dev/{name} c 195 {minor}" for name, minor in nodes
    ]
    return "#!/bin/sh\nset -e\n" + "\n".join(lines) + "\n"


def host_key(host: RackHost) -> None:
    """Create a new ssh key for the host."""
    folder = host.root / "etc/ssh"
    for old in folder.glob("ssh_host_*"):
        old.unlink()
    key = folder / "ssh_host_ed25519_key"
    run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", host.name, "-f", str(key)))


def public_host_key(host: RackHost) -> str:
    """The host's public key: type and key, without the comment."""
    text = (host.root / "etc/ssh/ssh_host_ed25519_key.pub").read_text(encoding="utf-8")
    return " ".join(text.split()[:2])


def _read(name: str) -> str:
    return files("appliance.lab").joinpath("templates", name).read_text(encoding="utf-8")


def _write(file: Path, content: str | bytes, mode: int | None = None) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    if mode is not None:
        file.chmod(mode)
