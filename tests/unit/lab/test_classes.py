"""A rack whose GPU hosts have different classes: the hardware, the fabric and the site that it pretends to."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from appliance.config.load import load_profile
from appliance.errors import ConfigError
from appliance.lab import netlist, seed, spec, sysfs
from appliance.lab.hardware import of_profile
from appliance.lab.spec import Rack, RackSpec

SPEC = RackSpec("mixed", 4, "balanced", classes="balanced=1,hpc=2")
CLASSES = {name: of_profile(load_profile(name)) for name in ("balanced", "hpc")}


def mixed() -> Rack:
    return spec.numbered(SPEC, 1, {}, CLASSES["hpc"], CLASSES)


def test_each_host_has_the_hardware_of_its_class() -> None:
    rack = mixed()
    counts = {host.name: rack.hardware_of(host.name).gpus for host in rack.hosts}
    assert counts == {"head": 8, "gpu-1": 4, "gpu-2": 8, "gpu-3": 8}
    gpus = [
        sum(path.endswith("/vendor") and "0x10de" in text for path, text in files.items())
        for host in rack.hosts
        for files in [sysfs.files(rack, host)]
    ]
    assert gpus == [0, 4, 8, 8]


def test_only_hosts_with_infiniband_are_in_the_simulated_fabric() -> None:
    rack = mixed()
    assert {hca.host for hca in netlist.hcas(rack)} == {"head", "gpu-1", "gpu-2", "gpu-3"}
    text = netlist.render(rack)
    assert "gpu-2 mlx5_7" in text
    assert "gpu-1 mlx5" not in text
    simulator = "etc/appliance/fabric-simulator"
    assert [simulator in seed.marks(rack, host) for host in rack.hosts] == [True, False, True, True]


def test_a_rack_is_read_again_as_it_was(tmp_path: Path) -> None:
    rack = mixed()
    (tmp_path / "rack.json").write_text(json.dumps(asdict(rack)))
    assert spec.read(tmp_path / "rack.json") == rack


def test_a_rack_of_one_class_has_one_hardware() -> None:
    rack = spec.numbered(RackSpec("one", 3), 1, {}, CLASSES["hpc"])
    assert rack.of_hosts == {}


def test_classes_that_are_not_as_many_as_the_gpu_hosts_are_refused() -> None:
    with pytest.raises(ConfigError, match="balanced=1,hpc=2 gives 3 GPU hosts"):
        RackSpec("mixed", 3, classes="balanced=1,hpc=2")
    with pytest.raises(ConfigError, match="the same class"):
        RackSpec("mixed", 3, classes="balanced=1,hpc=1", machines="vm")
