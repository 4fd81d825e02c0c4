"""The simulated /sys has the shape of the real one."""

from pathlib import Path

from appliance.lab import sysfs
from appliance.lab.hardware import Hardware
from appliance.lab.netlist import hcas
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


def test_cards_sit_on_a_bus_of_their_own_with_ethernet_beside_them(tmp_path: Path) -> None:
    hardware = Hardware("h100-pcie", 4, "pcie", "Ethernet", 2, 25, numa_nodes=1)
    rack = numbered(RackSpec(hosts=2), 1, {}, hardware)
    sysfs.write(tmp_path, rack, rack.host("gpu-1"))
    top = tmp_path / sysfs.ROOT
    devices = [(d / "device").read_text() for d in (top / "bus/pci/devices").iterdir()]
    assert sorted(devices) == ["0x101f\n"] * 2 + ["0x2331\n"] * 4
    speeds = {d.read_text() for d in top.glob("bus/pci/devices/*/current_link_speed")}
    assert speeds == {"16.0 GT/s PCIe\n", "32.0 GT/s PCIe\n"}
    assert {d.read_text() for d in top.glob("bus/pci/devices/*/numa_node")} == {"0\n"}
    port = top / sysfs.port_path("mlx5_1")
    assert (port / "link_layer").read_text() == "Ethernet\n"
    assert (port / "state").read_text() == "4: ACTIVE\n"
    assert (port / "rate").read_text() == "25 Gb/sec (1X EDR)\n"
    assert (port / "lid").read_text() == "0x0\n"


def test_a_gpu_can_leave_the_bus_and_return(tmp_path: Path) -> None:
    sysfs.write(tmp_path, RACK, GPU)
    top = tmp_path / sysfs.ROOT
    before = {str(path) for path in top.rglob("*")}
    gone = top / "bus/pci/devices" / RACK.hardware.gpu_place(2).address
    sysfs.write_gpus(tmp_path, RACK.hardware, {2: None, 3: {"current_link_width": "8"}})
    assert not gone.is_symlink()
    narrow = top / "bus/pci/devices" / RACK.hardware.gpu_place(3).address / "current_link_width"
    assert narrow.read_text() == "8\n"
    sysfs.write_gpus(tmp_path, RACK.hardware, {})
    assert {str(path) for path in top.rglob("*")} == before
    assert narrow.read_text() == "16\n"


def test_what_is_as_it_should_be_is_not_written_again(tmp_path: Path) -> None:
    sysfs.write(tmp_path, RACK, GPU)
    place = RACK.hardware.gpu_place(0).address
    file = tmp_path / sysfs.ROOT / "bus/pci/devices" / place / "vendor"
    before = file.stat()
    sysfs.write_gpus(tmp_path, RACK.hardware, {1: None})
    assert file.stat().st_mtime_ns == before.st_mtime_ns


def test_an_adapter_goes_from_both_buses_and_comes_back_as_it_was(tmp_path: Path) -> None:
    def tree() -> set[str]:
        return {str(path) for path in tmp_path.rglob("*") if not path.is_dir()}

    sysfs.write(tmp_path, RACK, GPU)
    whole = tree()
    hca = next(h for h in hcas(RACK) if (h.host, h.device) == ("gpu-1", "mlx5_7"))
    sysfs.remove_adapter(tmp_path, RACK, GPU, hca)
    sysfs.remove_adapter(tmp_path, RACK, GPU, hca)
    left = tmp_path / sysfs.ROOT
    assert not (left / "class/infiniband/mlx5_7").is_symlink()
    assert len(list((left / "bus/pci/devices").iterdir())) == 15
    sysfs.write_adapter(tmp_path, RACK, GPU, hca)
    assert tree() == whole
