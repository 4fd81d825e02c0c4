"""What hosts and the control host are told about each other."""

import json
from pathlib import Path

from appliance.config import document
from appliance.config.site_edit import with_owner
from appliance.lab import cgroups, network, requirements, seed, site
from appliance.lab.hardware import Hardware
from appliance.lab.machine import nspawn
from appliance.lab.spec import RackSpec, numbered
from appliance.models.site import Owner, Role, Site
from tests.support.lab_rack import RACK


def test_site_is_one_the_program_accepts(tmp_path: Path) -> None:
    file = tmp_path / "site.yml"
    file.write_text(site.render(RACK))
    found = Site.model_validate(document.read(file).data)
    assert found.profile == "hpc"
    assert found.simulated == ("gpu", "fabric")
    assert [host.name for host in found.with_role(Role.GPU)] == ["gpu-1", "gpu-2"]


def test_of_a_rack_with_a_cluster_the_first_gpu_hosts_are_slurms(tmp_path: Path) -> None:
    rack = numbered(RackSpec("test", 4, kubernetes=True, slurm=2), 2, {})
    file = tmp_path / "site.yml"
    file.write_text(site.render(rack))
    found = Site.model_validate(document.read(file).data)
    assert [h.name for h in found.gpu_hosts_of(Owner.SLURM)] == ["gpu-1", "gpu-2"]
    assert [h.name for h in found.gpu_hosts_of(Owner.KUBERNETES)] == ["gpu-3"]


def test_a_rack_that_is_raised_again_keeps_whose_its_hosts_are(tmp_path: Path) -> None:
    rack = numbered(RackSpec("test", 4, kubernetes=True, slurm=2), 2, {})
    file = tmp_path / "site.yml"
    assert site.owners(file) == {}
    first = site.render(rack, owned=site.owners(file))
    moved = with_owner(first, file, "gpu-1", Owner.KUBERNETES)
    file.write_text(with_owner(moved, file, "gpu-3", Owner.SLURM))
    file.write_text(site.render(rack, owned=site.owners(file)))
    found = Site.model_validate(document.read(file).data)
    assert [h.name for h in found.gpu_hosts_of(Owner.SLURM)] == ["gpu-2", "gpu-3"]
    assert [h.name for h in found.gpu_hosts_of(Owner.KUBERNETES)] == ["gpu-1"]
    file.write_text("hosts: [")
    assert site.owners(file) == {}


def test_of_a_rack_with_three_control_planes_the_site_names_their_address(tmp_path: Path) -> None:
    rack = numbered(RackSpec("test", 4, kubernetes=True, control=3), 2, {})
    file = tmp_path / "site.yml"
    file.write_text(site.render(rack))
    found = Site.model_validate(document.read(file).data)
    assert found.kubernetes is not None
    assert str(found.kubernetes.address) == "10.77.2.9"
    assert len(found.with_role(Role.CONTROL)) == 3


def test_every_host_is_marked_as_simulated() -> None:
    mark = json.loads(json.dumps(seed.simulated(RACK.host("gpu-1"))))
    assert mark["by"] == "appliance lab"
    assert mark["sysfs"] == "/var/lib/appliance-lab/sys"
    assert mark["kmsg"] == "/var/lib/appliance-lab/kmsg"


def test_a_host_without_gpus_has_no_kernel_log_of_theirs() -> None:
    assert "kmsg" not in seed.simulated(RACK.host("head"))


def test_an_ethernet_rack_has_nothing_of_a_subnet() -> None:
    rack = numbered(RackSpec("test", 2), 2, {}, Hardware(link_layer="Ethernet", ports=2, rate=25))
    assert not [
        name for name in seed.texts(rack, rack.hosts[1]) if "opensm" in name or "fabric" in name
    ]


def test_a_profile_from_a_file_is_named_in_full() -> None:
    text = site.render(numbered(RackSpec("test", 2, "./mine.yml"), 2, {}))
    assert f"profile: {Path.cwd()}/mine.yml\n" in text


def test_hosts_know_each_other_by_name() -> None:
    assert "10.77.2.12 gpu-2\n" in seed.hosts_file(RACK)


def test_device_nodes_carry_nvidias_major_number() -> None:
    assert "/dev/nvidia7 c 195 7" in seed.device_script(Hardware())
    assert "/dev/nvidiactl c 195 255" in seed.device_script(Hardware())
    assert "/dev/nvidia4" not in seed.device_script(Hardware(gpus=4))


def test_no_host_may_set_the_machines_clock() -> None:
    assert "--drop-capability=CAP_SYS_TIME" in nspawn(RACK, RACK.hosts[0])


def test_rules_concern_the_racks_own_network_only() -> None:
    rules = network.ruleset(RACK.table, RACK.network)
    assert "table ip appliance_lab_r2_test {" in rules
    assert "flush" not in rules
    assert (
        "ip saddr 10.77.2.0/24 ip daddr != { 10.77.2.0/24, 224.0.0.0/4, 255.255.255.255 }" in rules
    )


def test_version_one_freezer_is_preferred_where_it_is_mounted() -> None:
    mounts = (
        "cgroup /sys/fs/cgroup/freezer cgroup rw,relatime,freezer 0 0\n"
        "cgroup /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0\n"
        "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
    )
    found = cgroups.hierarchies(mounts)
    assert found.freezer == Path("/sys/fs/cgroup/freezer")
    assert len(found.all()) == 3
    assert cgroups.hierarchies("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n").freezer is None


def test_missing_programs_are_named_by_their_packages() -> None:
    assert requirements.missing(lambda program: None if program == "nft" else "/x") == ("nftables",)
    assert requirements.missing(lambda _: "/x") == ()
