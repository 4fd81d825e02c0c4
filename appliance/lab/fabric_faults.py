"""Faults of a rack's simulated fabric: cables, ports, adapters, counters."""

import re
import time
from collections.abc import Sequence
from pathlib import Path

from appliance.adapters.process import run
from appliance.errors import ApplianceError, ConfigError
from appliance.lab import cables, cgroups, fabric, sysfs
from appliance.lab.cables import End, home, plug
from appliance.lab.fabric_follower import ports
from appliance.lab.fault import Action, Fault
from appliance.lab.netlist import LEAVES, SPINE_SWITCHES, Hca, Switch, hcas
from appliance.lab.spec import Rack, RackHost
from appliance.stages.fabric import ids as fabric_ids

OLD_FIRMWARE = "38.1002"
SYMBOL_ERRORS, LINK_LOSSES = "500", "3"
MOST = {"SymbolErrorCounter": 0xFFFF, "LinkDownedCounter": 0xFF}
HALF_WIDTH, FULL_WIDTH = "16", "3"
"""Width enabled as PortInfo codes it: 2x; 1x and 4x."""
LANES = {HALF_WIDTH: "(2X ", FULL_WIDTH: "(4X "}
"""The suffix of a rate in the kernel's notation."""
ATTEMPTS, SWEPT_S = 5, 2.0


