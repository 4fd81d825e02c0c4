"""The look-alike packages: names and versions as in NVIDIA's repository, and every one marked as simulated."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.process import run
from appliance.config import data, document
from appliance.lab import deb, nvml
from appliance.lab.deb import File, Package
from appliance.lab.driver.packages import Driver, drivers_of, of_driver, others
from appliance.lab.hardware import DRIVERS
from appliance.lab.recipe import LIB_FOLDER


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    for name in (f"{LIB_FOLDER}/{nvml.SONAME}", str(nvml.TOOL)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"built elsewhere")
    return tmp_path


@pytest.mark.parametrize("branch", DRIVERS)
def test_each_branch_comes_in_two_versions_the_newer_being_the_racks(branch: str) -> None:
    older, newer = drivers_of(branch)
    assert (older.branch, newer.branch) == (branch, branch)
    assert newer.version == DRIVERS[branch][0]
    assert [int(n) for n in older.version.split(".")] < [int(n) for n in newer.version.split(".")]


def test_what_the_role_asks_nvidias_repository_for_is_there(layer: Path) -> None:
    content = document.read(data.root() / "roles/gpu/vars/Debian.yml").data
    assert isinstance(content, dict)
    wanted = {
        *content["__gpu_driver_entries"]["nvidia"]["open"],
        *content["__gpu_driver_entries"]["nvidia"]["proprietary"],
        *(name for name in content["__gpu_other_names"]["nvidia"] if "{{" not in name),
    }
    offered = {
        package.name for package in (*of_driver(Driver("580.178.04"), layer), *others("580"))
    }
    assert wanted <= offered
    assert "datacenter-gpu-manager-4-cuda13" in offered
    assert "nvidia-fabricmanager" in offered


def test_every_package_says_that_it_is_simulated(layer: Path) -> None:
    found = (*of_driver(Driver("580.178.04"), layer), *others("580"))
    assert [package.name for package in found if "simulated" not in package.summary] == []


def test_a_driver_that_does_not_load_differs_in_its_kernel_modules_only(layer: Path) -> None:
    sound, dead = (of_driver(Driver("580.105.08", loads), layer) for loads in (True, False))
    different = [a.name for a, b in zip(sound, dead, strict=True) if a != b]
    assert different == ["nvidia-kernel-open-dkms", "nvidia-kernel-dkms"]


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb to build a package")
def test_dpkg_reads_what_was_built(tmp_path: Path) -> None:
    package = Package(
        "fan",
        "1:2.0-1",
        "a fan (simulated)",
        {"usr/bin/fan": File("#!/bin/sh\n", 0o755), "etc/fan.conf": File("speed=1\n")},
        {"usr/bin/ventilator": "fan"},
        {"Depends": "blades (= 3)"},
    )
    made = deb.build(package, tmp_path)
    assert made.name == "fan_2.0-1_all.deb"
    asked = run(("dpkg-deb", "-f", str(made), "Version", "Depends")).stdout
    assert asked == "Version: 1:2.0-1\nDepends: blades (= 3)\n"
    listing = run(("dpkg-deb", "-c", str(made))).stdout
    assert "-rwxr-xr-x root/root" in listing
    assert "./usr/bin/ventilator -> fan" in listing
    paragraph = deb.index(package, made)
    assert f"Size: {made.stat().st_size}\n" in paragraph
    assert "Filename: ./fan_2.0-1_all.deb\n" in paragraph
    assert [entry.name for entry in tmp_path.iterdir()] == [made.name]


@pytest.mark.parametrize("told", [True, False])
def test_the_exporter_names_the_pod_that_holds_a_gpu_where_it_is_told_to(
    told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = '[{"namespace": "n", "pod": "p", "container": "c", "devices": ["GPU-1"]}]'
    plugin, tool = tmp_path / "plugin", tmp_path / "nvidia-smi"
    plugin.write_text(f"#!/bin/sh\n[ \"$1\" = pods ] && echo '{held}'\n")
    tool.write_text("#!/bin/sh\necho '0, GPU-0, 30, 60.00, 0'; echo '1, GPU-1, 31, 61.00, 0'\n")
    for file in (plugin, tool):
        file.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("DCGM_EXPORTER_KUBERNETES", "true" if told else "")
    text = data.root().joinpath("appliance/lab/driver/dcgm-exporter").read_text()
    program: dict[str, Any] = {}
    exec(text.partition("\nHTTPServer(")[0], program)
    program["PODS"][0] = str(plugin)
    of = ',namespace="n",pod="p",container="c"' if told else ""
    lines = program["metrics"]().splitlines()
    assert f'DCGM_FI_DEV_GPU_UTIL{{gpu="1",UUID="GPU-1",simulated="true"{of}}} 0' in lines
    assert 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-0",simulated="true"} 0' in lines
