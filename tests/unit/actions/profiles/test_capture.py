"""A profile from a host that is as it should be."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from appliance.actions.profiles import capture as action
from appliance.actions.profiles.captured_hardware import shown_hardware
from appliance.actions.sites.opening import Target
from appliance.adapters.process import Completed
from appliance.checks.check import View
from appliance.config.load import load_profile
from appliance.engine.session import Session
from appliance.errors import ConfigError
from appliance.models.result import Status
from appliance.stages.base.checks import size
from appliance.stages.fabric.checks import ports
from appliance.stages.gpu.checks import inventory, links
from tests.support.engine_fakes import FakeHosts, Recorder
from tests.support.engine_session import hosts, recorder, session
from tests.support.facts import facts_of

__all__ = ["hosts", "recorder", "session"]
GIB = 1 << 30
GPU: dict[str, Any] = {
    "name": "NVIDIA A30",
    "memory": 24 * GIB,
    "nvlinks_active": 0,
    "pcie_max_generation": 4,
    "pcie_max_width": 16,
    "pcie_generation": 4,
    "pcie_width": 16,
}
PORT: dict[str, Any] = {
    "port": 1,
    "state": "ACTIVE",
    "physical": "LinkUp",
    "link_layer": "InfiniBand",
}
JUDGES = (
    inventory.judge_count,
    inventory.judge_model,
    inventory.judge_memory,
    links.judge_pcie,
    ports.judge_ports,
    ports.judge_rate,
    size.judge_cpu,
    size.judge_memory_size,
    size.judge_numa,
)


def golden(host: str = "gpu-1", gpus: Sequence[dict[str, Any]] = ({}, {}), **changes: Any) -> Any:
    """A machine with these GPUs, two fast ports and one of storage."""
    devices = [
        GPU | {"index": i, "uuid": f"GPU-{i}", "bus_id": f"00000000:0{i}:00.0"} | gpu
        for i, gpu in enumerate(gpus)
    ]
    adapters = [PORT | {"device": f"mlx5_{i}", "rate": 200.0} for i in range(2)]
    adapters += [PORT | {"device": "mlx5_2", "rate": 25.0, "link_layer": "Ethernet"}]
    shown: dict[str, Any] = {
        "pci_gpus": len(devices),
        "pci_gpu_ids": [gpu["bus_id"] for gpu in devices],
        "gpus": {"driver": "580.1", "nvml": "13", "devices": devices},
        "ports": adapters,
        "memory": {"total": 515 * GIB},
        "numa": [{"node": n, "cpus": "0-47", "memory": GIB} for n in range(2)],
        "disks": [
            {"name": "nvme0n1", "size": 480 * GIB},
            {"name": "nvme1n1", "size": 3500 * GIB},
        ],
        "filesystems": [
            {
                "at": at,
                "source": of,
                "type": "ext4",
                "size": size * GIB,
                "free": 0,
                "inodes_free": 0,
            }
            for at, of, size in (("/", "/dev/nvme0n1p2", 470), ("/scratch", "/dev/nvme1n1", 3400))
        ],
    }
    return facts_of(host, **{**shown, **changes})


@pytest.fixture
def opened(session: Session, hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch) -> Session:
    def answer(host: str, argv: Sequence[str]) -> Completed:
        return Completed(tuple(argv), 0, golden(host).model_dump_json(), "")

    hosts.answer = answer

    class Opened:
        def __enter__(self) -> Session:
            return session

        def __exit__(self, *error: object) -> None:
            pass

    monkeypatch.setattr(action, "open_session", lambda *_, **__: Opened())
    return session


def test_what_a_host_shows_passes_the_profile_captured_from_it(
    opened: Session, tmp_path: Path
) -> None:
    file = tmp_path / "mine.yml"
    found = action.capture(Target(), "gpu-1", "mine", Recorder())
    action.write(found, file)
    profile = load_profile(file)
    assert profile == found.profile
    view = View(profile, opened.site, {"gpu-1": golden()})
    host = next(h for h in opened.site.hosts if h.name == "gpu-1")
    for judge in JUDGES:
        results = list(judge(view, host, golden()))
        assert results, judge
        assert {r.status for r in results} == {Status.PASS}, judge


def test_the_rest_is_the_sites_profiles(opened: Session) -> None:
    found = action.capture(Target(), "gpu-1", "mine", Recorder()).profile
    kept = {"name", "title", "hardware"}
    assert found.model_dump(exclude=kept) == opened.profile.model_dump(exclude=kept)
    assert found.title == "2 x NVIDIA A30, captured from gpu-1"


def shown(opened: Session, **changes: Any) -> dict[str, Any]:
    return shown_hardware(golden(**changes), opened.site)


def test_bounds_are_what_another_host_like_it_reaches(opened: Session) -> None:
    assert shown(opened) == {
        "gpu.count": 2,
        "gpu.models": ["NVIDIA A30"],
        "gpu.memory_gib": 24,
        "gpu.interconnect": "pcie",
        "gpu.pcie_generation": 4,
        "gpu.pcie_width": 16,
        "fabric.link_layer": "InfiniBand",
        "fabric.ports": 2,
        "fabric.rate_gbps": 200,
        "host.sockets": 2,
        "host.cores": 96,
        "host.memory_gib": 504,
        "host.numa_nodes": 2,
        "host.system_disk_gib": 480,
        "host.scratch_disk_gib": 3332,
    }


@pytest.mark.parametrize(
    ("gpu", "interconnect"),
    [
        ({"nvlinks_active": 12, "name": "NVIDIA A100-SXM4-80GB"}, "nvswitch"),
        ({"nvlinks_active": 12, "name": "NVIDIA A100 80GB PCIe"}, "nvlink-bridge"),
        ({"nvlinks_active": 0, "name": "NVIDIA A100 80GB PCIe"}, "pcie"),
        ({"nvlinks_active": 0, "name": "NVIDIA A100-SXM4-80GB", "mig_enabled": True}, None),
        ({"nvlinks_active": None}, None),
    ],
)
def test_how_gpus_are_linked_is_said_only_where_the_links_show_it(
    gpu: dict[str, Any], interconnect: str | None, opened: Session
) -> None:
    assert shown(opened, gpus=(gpu, gpu)).get("gpu.interconnect") == interconnect


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"os": {"container": "systemd-nspawn"}}, "host.cores"),
        (
            {"ports": [PORT | {"device": n, "rate": r} for n, r in (("a", 200.0), ("b", 100.0))]},
            "fabric.rate_gbps",
        ),
        ({"ports": [PORT | {"device": "a", "rate": 10.0, "state": "DOWN"}]}, "fabric.rate_gbps"),
        ({"errors": {"fabric": "Permission denied"}}, "fabric.ports"),
        ({"errors": {"cpu": "Permission denied"}}, "host.memory_gib"),
        ({"gpus": None}, "gpu.models"),
        ({"gpus": ({}, {"name": ""})}, "gpu.models"),
        ({"ports": []}, "fabric.link_layer"),
        ({"disks": []}, "host.system_disk_gib"),
        ({"filesystems": []}, "host.scratch_disk_gib"),
        ({"gpus": ({"pcie_max_width": None}, {})}, "gpu.pcie_width"),
        ({"gpus": ({}, {"name": "NVIDIA A10"})}, "gpu.models"),
        ({"pci_gpus": 3}, "gpu.memory_gib"),
    ],
)
def test_what_a_host_does_not_show_is_left_out(
    changes: dict[str, Any], missing: str, opened: Session
) -> None:
    facts = golden(**{k: v for k, v in changes.items() if v is not None})
    if changes.get("gpus", "") is None:
        facts = facts.model_copy(update={"gpus": None})
    assert missing not in shown_hardware(facts, opened.site)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gpus": ()}, "no GPUs on its PCI bus"),
        ({"gpus": ({}, {"name": "NVIDIA A10"})}, "its GPUs differ: NVIDIA A10, NVIDIA A30"),
        ({"gpus": ({}, {"name": ""})}, "2 GPUs on its PCI bus, but the driver lists 1"),
        ({"pci_gpus": 3}, "3 GPUs on its PCI bus, but the driver lists 2"),
    ],
)
def test_an_ill_host_is_no_model(
    changes: dict[str, Any], said: str, opened: Session, hosts: FakeHosts
) -> None:
    ill = golden(**changes).model_dump_json()
    hosts.answer = lambda host, argv: Completed(tuple(argv), 0, ill, "")
    with pytest.raises(ConfigError, match=said):
        action.capture(Target(), "gpu-1", "mine", Recorder())


def test_what_no_rule_allows_is_told_of_the_host(opened: Session, hosts: FakeHosts) -> None:
    odd = golden(ports=[PORT | {"device": "mlx5_0", "rate": 7.0}]).model_dump_json()
    hosts.answer = lambda host, argv: Completed(tuple(argv), 0, odd, "")
    with pytest.raises(ConfigError, match="the values of gpu-1 are not a valid profile"):
        action.capture(Target(), "gpu-1", "mine", Recorder())


def test_a_file_is_never_overwritten(opened: Session, tmp_path: Path) -> None:
    file = tmp_path / "mine.yml"
    file.write_text("mine")
    with pytest.raises(ConfigError, match="exists"):
        action.write(action.capture(Target(), "gpu-1", "mine", Recorder()), file)
    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    ("device", "disk", "is_of"),
    [
        ("sda2", "sda", True),
        ("sda", "sda", True),
        ("sdaa1", "sda", False),
        ("nvme0n1p2", "nvme0n1", True),
        ("nvme0n12", "nvme0n1", False),
        ("", "sda", False),
    ],
)
def test_a_partition_belongs_to_its_disk_alone(
    device: str, disk: str, is_of: bool, opened: Session
) -> None:
    filesystems = [{"at": "/", "source": f"/dev/{device}", "type": "ext4"}]
    sizes = {"size": GIB, "free": 0, "inodes_free": 0}
    shown = facts_of(
        "gpu-1",
        disks=[{"name": disk, "size": 2 * GIB}],
        filesystems=[one | sizes for one in filesystems],
    )
    assert ("host.system_disk_gib" in shown_hardware(shown, opened.site)) is is_of


@pytest.mark.parametrize("word", ["gpu-[1-1]", "gpu-1,gpu-1"])
def test_one_host_may_be_named_as_output_shows_it(word: str, opened: Session) -> None:
    assert action.capture(Target(), word, "mine", Recorder()).profile.title.endswith("from gpu-1")


def test_several_hosts_make_no_profile(opened: Session) -> None:
    with pytest.raises(ConfigError, match="does not name a single host"):
        action.capture(Target(), "gpu-1,head", "mine", Recorder())
