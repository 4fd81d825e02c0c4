"""Sites whose hosts have different classes: how they are read and refused, and what hosts of each class are given."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from appliance.config import data
from appliance.config.finding import InvalidConfig
from appliance.config.load import LoadedSite, load_site
from appliance.config.secrets import Secret
from appliance.models.facts import HostFacts
from appliance.models.gpu_counts import gpu_least, gpu_most
from appliance.models.run import expected_of
from appliance.stages.catalog import STAGES
from appliance.stages.context import RoleContext, Shared, Variables
from appliance.stages.mig.layouts import declared
from appliance.stages.scheduler.queues.network import policy
from appliance.stages.scheduler.queues.tree import capacity
from appliance.stages.scheduler.site import SchedulerOptions
from tests.support.rendering import rendered

SECRETS = {"munge_key": Secret("m"), "slurmdbd_password": Secret("p")}
HOSTS = """\
hosts:
  - {name: head, roles: [control, storage, login], address: 10.0.0.10}
  - {name: build-1, roles: [gpu], address: 10.0.0.11}
  - {name: build-2, roles: [gpu], address: 10.0.0.12, class: balanced}
  - {name: train-1, roles: [gpu], address: 10.0.0.13, class: hpc}
  - {name: train-2, roles: [gpu], address: 10.0.0.14, class: hpc}
"""
CONTROL = """\
version: 1
name: control
title: Control hosts, 64 GiB
hardware:
  host: {sockets: 1, cores: 16, memory_gib: 60, numa_nodes: 1, system_disk_gib: 200, scratch_disk_gib: 0}
"""


def mixed(folder: Path, *changes: tuple[str, str], more: str = "") -> LoadedSite:
    """A site of class balanced whose training hosts are of class hpc, read from its folder."""
    text = (folder / "site.yml").read_text()
    first, rest = text.index("\nhosts:") + 1, text.index("secrets:\n  munge")
    text = text[:first] + HOSTS + "\n" + text[rest:] + more
    for old, new in (("profile: hpc", "profile: balanced"), *changes):
        assert old in text
        text = text.replace(old, new)
    (folder / "site.yml").write_text(text)
    return load_site(folder)


def refused(folder: Path, *changes: tuple[str, str], more: str = "") -> list[str]:
    """What is said of a site that is not sound."""
    with pytest.raises(InvalidConfig) as refusal:
        mixed(folder, *changes, more=more)
    return [f"{f.key}: {f.message}" for f in refusal.value.findings if f.level == "problem"]


def given(loaded: LoadedSite, stage: str, host: str, **facts: HostFacts) -> Variables:
    """Variables of a stage's role for a host."""
    context = RoleContext(
        loaded.profile_of(host), loaded.site, loaded.site.host(host), SECRETS, facts, Shared()
    )
    return next(one for one in STAGES if one.name == stage).variables(context)


def test_each_host_has_the_profile_of_its_class_and_others_that_of_the_site(
    site_folder: Path,
) -> None:
    loaded = mixed(site_folder)
    names = {host.name: loaded.profile_of(host.name).name for host in loaded.site.hosts}
    assert names == {
        **{"head": "balanced", "build-1": "balanced", "build-2": "balanced"},
        **{"train-1": "hpc", "train-2": "hpc"},
    }
    assert loaded.site.is_mixed
    assert [profile.name for profile in loaded.site.profiles(loaded.profile)] == ["balanced", "hpc"]
    assert data.profiles() / "hpc.yml" in loaded.sources


def test_a_site_of_one_class_is_as_it_was_also_where_hosts_name_that_class(
    site_folder: Path,
) -> None:
    before = load_site(site_folder)
    assert not before.site.has_classes
    assert "class" not in before.site.hosts[1].model_dump(mode="json")
    text = (site_folder / "site.yml").read_text()
    (site_folder / "site.yml").write_text(
        text.replace("  - name: gpu-2\n", "  - name: gpu-2\n    class: hpc\n")
    )
    named = load_site(site_folder)
    assert named.site.hosts[2].hardware_class == "hpc"
    assert not named.site.has_classes
    assert named.profile_of("gpu-2") is named.profile


