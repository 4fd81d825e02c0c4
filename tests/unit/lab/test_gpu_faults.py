"""A fault shows in the NVML state, in sysfs and in the kernel log, and clearing it leaves nothing."""

from pathlib import Path

import pytest

from appliance.errors import ApplianceError, ConfigError
from appliance.lab import faults, gpu_faults, kernel_log, nvml, spec, sysfs
from appliance.lab.fault import Fault
from appliance.lab.hardware import Hardware
from appliance.lab.spec import Rack, RackHost, RackSpec, numbered

IN_FILES = [fault for fault in gpu_faults.GPU_FAULTS if fault is not gpu_faults.STOPPED_MANAGER]
"""A service is stopped on a rack that runs only."""


@pytest.fixture
def rack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rack:
    monkeypatch.setattr(spec, "STATE_ROOT", tmp_path)
    # Machines are found by their names: not those of a rack that stands on this machine.
    return _made(numbered(RackSpec("nowhere", hosts=2), 1, {}))


def _made(rack: Rack) -> Rack:
    host = rack.host("gpu-1")
    host.root.mkdir(parents=True)
    nvml.write(host.root, nvml.without_driver(nvml.healthy_state(host.name, rack.hardware)))
    sysfs.write(host.root, rack, host)
    kernel_log.clear(host.root)
    return rack


@pytest.fixture
def gpu(rack: Rack) -> RackHost:
    return rack.host("gpu-1")


def _tree(host: RackHost) -> dict[str, str]:
    """Every file of the host that a fault may change."""
    files = (path for path in host.root.rglob("*") if path.is_file())
    return {str(path): path.read_text() for path in files}


def _state(host: RackHost) -> dict[str, dict[str, str]]:
    return nvml.parse((host.root / nvml.STATE_FILE).read_text())


@pytest.mark.parametrize("fault", IN_FILES, ids=lambda fault: fault.kind)
def test_every_fault_shows_and_is_cleared_without_a_trace(
    rack: Rack, gpu: RackHost, fault: Fault
) -> None:
    whole = {"xid": ("94", "3"), "wrong-driver": (), "wrong-fabric-manager": ()}
    arguments = whole.get(fault.kind, ("3",))
    healthy = _tree(gpu)
    faults.apply(rack, gpu, fault.kind, arguments)
    once = _tree(gpu)
    assert once != healthy
    if fault.kind != "xid":
        faults.apply(rack, gpu, fault.kind, arguments)
        assert _state(gpu) == nvml.parse(once[str(gpu.root / nvml.STATE_FILE)])
    faults.apply(rack, gpu, fault.kind, arguments, clear=True)
    assert _tree(gpu) == healthy


def test_only_the_named_gpu_is_hurt(rack: Rack, gpu: RackHost) -> None:
    before = _state(gpu)
    faults.apply(rack, gpu, "pcie-narrow", ("5",))
    after = _state(gpu)
    assert after.pop("gpu5") == {**before.pop("gpu5"), "pcie_width": "8"}
    assert after == before


def test_a_gpu_that_falls_off_says_so_in_three_places(rack: Rack, gpu: RackHost) -> None:
    faults.apply(rack, gpu, "gpu-off-bus", ("2",))
    assert _state(gpu)["gpu2"]["off_bus"] == "1"
    place = rack.hardware.gpu_place(2)
    assert not (gpu.root / sysfs.ROOT / "bus/pci/devices" / place.address).is_symlink()
    assert "(PCI:0000:47:00): 79," in (gpu.root / kernel_log.FILE).read_text()


def test_faults_add_up_and_are_cleared_one_by_one(rack: Rack, gpu: RackHost) -> None:
    for kind in ("thermal", "power-brake", "pcie-narrow", "gpu-off-bus"):
        faults.apply(rack, gpu, kind, ("0",))
    assert _state(gpu)["gpu0"]["throttle_reasons"] == str(0x8 | 0x40 | 0x80)
    assert _state(gpu)["gpu0"]["temperature"] == "90"
    faults.apply(rack, gpu, "thermal", ("0",), clear=True)
    assert _state(gpu)["gpu0"]["throttle_reasons"] == str(0x8 | 0x80)
    faults.apply(rack, gpu, "gpu-off-bus", ("0",), clear=True)
    device = gpu.root / sysfs.ROOT / "bus/pci/devices" / rack.hardware.gpu_place(0).address
    assert (device / "current_link_width").read_text() == "8\n"


def test_another_driver_replaces_the_one_before(rack: Rack, gpu: RackHost) -> None:
    faults.apply(rack, gpu, "wrong-driver")
    assert _state(gpu)["system"]["driver_version"] == gpu_faults.OTHER_DRIVER
    faults.apply(rack, gpu, "wrong-driver", ("470.1",))
    assert _state(gpu)["system"]["driver_version"] == "470.1"
    faults.apply(rack, gpu, "wrong-driver", clear=True)
    assert _state(gpu)["system"] == {"count": "8"}


def test_cards_without_bridges_have_no_link_to_lose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spec, "STATE_ROOT", tmp_path)
    cards = Hardware("a100-pcie", 4, "pcie", "none", 0, 0)
    rack = _made(numbered(RackSpec(hosts=2), 1, {}, cards))
    with pytest.raises(ApplianceError, match="no bridges"):
        faults.apply(rack, rack.host("gpu-1"), "nvlink-down", ("0",))


@pytest.mark.parametrize("arguments", [("8",), ("-1",), ("all",)])
def test_a_gpu_that_is_not_there_is_refused(
    rack: Rack, gpu: RackHost, arguments: tuple[str, ...]
) -> None:
    with pytest.raises(ApplianceError) as caught:
        faults.apply(rack, gpu, "ecc", arguments)
    assert caught.value.hint == "it has GPUs 0 to 7"


def test_a_host_that_does_not_run_has_nothing_to_stop(rack: Rack, gpu: RackHost) -> None:
    with pytest.raises(ApplianceError, match="does not run"):
        faults.apply(rack, gpu, "fabric-manager-stopped")


@pytest.mark.parametrize(
    "kind", ["ecc", "wrong-driver", "xid", "wrong-fabric-manager", "fabric-manager-stopped"]
)
def test_a_host_without_gpus_is_refused(rack: Rack, kind: str) -> None:
    with pytest.raises(ApplianceError, match="has no GPU"):
        faults.apply(rack, rack.host("head"), kind, ("0",))


@pytest.mark.parametrize("number", ["0", "x", "1000"])
def test_an_xid_is_a_number_the_driver_has(rack: Rack, gpu: RackHost, number: str) -> None:
    with pytest.raises(ConfigError, match="is not an Xid"):
        faults.apply(rack, gpu, "xid", (number,))


def test_an_ethernet_port_goes_down_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spec, "STATE_ROOT", tmp_path)
    ethernet = Hardware("a100-pcie", 4, "pcie", "Ethernet", 2, 100)
    rack = _made(numbered(RackSpec(hosts=2), 1, {}, ethernet))
    host = rack.host("gpu-1")
    port = host.root / sysfs.ROOT / sysfs.port_path("mlx5_1")
    healthy = _tree(host)
    faults.apply(rack, host, "port-down", ("mlx5_1",))
    faults.apply(rack, host, "port-errors", ("mlx5_1", "7"))
    assert (port / "state").read_text() == "1: DOWN\n"
    assert (port / "counters/symbol_error").read_text() == "7\n"
    faults.apply(rack, host, "port-down", ("mlx5_1",), clear=True)
    faults.apply(rack, host, "port-errors", ("mlx5_1",), clear=True)
    assert _tree(host) == healthy
