"""The part of /sys a rack host pretends to have: GPUs and HCAs on the PCI bus, and InfiniBand ports."""

import os
from pathlib import Path

from appliance.lab.hardware import (
    GPU_MODEL,
    GPUS_PER_HOST,
    PciAddress,
    gpu_pci,
    hca_pci,
    ports_of,
)
from appliance.lab.netlist import Hca, hcas
from appliance.lab.spec import Rack, RackHost

ROOT = "var/lib/appliance-lab/sys"
FIRMWARE = "20.41.1000"
BOARD_ID = "MT_0000000223"
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


def write(root: Path, rack: Rack, host: RackHost) -> None:
    """Make the whole tree below a host's root, its ports as they are before a subnet manager runs."""
    top = root / ROOT
    for path, text in files(rack, host).items():
        target = top / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    for path, aim in links(rack, host).items():
        target = top / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(os.path.relpath(aim, Path(path).parent))


def files(rack: Rack, host: RackHost) -> dict[str, str]:
    """Every file of the tree by path, each with its newline as sysfs gives it."""
    found: dict[str, str] = {}
    if host.is_gpu:
        for index in range(GPUS_PER_HOST):
            found |= _pci(gpu_pci(index), "0x10de", GPU_MODEL.pci_device_id >> 16, "0x030200")
    for index, hca in enumerate(_own(rack, host)):
        place = hca_pci(index)
        found |= _pci(place, "0x15b3", 0x101B, "0x020700")
        found |= {f"{_infiniband(place, hca)}/{p}": text for p, text in _hca(hca).items()}
    return {path: f"{text}\n" for path, text in found.items()}


def links(rack: Rack, host: RackHost) -> dict[str, str]:
    """Every symbolic link of the tree and what it leads to, both as paths in the tree."""
    found: dict[str, str] = {}
    places = [gpu_pci(index) for index in range(GPUS_PER_HOST)] if host.is_gpu else []
    for index, hca in enumerate(_own(rack, host)):
        place = hca_pci(index)
        places.append(place)
        found[f"class/infiniband/{hca.device}"] = _infiniband(place, hca)
        found[f"{_infiniband(place, hca)}/device"] = _device(place)
    found |= {f"bus/pci/devices/{place.address}": _device(place) for place in places}
    return found


def port_files(state: str, physical: str, lid: int, sm_lid: int, rate: str) -> dict[str, str]:
    """The files of a port that follow the fabric; ``state`` and ``physical`` in ibsim's words."""
    return {
        "state": STATES.get(state, STATES["Down"]),
        "phys_state": PHYSICAL_STATES.get(physical, PHYSICAL_STATES["Polling"]),
        "lid": f"{lid:#x}",
        "sm_lid": f"{sm_lid:#x}",
        "rate": rate,
    }


def port_path(device: str) -> str:
    """Where a port's files lie, below the tree's root."""
    return f"class/infiniband/{device}/ports/1"


def _own(rack: Rack, host: RackHost) -> list[Hca]:
    own = [hca for hca in hcas(rack) if hca.host == host.name]
    return own[: ports_of(host.is_gpu)]


def _device(place: PciAddress) -> str:
    return f"devices/{place.root}/{place.parent}/{place.address}"


def _infiniband(place: PciAddress, hca: Hca) -> str:
    return f"{_device(place)}/infiniband/{hca.device}"


def _pci(place: PciAddress, vendor: str, device: int, kind: str) -> dict[str, str]:
    speed = "16.0 GT/s PCIe"
    values = {
        "vendor": vendor,
        "device": f"{device:#06x}",
        "class": kind,
        "numa_node": str(place.numa_node),
        "current_link_speed": speed,
        "current_link_width": "16",
        "max_link_speed": speed,
        "max_link_width": "16",
    }
    return {f"{_device(place)}/{name}": value for name, value in values.items()}


def _hca(hca: Hca) -> dict[str, str]:
    found = {
        "board_id": BOARD_ID,
        "fw_ver": FIRMWARE,
        "hca_type": "MT4123",
        "node_type": "1: CA",
        "node_guid": _colons(hca.guid),
        "sys_image_guid": _colons(hca.guid),
        "node_desc": hca.description,
        "ports/1/link_layer": "InfiniBand",
        "ports/1/cap_mask": "0xa651e848",
        "ports/1/gids/0": f"fe80:0000:0000:0000:{_colons(hca.guid + 1)}",
        "ports/1/pkeys/0": "0xffff",
    }
    state = port_files("Init", "LinkUp", 0, 0, "200 Gb/sec (4X HDR)")
    found |= {f"ports/1/{name}": value for name, value in state.items()}
    found |= {f"ports/1/counters/{name}": "0" for name in COUNTERS}
    found |= {f"ports/1/hw_counters/{name}": "0" for name in HARDWARE_COUNTERS}
    return found


def _colons(guid: int) -> str:
    text = f"{guid:016x}"
    return ":".join(text[at : at + 4] for at in range(0, 16, 4))