def test_the_command_line_names_the_class_of_hosts_that_name_none(site_folder: Path) -> None:
    mixed(site_folder)
    loaded = load_site(site_folder, "cost-efficient")
    assert loaded.profile_of("build-1").name == "cost-efficient"
    assert loaded.profile_of("build-2").name == "balanced"
    assert loaded.profile_of("train-1").name == "hpc"


def test_a_class_is_looked_for_beside_the_site_first(site_folder: Path) -> None:
    (site_folder / "profiles").mkdir()
    hpc = (data.profiles() / "hpc.yml").read_text()
    (site_folder / "profiles/hpc.yml").write_text(hpc.replace("title: High", "title: Our"))
    assert mixed(site_folder).profile_of("train-1").title.startswith("Our")


def test_a_class_that_is_named_in_two_ways_is_one(site_folder: Path) -> None:
    (site_folder / "profiles").mkdir()
    (site_folder / "profiles/hpc.yml").write_text((data.profiles() / "hpc.yml").read_text())
    loaded = mixed(site_folder, ("14, class: hpc", "14, class: ./profiles/hpc.yml"))
    assert loaded.profile_of("train-1") is loaded.profile_of("train-2")
    assert len(loaded.sources) == 3


def test_releases_of_the_whole_site_are_those_of_its_own_profile(site_folder: Path) -> None:
    (site_folder / "old.yml").write_text(
        (data.profiles() / "hpc.yml")
        .read_text()
        .replace("name: hpc", "name: old")
        .replace('kubernetes: "1.35"', 'kubernetes: "1.34"')
        .replace('cuda: "13.0"', 'cuda: "12.9"')
    )
    loaded = mixed(site_folder, ("class: hpc", "class: ./old.yml"))
    assert loaded.profile_of("train-1").software.kubernetes == "1.35"
    assert loaded.profile_of("train-1").software.cuda == "12.9"
    assert loaded.profile_of("build-1").software.cuda == "13.0"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("class: hpc", "class: hcp"), 'hosts[3].class: unknown profile: "hcp"'),
        (("class: hpc", "class: ./none.yml"), "hosts[3].class: "),
        (
            ("10.0.0.10}", "10.0.0.10, class: hpc}"),
            "hosts[0].class: head does not have the role gpu",
        ),
        (("class: balanced", "class: ./control.yml"), "hosts[2].class: build-2 has the role gpu"),
        (
            ("class: balanced", "class: ./other.yml"),
            "hosts[3].class: " + "{folder}/other.yml",
        ),
    ],
)
def test_a_class_that_cannot_be_is_refused(
    change: tuple[str, str], said: str, site_folder: Path
) -> None:
    (site_folder / "control.yml").write_text(CONTROL)
    (site_folder / "other.yml").write_text((data.profiles() / "hpc.yml").read_text())
    found = refused(site_folder, change)
    words = said.format(folder=site_folder)
    if "other.yml" in said:
        assert any("both define class hpc" in line for line in found), found
    else:
        assert len(found) == 1, found
        assert found[0].startswith(words)


def test_an_unknown_class_names_its_line_and_the_classes_there_are(site_folder: Path) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        mixed(site_folder, ("14, class: hpc", "14, class: hcp"))
    (problem,) = (f for f in refusal.value.findings if f.level == "problem")
    line = (site_folder / "site.yml").read_text().splitlines()[problem.line - 1]
    assert (problem.file, "train-2" in line) == (site_folder / "site.yml", True)
    assert "balanced, cost-efficient, dgx-a100, hpc" in problem.remedy


def test_gpus_are_counted_by_the_class_of_each_host(site_folder: Path) -> None:
    loaded = mixed(site_folder, ("10.0.0.11}", "10.0.0.11, gpus: 2}"))
    assert gpu_least(loaded.profile, loaded.site) == 2
    assert gpu_most(loaded.profile, loaded.site) == 8
    assert expected_of(loaded.profile, loaded.site).gpus == 2 + 4 + 8 + 8
    assert expected_of(loaded.profile, loaded.site).ports == 2 * 2 + 2 * 8


