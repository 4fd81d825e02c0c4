"""Names, addresses and paths of racks."""

import json
from pathlib import Path
from typing import Any

import pytest

from appliance.errors import ConfigError
from appliance.lab import compiling, image, mounts, rack, spec
from appliance.lab.hardware import Hardware
from appliance.lab.spec import RackSpec, numbered


def test_default_rack_has_a_head_and_two_gpu_hosts() -> None:
    hosts = numbered(RackSpec(), 3, {}).hosts
    assert [host.name for host in hosts] == ["head", "gpu-1", "gpu-2"]
    assert [host.address for host in hosts] == ["10.77.3.10", "10.77.3.11", "10.77.3.12"]
    assert hosts[0].roles == ("control", "storage", "login")
    assert hosts[1].roles == ("gpu",)


@pytest.mark.parametrize("name", ["rack", "a-name-as-long-as-allow"])
def test_bridge_names_fit_the_kernel(name: str) -> None:
    assert len(numbered(RackSpec(name), 1, {}).bridge) <= 15


@pytest.mark.parametrize("name", ["", "../etc", "Rack", "a b", "-a", "a" * 25])
def test_names_that_could_leave_the_state_folder_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot name a rack"):
        RackSpec(name)


@pytest.mark.parametrize("hosts", [0, -1, 33])
def test_a_rack_has_at_least_one_host_and_not_too_many(hosts: int) -> None:
    with pytest.raises(ConfigError, match="1 to 32"):
        RackSpec(hosts=hosts)


@pytest.mark.parametrize("given", [{"slurm": 1}, {"kubernetes": True, "slurm": 3, "hosts": 3}])
def test_only_gpu_hosts_of_a_rack_with_a_cluster_are_set_aside_for_slurm(given: Any) -> None:
    with pytest.raises(ConfigError, match="cannot be set aside"):
        RackSpec(**given)


@pytest.mark.parametrize(
    "given",
    [
        {"control": 3, "hosts": 5},
        {"control": 2, "hosts": 5, "kubernetes": True},
        {"control": 3, "hosts": 3, "kubernetes": True},
    ],
)
def test_control_planes_are_one_or_three_and_leave_a_gpu_host(given: Any) -> None:
    with pytest.raises(ConfigError, match="control planes"):
        RackSpec(**given)


def test_three_control_hosts_come_first_and_share_an_address_no_host_has() -> None:
    made = numbered(RackSpec("t", 5, kubernetes=True, control=3), 3, {})
    assert [h.name for h in made.hosts] == ["head", "head-2", "head-3", "gpu-1", "gpu-2"]
    assert [h.roles for h in made.hosts[1:4]] == [("control",), ("control",), ("gpu",)]
    assert str(made.virtual_address) == "10.77.3.9"
    assert "10.77.3.9" not in {h.address for h in made.hosts}
    assert numbered(RackSpec("t", 5, kubernetes=True), 3, {}).virtual_address is None


def test_without_a_site_a_complete_rack_comes_or_one_with_slurm_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spec, "STATE_ROOT", tmp_path)
    found = rack.embedded("balanced")
    assert (found.profile, found.hosts, found.kubernetes, found.slurm, found.complete) == (
        *("balanced", 6, True, 2),
        True,
    )
    quick = rack.embedded(None, kubernetes=False)
    assert (quick.profile, quick.hosts, quick.kubernetes, quick.complete) == (
        "hpc",
        3,
        False,
        False,
    )


@pytest.mark.parametrize(
    ("compiled", "said"), [(True, "(about 5 min)"), (False, "Kubernetes is compiled once")]
)
def test_what_is_raised_is_said_with_how_long_it_takes(
    compiled: bool, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spec, "STATE_ROOT", tmp_path)
    monkeypatch.setattr(compiling, "is_compiled", lambda _: compiled)
    assert said in rack.described(rack.embedded(None))
    assert "Kubernetes" not in rack.described(rack.embedded(None, kubernetes=False))