def _port_down(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    _set_link(rack, host, _hca(rack, host, arguments[0]), False)


def _port_up(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    _set_link(rack, host, _hca(rack, host, arguments[0]), True)


def _set_link(rack: Rack, host: RackHost, hca: Hca, is_up: bool) -> None:
    """sysfs follows the InfiniBand fabric by itself; an Ethernet port is nothing but its files."""
    if rack.hardware_of(host.name).has_subnet:
        cables.connect(rack, {plug(hca): home(hca) if is_up else None})
        return
    for name, text in sysfs.ethernet_port_files(rack.hardware_of(host.name), is_up).items():
        (_port(host, hca) / name).write_text(f"{text}\n", encoding="utf-8")


def _narrow(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    _set_width(rack, host, _hca(rack, host, arguments[0]), HALF_WIDTH)


def _widen(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    _set_width(rack, host, _hca(rack, host, arguments[0]), FULL_WIDTH)


def _set_width(rack: Rack, host: RackHost, hca: Hca, width: str) -> None:
    """Sets both ends, because the subnet manager writes its reading to both, and ibsim keeps the last value.

    A subnet manager in a sweep may have read the old values and writes them, so they are set again.
    """
    _needs_infiniband(rack)
    now = cables.wiring(rack)
    far = now.cables.get(plug(hca))
    if far is None:
        raise ApplianceError(f"{hca.device} of {host.name} has no cable", "clear its fault first")
    for end in (plug(hca), far):
        if not now.lids.get(end.node):
            raise ApplianceError(
                f"{hca.device} of {host.name} has no address yet",
                "the subnet manager assigns it: appliance deploy --until fabric",
            )
    for _ in range(ATTEMPTS):
        for end in (plug(hca), far):
            _on(host, ("ibportstate", str(now.lids[end.node]), str(end.port), "width", width))
        time.sleep(SWEPT_S)
        if LANES[width] in ports(fabric.ask(rack, "Dump"))[hca.node_id].get("rate", ""):
            return
    raise ApplianceError(
        f"the subnet manager undoes the width of {hca.device} of {host.name}",
        "try again after it has settled; its log is /var/log/opensm.*.log on its host",
    )


def _swap(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    _needs_infiniband(rack)
    one, other = _two(rack, host, arguments)
    cables.connect(rack, {plug(one): home(other), plug(other): home(one)})


def _put_back(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    _needs_infiniband(rack)
    cables.connect(rack, {plug(hca): home(hca) for hca in _two(rack, host, arguments)})


def _double(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    _needs_infiniband(rack)
    moved, beside = _two(rack, host, arguments)
    leaf = LEAVES[beside.rail - 1]
    at = cables.wiring(rack).cables.get(plug(moved))
    if at is None or at.node != leaf.node_id:
        cables.connect(rack, {plug(moved): cables.spare(rack, leaf)})


def _take_away(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    """The adapter drops off its bus: its port is down, and neither PCI nor RDMA lists it."""
    hca = _hca(rack, host, arguments[0])
    if rack.hardware_of(host.name).has_subnet:
        cables.connect(rack, {plug(hca): None})
    sysfs.remove_adapter(host.root, rack, host, hca)


def _bring_back(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    hca = _hca(rack, host, arguments[0])
    sysfs.write_adapter(host.root, rack, host, hca)
    _set_link(rack, host, hca, True)


def _age(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    kind = sysfs.adapter(rack.hardware_of(host.name)).firmware.split(".")[0]
    usual = f"{kind}.{OLD_FIRMWARE}"
    wanted = arguments[1] if len(arguments) > 1 else usual
    if not re.fullmatch(r"\d+\.\d+\.\d+", wanted):
        raise ConfigError(f'"{wanted}" is not a firmware version', f"as {usual}")
    _write_firmware(rack, host, arguments, wanted)


def _renew(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    _write_firmware(rack, host, arguments, sysfs.adapter(rack.hardware_of(host.name)).firmware)


def _write_firmware(rack: Rack, host: RackHost, arguments: Sequence[str], version: str) -> None:
    device = _hca(rack, host, arguments[0]).device
    (host.root / sysfs.ROOT / "class/infiniband" / device / "fw_ver").write_text(
        f"{version}\n", encoding="utf-8"
    )


def _cut_trunk(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    leaf_end, _ = _trunk(rack, arguments)
    cables.connect(rack, {leaf_end: None})


def _mend_trunk(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
    leaf_end, spine_end = _trunk(rack, arguments)
    cables.connect(rack, {leaf_end: spine_end})


def _trunk(rack: Rack, arguments: Sequence[str]) -> tuple[End, End]:
    _needs_infiniband(rack)
    spine = arguments[1] if len(arguments) > 1 else SPINE_SWITCHES[-1].description
    return cables.trunk(_switch(LEAVES, arguments[0]), _switch(SPINE_SWITCHES, spine))


def _switch(known: Sequence[Switch], name: str) -> Switch:
    for switch in known:
        if switch.description == name:
            return switch
    raise ApplianceError(
        f'"{name}" is not a switch of that kind',
        f"one of {', '.join(switch.description for switch in known)}",
    )


def _counting(field: str, file: str, usual: str) -> tuple[Action, Action]:
    """Set a counter in the fabric's tools, and in the host's own sysfs."""

    def count(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
        wanted = arguments[1] if len(arguments) > 1 else usual
        if not wanted.isdigit() or int(wanted) > MOST[field]:
            raise ConfigError(f'"{wanted}" is not a count of errors', f"0 to {MOST[field]}")
        _write(rack, host, _hca(rack, host, arguments[0]), int(wanted))

    def forget(rack: Rack, host: RackHost, arguments: Sequence[str]) -> None:
        _write(rack, host, _hca(rack, host, arguments[0]), 0)

    def _write(rack: Rack, host: RackHost, hca: Hca, number: int) -> None:
        if rack.hardware_of(host.name).has_subnet:
            fabric.ask(rack, f"PerformanceSet {plug(hca)} PortCounters.{field}={number}")
        (_port(host, hca) / "counters" / file).write_text(f"{number}\n", encoding="utf-8")

    return count, forget


def _port(host: RackHost, hca: Hca) -> Path:
    return host.root / sysfs.ROOT / sysfs.port_path(hca.device)


def _two(rack: Rack, host: RackHost, arguments: Sequence[str]) -> tuple[Hca, Hca]:
    one, other = (_hca(rack, host, name) for name in arguments[:2])
    if one == other:
        raise ConfigError(f"{one.device} twice", "name two adapters of the host")
    return one, other


def _hca(rack: Rack, host: RackHost, name: str) -> Hca:
    own = {hca.device: hca for hca in hcas(rack) if hca.host == host.name}
    if name not in own:
        raise ApplianceError(f"{host.name} has no {name}", f"it has {', '.join(own) or 'no ports'}")
    return own[name]


def _needs_infiniband(rack: Rack) -> None:
    if not rack.hardware.has_subnet:
        raise ApplianceError(
            f"rack {rack.name} has Ethernet ports and no simulated cables",
            "a rack of profile hpc has InfiniBand",
        )


def _on(host: RackHost, argv: tuple[str, ...]) -> None:
    init = cgroups.init(host)
    if init is None:
        raise ApplianceError(f"{host.name} does not run", "appliance lab up starts it")
    done = run(("nsenter", "--target", str(init), "--all", *argv), check=False)
    if done.returncode:
        raise ApplianceError(
            f"{host.name}: {argv[0]}: {(done.stderr or done.stdout).strip()[-120:]}",
            "the fabric's tools come with stage fabric: appliance deploy --until fabric",
        )


_count_symbols, _forget_symbols = _counting("SymbolErrorCounter", "symbol_error", SYMBOL_ERRORS)
_count_losses, _forget_losses = _counting("LinkDownedCounter", "link_downed", LINK_LOSSES)

FABRIC_FAULTS = (
    Fault(
        "port-down",
        "the port's cable is unplugged",
        _port_down,
        _port_up,
        "DEVICE",
        1,
        ("mlx5_2",),
        fabric_ids.STATE,
        "HOST/mlx5_2",
        "port 1 is DOWN, Polling: no signal: the cable is missing or broken, or nothing is at its far end",
        drains=True,
    ),
    Fault(
        "port-rate",
        "the port's cable runs at half its width",
        _narrow,
        _widen,
        "DEVICE",
        1,
        ("mlx5_3",),
        fabric_ids.RATE,
        "HOST/mlx5_3",
        "half the rate, 100 of 200 Gb/s: the link trained at a lower width or speed",
        drains=True,
    ),
    Fault(
        "port-errors",
        f"the port has counted symbol errors (default {SYMBOL_ERRORS})",
        _count_symbols,
        _forget_symbols,
        "DEVICE [COUNT]",
        1,
        ("mlx5_4",),
        fabric_ids.ERRORS,
        "HOST/mlx5_4",
        "symbol_error grew by 500 in *: the signal is bad: a cable, connector or transceiver",
    ),
    Fault(
        "port-flapping",
        f"the port's link was lost and came back (default {LINK_LOSSES} times)",
        _count_losses,
        _forget_losses,
        "DEVICE [COUNT]",
        1,
        ("mlx5_5",),
        fabric_ids.ERRORS,
        "HOST/mlx5_5",
        "link_downed grew by 3 in *: the link goes down and comes back (flapping)",
    ),
    Fault(
        "cables-swapped",
        "the cables of two of its adapters are exchanged at the switches",
        _swap,
        _put_back,
        "DEVICE OTHER",
        2,
        ("mlx5_1", "mlx5_6"),
        fabric_ids.CABLING,
        "HOST/mlx5_1",
        "two cables are swapped: mlx5_1 of * is in port * of leaf-7, mlx5_6 of * is in port * of leaf-2",
    ),
    Fault(
        "cable-doubled",
        "the adapter's cable is in the leaf of another of its adapters",
        _double,
        _put_back,
        "DEVICE OTHER",
        2,
        ("mlx5_2", "mlx5_5"),
        fabric_ids.CABLING,
        "HOST/mlx5_2",
        "mlx5_2 of * is in port 33 of leaf-6, but belongs in leaf-3; leaf-6 already has mlx5_5 of *",
    ),
    Fault(
        "hca-missing",
        "the adapter dropped off the PCI bus",
        _take_away,
        _bring_back,
        "DEVICE",
        1,
        ("mlx5_7",),
        fabric_ids.PORTS,
        "HOST/mlx5_7",
        "mlx5_7 is missing: 7 InfiniBand ports, the class has 8",
        drains=True,
    ),
    Fault(
        "firmware",
        "the adapter has another firmware (by default an old one)",
        _age,
        _renew,
        "DEVICE [VERSION]",
        1,
        ("mlx5_6",),
        fabric_ids.FIRMWARE,
        "HOST/mlx5_6",
        "mlx5_6 has firmware 20.38.1002, ConnectX-6 requires 20.43.8002 or newer (of older branches: 20.39.8002)",
    ),
    Fault(
        "switch-link-missing",
        "the cable between a leaf and a spine (default the last) is unplugged",
        _cut_trunk,
        _mend_trunk,
        "LEAF [SPINE]",
        1,
        ("leaf-4",),
        fabric_ids.CABLING,
        "cluster",
        "0 of 1 cables between leaf-4 and spine-2 are up",
    ),
)
