"""A rack of virtual machines before any is started: what it may be, what it needs, what its site and its firmware say."""

import os
from base64 import b64decode
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from appliance.config import document
from appliance.errors import ApplianceError, ConfigError
from appliance.lab import (
    fabric,
    fabric_follower,
    faults,
    firmware,
    hall,
    mounts,
    processes,
    requirements,
    site,
    spec,
    ssh,
    status,
    vms,
)
from appliance.lab.hardware import Hardware
from appliance.lab.netlist import hcas
from appliance.lab.spec import IMAGE_LAYER, Rack, RackSpec, numbered
from appliance.models.site import Site
from tests.support.fabric_dump import DUMP

ETHERNET = Hardware("a100-pcie", 4, "pcie", "Ethernet", 2, 25, 1)


def machines(**given: Any) -> Rack:
    made = RackSpec("t", **dict[str, Any](hosts=2, machines="vm") | given)
    return numbered(made, 3, {IMAGE_LAYER: "/images/debian-12"}, ETHERNET)


@pytest.mark.parametrize("given", [{"plain": "12"}, {"kubernetes": True}, {"driver": True}])
def test_what_virtual_machines_cannot_be_is_refused(given: Any) -> None:
    with pytest.raises(ConfigError, match="virtual machines come blank"):
        machines(**given)


def test_a_rack_is_of_containers_or_of_machines() -> None:
    with pytest.raises(ConfigError, match="no rack is made of cheese"):
        RackSpec(machines="cheese")


def test_no_two_machines_or_controllers_share_anything() -> None:
    rack = machines(hosts=32)
    found = vms.hall_of(rack).machines
    assert [m.address for m in found] == [h.address for h in rack.hosts]
    addresses = [address for m in found for address in (m.address, m.controller)]
    other = vms.hall_of(numbered(RackSpec("o", 32, machines="vm"), 4, {})).machines
    assert len({*addresses, str(rack.gateway)}) == 65
    assert not {m.mac for m in found} & {m.mac for m in other}


def test_its_site_names_image_ports_and_controllers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vms, "nameservers", lambda: ["192.0.2.1"])
    file = tmp_path / "site.yml"
    file.write_text(site.render(machines()))
    found = Site.model_validate(document.read(file).data)
    assert found.provision is not None
    assert found.provision.image == "/images/debian-12"
    assert [str(one) for one in found.networks["management"].dns] == ["192.0.2.1"]
    gpu = found.host("gpu-1")
    assert gpu.bmc is not None
    assert (str(gpu.address), gpu.mac, str(gpu.bmc.address), gpu.bmc.port) == (
        "10.94.3.11",
        "52:54:00:94:03:0b",
        "10.94.3.111",
        hall.PORT,
    )


def test_a_rack_of_containers_names_none_of_it() -> None:
    text = site.render(numbered(RackSpec("t"), 2, {}))
    assert not [word for word in ("provision", "bmc", "mac", "dns") if f"{word}:" in text]


def test_what_this_machine_lacks_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = {"qemu-system-x86_64", "libvirtd", "virsh", "xorriso"}
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(
        requirements,
        "missing",
        partial(requirements.missing, lambda program: None if program in absent else program),
    )
    monkeypatch.setattr(hall, "CODE", Path("/nowhere/OVMF"))
    monkeypatch.setattr(requirements, "BINDING", Path("/nowhere/libvirt.py"))
    with pytest.raises(ConfigError) as found:
        requirements.require(virtual=True)
    assert found.value.hint == (
        "apt-get install libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients "
        "qemu-system-x86 xorriso ovmf python3-libvirt"
    )
    assert "\n" not in found.value.message
    assert found.value.exit_code == 2
    assert requirements.missing() == ()


@pytest.mark.parametrize(("memory", "disk", "says"), [(7, 99, "8 GiB of memory"), (8, 11, "12 GiB of free space")])  # fmt: skip
def test_a_machine_that_is_too_small_is_told_before_anything_is_built(
    memory: int, disk: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requirements, "available_mib", lambda: memory << 10)
    monkeypatch.setattr(mounts, "free_gib", lambda _: disk)
    with pytest.raises(ConfigError, match=says):
        requirements.require_room(RackSpec(hosts=2, machines="vm"))


def test_one_that_is_large_enough_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "available_mib", lambda: 8 << 10)
    monkeypatch.setattr(mounts, "free_gib", lambda _: 12)
    requirements.require_room(RackSpec(hosts=2, machines="vm"))