def test_a_host_has_no_more_gpus_than_its_class(site_folder: Path) -> None:
    (said,) = refused(site_folder, ("10.0.0.11}", "10.0.0.11, gpus: 6}"))
    assert said.startswith("hosts[1].gpus: is 6, but a host of profile balanced has at most 4")


def test_layouts_are_of_the_class_of_the_host_that_has_them(site_folder: Path) -> None:
    section = "\nmig:\n  hosts:\n    {host}: {{gpus: {{'6': 3g.40gb}}}}\n"
    (said,) = refused(site_folder, more=section.format(host="build-1"))
    assert said.endswith("there is no GPU 6; a host has 4")
    text = (site_folder / "site.yml").read_text()
    (site_folder / "site.yml").write_text(text.replace("    build-1: {gpus", "    train-1: {gpus"))
    load_site(site_folder)


def test_a_layout_of_a_class_is_that_of_its_hosts_alone(site_folder: Path) -> None:
    (site_folder / "parted.yml").write_text(
        (data.profiles() / "hpc.yml")
        .read_text()
        .replace("name: hpc", "name: parted")
        .replace("stages:\n", "stages:\n  mig: all-1g.10gb\n")
    )
    loaded = mixed(site_folder, ("class: hpc", "class: ./parted.yml"))
    of = {
        h: declared(loaded.profile_of(h), loaded.site, loaded.site.host(h)) for h in HOSTS_OF_GPUS
    }
    assert {name: len(found) for name, found in of.items()} == {
        **{"build-1": 0, "build-2": 0, "train-1": 8, "train-2": 8}
    }


HOSTS_OF_GPUS = ("build-1", "build-2", "train-1", "train-2")


def test_roles_are_given_what_the_class_of_the_host_needs(site_folder: Path) -> None:
    loaded = mixed(site_folder)
    build, train = (given(loaded, "gpu", host) for host in ("build-1", "train-1"))
    assert (build["gpu_fabric_manager"], train["gpu_fabric_manager"]) == (False, True)
    build, train, head = (given(loaded, "fabric", h) for h in ("build-1", "train-1", "head"))
    assert (build["fabric_link_layer"], train["fabric_link_layer"]) == ("Ethernet", "InfiniBand")
    # Somebody has to manage the subnet of the hosts that have InfiniBand.
    assert (head["fabric_link_layer"], head["fabric_opensm"]) == ("InfiniBand", True)


def test_slurm_has_each_host_as_its_class_is_and_a_partition_for_each_class(
    site_folder: Path,
) -> None:
    loaded = mixed(site_folder)
    made = given(loaded, "slurm", "head")
    nodes = {node["name"]: node["gres"] for node in _listed(made["slurm_nodes"])}
    assert nodes == {
        **{"build-1": "gpu:a100:4", "build-2": "gpu:a100:4"},
        **{"train-1": "gpu:a100:8", "train-2": "gpu:a100:8"},
    }
    partitions = {p["name"]: p for p in _listed(made["slurm_partitions"])}
    assert list(partitions) == ["gpu", "debug", "balanced", "hpc"]
    assert [name for name, p in partitions.items() if p["default"]] == ["gpu"]
    assert partitions["hpc"]["nodes"] == ["train-1", "train-2"]
    assert "nodes" not in partitions["gpu"]
    watched = {
        host: given(loaded, "slurm", host)["slurm_watch_expects"] for host in ("build-1", "train-1")
    }
    assert [(w["gpus"], w["ports"], w["link_layer"]) for w in map(_mapping, watched.values())] == [
        (4, 2, "Ethernet"),
        (8, 8, "InfiniBand"),
    ]


