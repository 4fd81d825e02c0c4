"""The part of /sys a rack host pretends to have: GPUs and adapters on the PCI bus, their RDMA ports, memory and drives."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from appliance.lab import board
from appliance.lab.hardware import Hardware, PciAddress
from appliance.lab.netlist import Hca, hcas
from appliance.lab.spec import Rack, RackHost

ROOT = "var/lib/appliance-lab/sys"
SPEEDS = {1: "2.5 GT/s PCIe", 3: "8.0 GT/s PCIe", 4: "16.0 GT/s PCIe", 5: "32.0 GT/s PCIe"}
"""The kernel's notation of a PCIe generation."""
STATES = {"Down": "1: DOWN", "Init": "2: INIT", "Armed": "3: ARMED", "Active": "4: ACTIVE"}
PHYSICAL_STATES = {
    "Sleep": "1: Sleep",
    "Polling": "2: Polling",
    "Disabled": "3: Disabled",
    "Training": "4: PortConfigurationTraining",
    "LinkUp": "5: LinkUp",
    "ErrorRecovery": "6: LinkErrorRecovery",
}
COUNTERS = (
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "multicast_rcv_packets",
    "multicast_xmit_packets",
    "port_rcv_constraint_errors",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_data",
    "port_xmit_discards",
    "port_xmit_packets",
    "port_xmit_wait",
    "symbol_error",
    "unicast_rcv_packets",
    "unicast_xmit_packets",
)
HARDWARE_COUNTERS = (
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "np_cnp_sent",
    "rp_cnp_handled",
)


@dataclass(frozen=True)
class Adapter:
    """A network adapter's product: PCI device and class, and its properties in sysfs."""

    pci_device: int
    pci_class: str
    type: str
    board: str
    firmware: str


INFINIBAND_ADAPTER = Adapter(0x101B, "0x020700", "MT4123", "MT_0000000223", "20.43.8004")
FAST_ETHERNET_ADAPTER = Adapter(0x101D, "0x020000", "MT4125", "MT_0000000359", "22.48.1000")
ETHERNET_ADAPTER = Adapter(0x101F, "0x020000", "MT4127", "MT_0000000531", "26.48.1000")


def adapter(hardware: Hardware) -> Adapter:
    """ConnectX-6 for InfiniBand; its Dx kind for Ethernet from 100 Gb/s on, its Lx kind below."""
    if hardware.link_layer == "InfiniBand":
        return INFINIBAND_ADAPTER
    return FAST_ETHERNET_ADAPTER if hardware.rate >= 100 else ETHERNET_ADAPTER


def write(root: Path, rack: Rack, host: RackHost) -> None:
    """Create the whole tree below a host's root, with ports as they are before a subnet manager runs."""
    _write(root, files(rack, host), links(rack, host))


def write_gpus(
    root: Path, hardware: Hardware, changed: Mapping[int, Mapping[str, str] | None]
) -> None:
    """Bring the GPUs of a tree up to date: ``changed`` gives files of other content, None takes a GPU away."""
    for index in range(hardware.gpus):
        place = hardware.gpu_place(index)
        change = changed.get(index, {})
        if change is None:
            (root / ROOT / _on_bus(place)).unlink(missing_ok=True)
            shutil.rmtree(root / ROOT / _device(place), ignore_errors=True)
        else:
            own = {f"{_device(place)}/{name}": f"{text}\n" for name, text in change.items()}
            _write(root, _gpu(hardware, index) | own, {_on_bus(place): _device(place)})


def write_adapter(root: Path, rack: Rack, host: RackHost, hca: Hca) -> None:
    """Give a host an adapter, as new; nothing else of its tree changes."""
    place = _place(rack, host, hca)
    _write(
        root, _adapter_files(rack.hardware_of(host.name), place, hca), _adapter_links(place, hca)
    )


def remove_adapter(root: Path, rack: Rack, host: RackHost, hca: Hca) -> None:
    """Take an adapter off a host's bus."""
    place = _place(rack, host, hca)
    for path in (f"class/infiniband/{hca.device}", _on_bus(place)):
        (root / ROOT / path).unlink(missing_ok=True)
    shutil.rmtree(root / ROOT / _device(place), ignore_errors=True)


def files(rack: Rack, host: RackHost) -> dict[str, str]:
    """Every file of the tree by path, each with its newline as sysfs gives it."""
    hardware = rack.hardware_of(host.name)
    found: dict[str, str] = {}
    for index in range(hardware.gpus if host.is_gpu else 0):
        found |= _gpu(hardware, index)
    for hca in _own(rack, host):
        found |= _adapter_files(hardware, _place(rack, host, hca), hca)
    return found | board.memory(hardware) | board.drives()


def links(rack: Rack, host: RackHost) -> dict[str, str]:
    """Every symbolic link of the tree and its target, both as paths in the tree."""
    hardware = rack.hardware_of(host.name)
    found: dict[str, str] = {}
    places = [hardware.gpu_place(index) for index in range(hardware.gpus if host.is_gpu else 0)]
    for hca in _own(rack, host):
        found |= _adapter_links(_place(rack, host, hca), hca)
    return found | {_on_bus(place): _device(place) for place in places}


