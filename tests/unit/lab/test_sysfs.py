"""The simulated /sys has the shape of the real one."""

from pathlib import Path

from appliance.lab import sysfs
from appliance.lab.spec import RackSpec, numbered

RACK = numbered(RackSpec(hosts=2), 1, {})
GPU = RACK.host("gpu-1")


def test_gpu_host_shows_eight_gpus_and_eight_ports(tmp_path: Path) -> None:
    sysfs.write(tmp_path, RACK, GPU)
    top = tmp_path / sysfs.ROOT
    vendors = [(device / "vendor").read_text() for device in (top / "bus/pci/devices").iterdir()]
    assert sorted(vendors) == ["0x10de\n"] * 8 + ["0x15b3\n"] * 8
    assert len(list((top / "class/infiniband").iterdir())) == 8


def test_port_leads_to_its_pci_device(tmp_path: Path) -> None:
    sysfs.write(tmp_path, RACK, GPU)
    device = tmp_path / sysfs.ROOT / "class/infiniband/mlx5_7/device"
    assert (device / "numa_node").read_text() == "1\n"
    assert (device / "vendor").read_text() == "0x15b3\n"
    target = str((tmp_path / sysfs.ROOT / "class/infiniband/mlx5_7").readlink())
    assert target.startswith("../../devices/pci0000:")


def test_port_waits_for_a_subnet_manager_at_first(tmp_path: Path) -> None:
    sysfs.write(tmp_path, RACK, GPU)
    port = tmp_path / sysfs.ROOT / sysfs.port_path("mlx5_0")
    assert (port / "state").read_text() == "2: INIT\n"
    assert (port / "rate").read_text() == "200 Gb/sec (4X HDR)\n"
    assert (port / "counters/symbol_error").read_text() == "0\n"


def test_head_has_a_port_and_no_gpu() -> None:
    found = sysfs.links(RACK, RACK.host("head"))
    assert [path for path in found if path.startswith("class/")] == ["class/infiniband/mlx5_0"]
    assert len([path for path in found if path.startswith("bus/pci/")]) == 1


def test_unknown_port_state_reads_as_down() -> None:
    assert sysfs.port_files("?", "?", 0, 0, "")["state"] == "1: DOWN"