def test_files_of_slurm_list_the_hosts_of_each_class(site_folder: Path) -> None:
    """What the rest of the record of a site is compared with, on a site of several classes."""
    loaded = mixed(site_folder)
    text = rendered(("slurm",), "head", given(loaded, "slurm", "head"))[
        "slurm/etc/slurm/slurm.conf.j2"
    ]
    lines = [line.split(" Default=")[0] for line in text.splitlines()]
    assert [line for line in lines if line.startswith("PartitionName=")] == [
        "PartitionName=gpu Nodes=build-1,build-2,train-1,train-2",
        "PartitionName=debug Nodes=build-1,build-2,train-1,train-2",
        "PartitionName=balanced Nodes=build-1,build-2",
        "PartitionName=hpc Nodes=train-1,train-2",
    ]
    sizes = {
        line.split()[0]: (line.split("CPUs=")[1].split()[0], line.split("Gres=")[1].split()[0])
        for line in lines
        if line.startswith("NodeName=")
    }
    assert sizes == {
        "NodeName=build-1": ("64", "gpu:a100:4"),
        "NodeName=build-2": ("64", "gpu:a100:4"),
        "NodeName=train-1": ("96", "gpu:a100:8"),
        "NodeName=train-2": ("96", "gpu:a100:8"),
    }


def test_a_partition_of_a_class_takes_no_name_of_another(site_folder: Path) -> None:
    loaded = mixed(site_folder, ("- {name: debug", "- {name: hpc"))
    names = [p["name"] for p in _listed(given(loaded, "slurm", "head")["slurm_partitions"])]
    assert names == ["gpu", "hpc", "balanced", "hpc-hosts"]


def test_a_site_of_one_class_has_the_partitions_it_names(site_folder: Path) -> None:
    made = given(load_site(site_folder), "slurm", "head")
    assert [p["name"] for p in _listed(made["slurm_partitions"])] == ["gpu", "debug"]
    assert all("nodes" not in partition for partition in _listed(made["slurm_partitions"]))


def test_what_is_made_once_for_all_hosts_is_not_that_of_one_class(site_folder: Path) -> None:
    loaded, shared = mixed(site_folder), Shared()
    made = [
        stage.variables(
            RoleContext(
                loaded.profile_of(name), loaded.site, loaded.site.host(name), SECRETS, {}, shared
            )
        )
        for name in ("train-1", "build-1")
        for stage in STAGES
        if stage.name == "slurm"
    ]
    assert made[0]["slurm_nodes"] == given(loaded, "slurm", "build-1")["slurm_nodes"]
    assert _mapping(made[1]["slurm_watch_expects"])["ports"] == 2


def test_pools_and_adapters_of_a_cluster_are_of_all_classes(site_folder: Path) -> None:
    loaded = mixed(site_folder)
    options = SchedulerOptions.model_validate_json('{"kind": "kai", "rdma": "shared"}')
    assert capacity(loaded.site, loaded.profile)["default"]["gpu"] == 24
    assert capacity(loaded.site, loaded.profile)["default"]["cpu"] == 2 * 64 + 2 * 96
    found = policy(loaded.site, loaded.profile, options)
    assert '"linkTypes": ["ether", "infiniband"]' in str(found)


def test_a_class_without_gpus_describes_control_and_storage_hosts(site_folder: Path) -> None:
    (site_folder / "control.yml").write_text(CONTROL)
    loaded = mixed(site_folder, ("10.0.0.10}", "10.0.0.10, class: ./control.yml}"))
    own = loaded.profile_of("head")
    assert (own.name, own.hardware.host.memory_gib) == ("control", 60)
    assert not own.has_gpus
    assert own.software == loaded.profile.software
    assert [profile.name for profile in loaded.site.profiles(loaded.profile)] == ["balanced", "hpc"]


def test_a_class_of_control_hosts_makes_no_site_of_several_classes(site_folder: Path) -> None:
    (site_folder / "control.yml").write_text(CONTROL)
    text = (site_folder / "site.yml").read_text()
    (site_folder / "site.yml").write_text(
        text.replace("  - name: head\n", "  - name: head\n    class: ./control.yml\n")
    )
    loaded = load_site(site_folder)
    assert loaded.site.has_classes
    assert not loaded.site.is_mixed
    names = [p["name"] for p in _listed(given(loaded, "slurm", "head")["slurm_partitions"])]
    assert names == ["gpu", "debug"]


def _listed(found: object) -> list[Mapping[str, Any]]:
    assert isinstance(found, list)
    return found


def _mapping(found: object) -> Mapping[str, Any]:
    assert isinstance(found, dict)
    return found