def port_files(state: str, physical: str, lid: int, sm_lid: int, rate: str) -> dict[str, str]:
    """The files of a port that follow the fabric; ``state`` and ``physical`` in ibsim's words."""
    return {
        "state": STATES.get(state, STATES["Down"]),
        "phys_state": PHYSICAL_STATES.get(physical, PHYSICAL_STATES["Polling"]),
        "lid": f"{lid:#x}",
        "sm_lid": f"{sm_lid:#x}",
        "rate": rate,
    }


def ethernet_port_files(hardware: Hardware, is_up: bool) -> dict[str, str]:
    """The same files of an Ethernet port, which needs no subnet manager and has no LID."""
    state = ("Active", "LinkUp") if is_up else ("Down", "Disabled")
    return port_files(*state, 0, 0, rate(hardware))


def rate(hardware: Hardware) -> str:
    """A port's rate as the kernel writes it."""
    lanes = {10: "1X QDR", 25: "1X EDR", 50: "1X HDR", 100: "4X EDR", 200: "4X HDR", 400: "4X NDR"}
    return f"{hardware.rate} Gb/sec ({lanes.get(hardware.rate, '4X')})"


def port_path(device: str) -> str:
    """Path of a port's files, below the tree's root."""
    return f"class/infiniband/{device}/ports/1"


def _write(root: Path, texts: Mapping[str, str], aims: Mapping[str, str]) -> None:
    """Write missing or changed files; readers of the other files are not affected."""
    for path, text in texts.items():
        target = root / ROOT / path
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    for path, aim in aims.items():
        target = root / ROOT / path
        if not target.is_symlink():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(os.path.relpath(aim, Path(path).parent))


def _own(rack: Rack, host: RackHost) -> list[Hca]:
    return [hca for hca in hcas(rack) if hca.host == host.name]


def _place(rack: Rack, host: RackHost, hca: Hca) -> PciAddress:
    return rack.hardware_of(host.name).port_place(hca.rail - 1, host.is_gpu)


def _adapter_files(hardware: Hardware, place: PciAddress, hca: Hca) -> dict[str, str]:
    kind = adapter(hardware)
    pci = _pci(place, "0x15b3", kind.pci_device, kind.pci_class, 4)
    port = {f"{_infiniband(place, hca)}/{p}": text for p, text in _hca(hardware, hca).items()}
    return {path: f"{text}\n" for path, text in (pci | port).items()}


def _adapter_links(place: PciAddress, hca: Hca) -> dict[str, str]:
    return {
        f"class/infiniband/{hca.device}": _infiniband(place, hca),
        f"{_infiniband(place, hca)}/device": _device(place),
        _on_bus(place): _device(place),
    }


def _device(place: PciAddress) -> str:
    return f"devices/{place.root}/{place.parent}/{place.address}"


def _on_bus(place: PciAddress) -> str:
    return f"bus/pci/devices/{place.address}"


def _infiniband(place: PciAddress, hca: Hca) -> str:
    return f"{_device(place)}/infiniband/{hca.device}"


def _gpu(hardware: Hardware, index: int) -> dict[str, str]:
    model = hardware.model
    place = hardware.gpu_place(index)
    found = _pci(place, "0x10de", model.pci_device, "0x030200", model.pcie_generation)
    return {path: f"{text}\n" for path, text in found.items()}


def _pci(place: PciAddress, vendor: str, device: int, kind: str, generation: int) -> dict[str, str]:
    values = {
        "vendor": vendor,
        "device": f"{device:#06x}",
        "class": kind,
        "numa_node": str(place.numa_node),
        "current_link_speed": SPEEDS[generation],
        "current_link_width": "16",
        "max_link_speed": SPEEDS[generation],
        "max_link_width": "16",
        **board.pcie_counters(),
    }
    return {f"{_device(place)}/{name}": value for name, value in values.items()}


def _hca(hardware: Hardware, hca: Hca) -> dict[str, str]:
    kind = adapter(hardware)
    found = {
        "board_id": kind.board,
        "fw_ver": kind.firmware,
        "hca_type": kind.type,
        "node_type": "1: CA",
        "node_guid": _colons(hca.guid),
        "sys_image_guid": _colons(hca.guid),
        "node_desc": hca.description,
        "ports/1/link_layer": hardware.link_layer,
        "ports/1/cap_mask": "0xa651e848" if hardware.has_subnet else "0x00010000",
        "ports/1/gids/0": f"fe80:0000:0000:0000:{_colons(hca.guid + 1)}",
        "ports/1/pkeys/0": "0xffff",
    }
    if hardware.has_subnet:
        state = port_files("Init", "LinkUp", 0, 0, rate(hardware))
    else:
        state = ethernet_port_files(hardware, True)
    found |= {f"ports/1/{name}": value for name, value in state.items()}
    found |= {f"ports/1/counters/{name}": "0" for name in COUNTERS}
    found |= {f"ports/1/hw_counters/{name}": "0" for name in HARDWARE_COUNTERS}
    return found


def _colons(guid: int) -> str:
    text = f"{guid:016x}"
    return ":".join(text[at : at + 4] for at in range(0, 16, 4))