def test_a_cluster_that_stands_is_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spec, "STATE_ROOT", tmp_path)
    spec.save(numbered(rack.embedded(None), 1, {}))
    assert rack.embedded(None).complete
    with pytest.raises(ConfigError, match="runs with Kubernetes") as caught:
        rack.embedded(None, kubernetes=False)
    assert "appliance lab down" in caught.value.hint


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"plain": "12"}, "plain hosts"),
        ({"hosts": 4}, "leave Kubernetes 1 GPU hosts"),
        ({"hosts": 6, "control": 3}, "leave Kubernetes 1 GPU hosts"),
    ],
)
def test_a_rack_that_cannot_be_complete_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        RackSpec(
            "t",
            **{
                "hosts": 6,
                "kubernetes": True,
                "complete": True,
                "slurm": 2 * ("plain" not in given),
            }
            | given,
        )


def test_without_a_site_the_rack_that_stands_is_taken_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spec, "STATE_ROOT", tmp_path)
    standing = RackSpec(hosts=2, profile="balanced")
    spec.save(numbered(standing, 1, {}))
    assert rack.embedded(None) == rack.embedded("balanced") == standing
    assert rack.embedded("hpc") != standing


def test_plain_hosts_are_no_embedded_rack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spec, "STATE_ROOT", tmp_path)
    spec.save(numbered(RackSpec("rack", 2, plain="12"), 1, {}))
    with pytest.raises(ConfigError, match="are plain") as caught:
        rack.embedded(None)
    assert "--site" in caught.value.hint


def test_a_saved_rack_is_read_back_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spec, "STATE_ROOT", tmp_path)
    rack = numbered(RackSpec("t", 2, gpu="h100-pcie"), 4, {"base": "/x"}, Hardware("h100-pcie", 4))
    spec.save(rack)
    assert spec.load("t") == rack
    assert spec.racks() == (rack,)
    assert spec.load("other") is None


@pytest.mark.parametrize("name", ["", ".", "..", "../lab", "/", "Bad Name", "a/b"])
def test_what_cannot_name_a_rack_removes_none(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[Path] = []
    monkeypatch.setattr(spec, "STATE_ROOT", tmp_path)
    monkeypatch.setattr(rack, "STATE_ROOT", tmp_path)
    monkeypatch.setattr(mounts, "remove", removed.append)
    monkeypatch.setattr(image, "sweep", lambda: None)
    spec.save(numbered(RackSpec("mine"), 1, {}))
    with pytest.raises(ConfigError, match="cannot name a rack"):
        rack.down(name)
    assert not removed
    assert spec.load("mine")


def test_unknown_host_names_the_known_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        numbered(RackSpec(hosts=2), 1, {}).host("gpu-9")
    assert caught.value.hint == "it has head, gpu-1"


def test_rack_of_another_version_is_read_as_far_as_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spec, "STATE_ROOT", tmp_path)
    rack = numbered(RackSpec("mine"), 3, {})
    spec.save(rack)
    file = rack.state_dir / "rack.json"
    saved = json.loads(file.read_text())
    saved["spec"]["colour"] = "green"
    file.write_text(json.dumps(saved))
    assert [r.name for r in spec.racks()] == ["mine"]


def test_a_rack_that_this_version_would_not_raise_keeps_its_number_and_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spec, "STATE_ROOT", tmp_path)
    rack = numbered(RackSpec("mine"), 3, {})
    spec.save(rack)
    file = rack.state_dir / "rack.json"
    saved = json.loads(file.read_text())
    saved["spec"] |= {"plain": "99", "driver": True}
    file.write_text(json.dumps(saved))
    assert [(r.name, r.index) for r in spec.racks()] == [("mine", 3)]


def test_a_rack_takes_the_hosts_of_another_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spec, "STATE_ROOT", tmp_path)
    members = (
        spec.Member("mgmt-1", ("control", "storage"), 10, "/profiles/hpc.yml"),
        spec.Member("dgx-a", ("gpu",), 21, "/profiles/hpc.yml", gpus=4),
    )
    wanted = RackSpec("mine", 2, members=members)
    made = numbered(wanted, 4, {}, Hardware(), {"/profiles/hpc.yml": Hardware()})
    assert [(h.name, h.address, h.is_gpu) for h in made.hosts] == [
        ("mgmt-1", "10.77.4.10", False),
        ("dgx-a", "10.77.4.21", True),
    ]
    assert made.hardware_of("dgx-a").gpus == 4
    spec.save(made)
    assert spec.load("mine") == made