def test_faults_of_containers_are_not_made_on_machines() -> None:
    rack = machines()
    with pytest.raises(ConfigError, match="these are virtual machines"):
        faults.apply(rack, rack.host("gpu-1"), "freeze")


def test_firmware_says_every_file_with_its_mode_and_every_link(tmp_path: Path) -> None:
    (tmp_path / "usr/local/sbin").mkdir(parents=True)
    tool = tmp_path / "usr/local/sbin/tool"
    tool.write_bytes(b"#!/bin/sh\n100 %\n")
    tool.chmod(0o755)
    (tmp_path / "var").mkdir()
    (tmp_path / "var/empty").touch(0o600)
    (tmp_path / "var/bus").symlink_to("../devices")
    said = [line.split() for line in firmware.lines(tmp_path).splitlines()]
    assert [words[:2] for words in said] == [["f~", "/usr/local/sbin/tool"], ["L", "/var/bus"], ["f", "/var/empty"]]  # fmt: skip
    assert said[0][2:6] == ["0755", "root", "root", "-"]
    assert b64decode(said[0][6]) == tool.read_bytes()
    assert said[1][-1] == "../devices"
    assert said[2][2:] == ["0600", "root", "root", "-"]


def test_hardware_that_firmware_cannot_hand_over_is_told(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(firmware.LARGEST))
    with pytest.raises(ApplianceError, match="more than firmware hands over"):
        firmware.lines(tmp_path)


def test_a_gpu_host_of_the_largest_class_fits_and_says_what_is_simulated(tmp_path: Path) -> None:
    library = tmp_path / vms.SIMULATOR_FILES[0]
    library.mkdir(parents=True)
    (library / "libumad2sim.so").write_bytes(bytes(40_000))
    rack = numbered(RackSpec("t", 2, machines="vm"), 3, {"base": str(tmp_path)}, Hardware())
    said = vms.hardware(rack, rack.host("gpu-1"))
    assert "d /run/appliance-lab 1777 root root -\n" in said
    assert f"/{vms.SIMULATOR_FILES[0]}/libumad2sim.so" in said
    assert "/etc/tmpfiles.d" not in said
    mark = next(line for line in said.splitlines() if "/etc/appliance/simulated.json" in line)
    assert '"host"' in b64decode(mark.split()[-1]).decode()


def test_a_machine_that_is_off_is_stopped_and_controllers_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spec, "STATE_ROOT", tmp_path)
    found = {"guest=r3-t-head,": 1}
    monkeypatch.setattr(processes, "with_argument", found.get)
    told = status.read(machines())
    assert [host.state for host in told.hosts] == ["running", "stopped"]
    assert (told.controllers, told.all_up) == ("stopped", False)
    assert "bmc      stopped" in status.table(told)


def test_a_process_is_known_by_the_beginning_of_an_argument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    for number, line in (("12", b"qemu\0-name\0guest=r3-t-head-2,debug\0"), ("13", b"sh\0-c\0echo guest=r3-t-head,\0"), ("14", b"qemu\0-name\0guest=r3-t-head,debug\0")):  # fmt: skip
        (tmp_path / number).mkdir()
        (tmp_path / number / "cmdline").write_bytes(line)
    monkeypatch.setattr(processes, "PROC", tmp_path)
    assert processes.with_argument("guest=r3-t-head,") == 14
    assert processes.with_argument("guest=r3-t-gpu-1,") is None


def test_machines_are_told_of_their_ports_by_ssh_once_and_again_after_they_were_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rack = numbered(RackSpec("t", 1, machines="vm"), 3, {}, Hardware())
    away: list[str] = []
    said: list[str] = []

    def on_host(rack: Rack, host: object, argv: tuple[str, ...]) -> object:
        said.extend(argv)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(fabric, "ask", lambda rack, line: DUMP)
    monkeypatch.setattr(ssh, "answers", lambda host, seconds: seconds > 1 and host.name not in away)
    monkeypatch.setattr(ssh, "on_host", on_host)
    told: dict[str, str] = {}
    fabric_follower.follow(rack, told)
    fabric_follower.follow(rack, told)
    assert len(said) == 1
    assert hcas(rack)[0].device in said[0]
    assert "echo '4: ACTIVE' >/var/lib/appliance-lab/sys/" in said[0]
    away.append("head")
    fabric_follower.follow(rack, told)
    away.clear()
    fabric_follower.follow(rack, told)
    assert len(said) == 2
