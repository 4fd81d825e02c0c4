"""What becomes of profile, site and facts in the variables of role slurm."""

from typing import Any

import pytest
import yaml  # noqa: TID251 - reads the role's own specification

from appliance.config.data import root
from appliance.config.load import load_profile
from appliance.config.secrets import Secret
from appliance.errors import ConfigError
from appliance.models.facts import HostFacts
from appliance.models.site import Site
from appliance.stages.context import RoleContext
from appliance.stages.slurm.variables import gpu_type, variables
from tests.support.facts import facts_of

SECRETS = {"munge_key": Secret("k" * 44), "slurmdbd_password": Secret("p" * 24)}
HOSTS: list[dict[str, Any]] = [
    {"name": "head", "roles": ["control"], "address": "10.0.0.1"},
    {"name": "spare", "roles": ["control"], "address": "10.0.0.2"},
    {"name": "gpu-1", "roles": ["gpu"], "address": "10.0.0.3"},
    {"name": "gpu-2", "roles": ["gpu"], "address": "10.0.0.4"},
    {"name": "login", "roles": ["login"], "address": "10.0.0.5"},
]
GIB = 1024**3


def facts(
    host: str,
    cpu: tuple[int, int, int] = (2, 96, 192),
    memory: int = 1000 * GIB,
    gpu: str = "NVIDIA H100 80GB HBM3",
    **system: str,
) -> HostFacts:
    """Facts of which the system, processors, memory and GPUs matter here."""
    sockets, cores, threads = cpu
    device = {"index": 0, "uuid": "u", "name": gpu, "bus_id": "b", "memory": 1}
    return facts_of(
        host,
        os=system,
        cpu={"model": "x", "sockets": sockets, "cores": cores, "threads": threads},
        memory={"total": memory, "available": memory},
        gpus={"driver": "580", "nvml": "12", "devices": [device]},
    )


def of(
    host: str,
    *seen: HostFacts,
    hosts: list[dict[str, Any]] | None = None,
    secrets: dict[str, Secret] = SECRETS,
    base: dict[str, Any] | None = None,
    **slurm: Any,
) -> dict[str, Any]:
    site = Site.model_validate(
        {
            "version": 1,
            "name": "lab",
            "networks": {"management": {"cidr": "10.0.0.0/24"}},
            "hosts": hosts or HOSTS,
            "base": base or {},
            "slurm": slurm,
        }
    )
    context = RoleContext(
        load_profile("hpc"), site, site.host(host), secrets, {f.host: f for f in seen}
    )
    return variables(context)


def node(host: str, *seen: HostFacts) -> dict[str, Any]:
    (found,) = [n for n in of("head", *seen)["slurm_nodes"] if n["name"] == host]
    assert isinstance(found, dict)
    return found


def test_the_keys_are_the_roles_own() -> None:
    spec = yaml.safe_load((root() / "roles/slurm/meta/argument_specs.yml").read_text())
    allowed = set(spec["argument_specs"]["main"]["options"])
    made = set(of("head"))
    assert made <= allowed
    assert allowed - made == {"slurm_wait_s"}


def test_defaults_and_specification_agree() -> None:
    role = root() / "roles/slurm"
    options = yaml.safe_load((role / "meta/argument_specs.yml").read_text())["argument_specs"][
        "main"
    ]["options"]
    defaults = yaml.safe_load((role / "defaults/main.yml").read_text())
    assert {k: o["default"] for k, o in options.items() if not o.get("required")} == defaults


def test_what_slurm_conf_is_made_of_is_the_same_on_every_host() -> None:
    shared = {"slurm_nodes", "slurm_partitions", "slurm_constrain", "slurm_controller_address"}
    seen = [facts("gpu-1"), facts("gpu-2")]
    made = [{k: v for k, v in of(h["name"], *seen).items() if k in shared} for h in HOSTS]
    assert all(m == made[0] for m in made)


def test_only_the_first_control_host_is_the_controller_and_gets_the_password() -> None:
    made = {h["name"]: of(h["name"]) for h in HOSTS}
    assert [n for n, v in made.items() if v["slurm_controller"]] == ["head"]
    assert [n for n, v in made.items() if v["slurm_database_password"]] == ["head"]
    assert [n for n, v in made.items() if v["slurm_compute"]] == ["gpu-1", "gpu-2"]


def test_a_node_is_described_by_its_facts() -> None:
    found = node("gpu-1", facts("gpu-1"))
    shape = {k: found[k] for k in ("sockets", "cores_per_socket", "threads_per_core", "cpus")}
    assert shape == {"sockets": 2, "cores_per_socket": 48, "threads_per_core": 2, "cpus": 192}
    assert found["memory_mib"] == (1000 - 16) * 1024
    assert (found["gpus"], found["gres"]) == (8, "gpu:h100:8")


def test_a_host_never_seen_is_described_by_the_profile_with_room_below_the_data_sheet() -> None:
    found = node("gpu-1")
    assert (found["sockets"], found["cores_per_socket"], found["threads_per_core"]) == (2, 48, 1)
    assert (found["memory_mib"], found["gres"]) == (896 * 1024, "gpu:a100:8")


def test_some_mib_more_or_less_after_a_kernel_update_change_nothing() -> None:
    one, other = (
        facts("gpu-1", memory=1000 * GIB - 40 * 2**20),
        facts("gpu-1", memory=1000 * GIB - 1),
    )
    assert node("gpu-1", one) == node("gpu-1", other)


def test_a_small_host_keeps_most_of_its_memory() -> None:
    assert node("gpu-1", facts("gpu-1", memory=2 * GIB))["memory_mib"] == 1024
    assert node("gpu-1", facts("gpu-1", memory=GIB))["memory_mib"] == 768


@pytest.mark.parametrize("cpu", [(0, 0, 8), (2, 3, 8), (1, 3, 8)])
def test_processors_that_do_not_add_up_count_as_plain_threads(cpu: tuple[int, int, int]) -> None:
    found = node("gpu-1", facts("gpu-1", cpu=cpu))
    assert (found["sockets"], found["cores_per_socket"], found["cpus"]) == (1, 8, 8)


def test_a_gpu_of_a_model_the_profile_does_not_accept_does_not_change_the_type() -> None:
    assert node("gpu-1", facts("gpu-1", gpu="NVIDIA T4"))["gres"] == "gpu:a100:8"


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA L40S", "l40s"),
        ("Tesla V100-SXM2-32GB", "v100"),
        ("NVIDIA RTX A6000", "a6000"),
        ("NVIDIA GB200", "gb200"),
        ("Quadro", "gpu"),
    ],
)
def test_gpu_types(model: str, name: str) -> None:
    assert gpu_type(model) == name


def test_jobs_are_constrained_on_machines_with_cgroup_v2() -> None:
    made = of("head", facts("gpu-1"), facts("gpu-2"))
    assert (made["slurm_constrain"], made["slurm_cgroup_plugin"]) == (True, "autodetect")


@pytest.mark.parametrize(
    "system",
    [
        {"container": "systemd-nspawn"},
        {"cgroup": "hybrid"},
        {"id": "ubuntu", "version_id": "22.04"},
    ],
)
def test_most_hosts_decide_whether_jobs_are_held_and_never_one(system: dict[str, Any]) -> None:
    made = of("gpu-1", facts("gpu-1"), facts("gpu-2", **system))
    assert (made["slurm_constrain"], made["slurm_cgroup_plugin"]) == (True, "autodetect")
    made = of("gpu-1", facts("gpu-1", **system), facts("gpu-2", **system))
    assert made["slurm_constrain"] is False


def test_the_site_decides_whether_jobs_are_held() -> None:
    able, unable = facts("gpu-1"), facts("gpu-1", cgroup="hybrid")
    assert of("gpu-1", able, constrain=False)["slurm_constrain"] is False
    assert of("gpu-1", unable, constrain=True)["slurm_constrain"] is True


def test_newer_slurm_has_no_cgroups_at_all_in_containers() -> None:
    seen = facts("gpu-1", container="systemd-nspawn", version_id="13")
    assert of("gpu-1", seen)["slurm_cgroup_plugin"] == "disabled"


def test_the_first_partition_is_the_default_where_none_was_chosen() -> None:
    made = of("head", partitions=[{"name": "a"}, {"name": "b"}])["slurm_partitions"]
    assert [p["default"] for p in made] == [True, False]
    made = of("head", partitions=[{"name": "a"}, {"name": "b", "default": True}])
    assert [p["default"] for p in made["slurm_partitions"]] == [False, True]


def test_a_user_named_twice_is_added_once() -> None:
    made = of("head", accounts=[{"name": "physics", "users": ["ada", "ben", "ada"]}])
    assert made["slurm_accounts"] == [{"name": "physics", "users": ["ada", "ben"]}]


def test_users_whom_no_account_names_charge_the_default_one() -> None:
    def user(name: str, uid: int) -> dict[str, Any]:
        return {"name": name, "uid": uid, "keys": [f"ssh-ed25519 AAAA {name}"]}

    people = {"users": [user("ada", 2001), user("ben", 2002)]}
    default = {"name": "default", "users": ["root", "ada", "ben"]}
    assert of("head", base=people)["slurm_accounts"] == [default]
    physics = {"name": "physics", "users": ["ada"]}
    made = of("head", base=people, accounts=[physics])["slurm_accounts"]
    assert made == [physics, {"name": "default", "users": ["ben"]}]
    physics["users"] = ["ada", "ben"]
    assert of("head", base=people, accounts=[physics])["slurm_accounts"] == [physics]


def test_memory_per_core_is_the_smallest_hosts() -> None:
    made = of("head", facts("gpu-1"), facts("gpu-2", memory=500 * GIB))
    assert made["slurm_memory_per_cpu_mib"] == 484 * 1024 // 192


def test_scratch_concerns_gpu_hosts() -> None:
    assert of("gpu-1")["slurm_scratch"] == "/scratch"
    assert of("head")["slurm_scratch"] == ""


def test_a_site_without_control_host_is_refused() -> None:
    with pytest.raises(ConfigError, match="role control"):
        of("gpu-1", hosts=HOSTS[2:])


@pytest.mark.parametrize("name", ["munge_key", "slurmdbd_password"])
def test_a_missing_secret_is_named(name: str) -> None:
    rest = {k: v for k, v in SECRETS.items() if k != name}
    with pytest.raises(ConfigError, match=f"secrets.{name}"):
        of("head", secrets=rest)


def part(profile: str, minor: int, instance: int) -> dict[str, Any]:
    """An instance of a GPU with its only part."""
    first = 3 + 135 * minor + 9 * instance
    nodes = [f"/dev/nvidia-caps/nvidia-cap{n}" for n in (first, first + 1)]
    parts = [{"id": 0, "slices": 1, "uuid": f"MIG-{minor}-{instance}", "nodes": nodes}]
    place = {"profile_id": 1, "start": 0, "size": 1, "id": instance, "parts": parts}
    return {"profile": profile, **place}


def divided(*gpus: list[dict[str, Any]] | None) -> HostFacts:
    """A host with these GPUs, divided into parts or whole (None)."""
    devices = [
        {
            "index": index,
            "minor": index,
            "uuid": "u",
            "name": "NVIDIA A100-SXM4-80GB",
            "bus_id": "b",
            "memory": 1,
            "mig_enabled": parts is not None,
            "mig": parts or [],
        }
        for index, parts in enumerate(gpus)
    ]
    sound = facts("gpu-1")
    assert sound.gpus is not None
    return HostFacts.model_validate(
        {**sound.model_dump(), "gpus": {**sound.gpus.model_dump(), "devices": devices}}
    )


def test_a_host_of_fewer_gpus_than_its_class_offers_and_watches_its_own() -> None:
    hosts = [{**host, "gpus": 4} if host["name"] == "gpu-1" else host for host in HOSTS]
    made = {
        name: of(name, facts("gpu-1"), facts("gpu-2"), hosts=hosts) for name in ("gpu-1", "gpu-2")
    }
    nodes = {node["name"]: node for node in made["gpu-1"]["slurm_nodes"]}
    assert [nodes[name]["gres"] for name in made] == ["gpu:h100:4", "gpu:h100:8"]
    assert [own["slurm_watch_expects"]["gpus"] for own in made.values()] == [4, 8]


def test_whole_gpus_are_one_line_of_gres() -> None:
    found = node("gpu-1", facts("gpu-1"))
    assert found["gres"] == "gpu:h100:8"
    (line,) = found["devices"]
    assert (line["type"], line["files"], line["option"]) == ("h100", "/dev/nvidia[0-7]", "File")


def test_parts_of_gpus_are_offered_by_their_size_with_all_their_device_files() -> None:
    seen = divided(
        None,
        [part("3g.40gb", 1, 1), part("1g.10gb+me", 1, 12)],
        *[None] * 5,
        [part("3g.40gb", 7, 2)],
    )
    found = node("gpu-1", seen)
    assert found["gres"] == "gpu:a100:6,gpu:1g.10gb.me:1,gpu:3g.40gb:2"
    assert [(line["type"], line["option"], line["files"]) for line in found["devices"]] == [
        ("a100", "File", "/dev/nvidia[0,2-6]"),
        ("1g.10gb.me", "Count", "1"),
        ("3g.40gb", "Count", "2"),
    ]
    assert not any("uuids" in line for line in found["devices"])
    caps = "/dev/nvidia-caps/nvidia-cap"
    own = of("gpu-1", seen)["slurm_devices"]
    assert of("gpu-2", seen)["slurm_devices"] != own
    assert of("head", seen)["slurm_devices"] == []
    assert [(line["type"], line["option"], line["files"]) for line in own] == [
        ("a100", "File", "/dev/nvidia[0,2-6]"),
        ("1g.10gb.me", "MultipleFiles", f"/dev/nvidia1,{caps}246,{caps}247"),
        ("3g.40gb", "MultipleFiles", f"/dev/nvidia1,{caps}147,{caps}148"),
        ("3g.40gb", "MultipleFiles", f"/dev/nvidia7,{caps}966,{caps}967"),
    ]
    # Slurm counts as Gres and these lines do.
    counted = [uuid for line in own for uuid in line["uuids"]]
    assert counted == ["u"] * 6 + ["MIG-1-12", "MIG-1-1", "MIG-7-2"]


def test_a_divided_gpu_without_parts_offers_nothing() -> None:
    found = node("gpu-1", divided([], *[None] * 7))
    assert found["gres"] == "gpu:a100:7"
    assert found["devices"][0]["files"] == "/dev/nvidia[1-7]"


def test_without_a_discovered_fabric_there_is_no_topology() -> None:
    assert of("head")["slurm_switches"] == []


def test_the_tree_is_the_same_on_every_host() -> None:
    cables = [("gpu-1 mlx5_0", "leaf-1"), ("gpu-2 mlx5_0", "leaf-2")]
    trunks = [("leaf-1", "spine-1"), ("leaf-2", "spine-1")]
    topology = {
        "hcas": [{"guid": "0x1", "description": end, "ports": 1} for end, _ in cables],
        "switches": [
            {"guid": "0x2", "description": name, "ports": 40}
            for name in ("leaf-1", "leaf-2", "spine-1")
        ],
        "links": [
            {"node": a, "port": n, "peer": b, "peer_port": n}
            for n, (a, b) in enumerate(cables + trunks, 1)
        ],
    }
    head = HostFacts.model_validate({**facts("head").model_dump(), "topology": topology})
    expected = [
        {"name": "leaf-1", "nodes": "gpu-1", "switches": ""},
        {"name": "leaf-2", "nodes": "gpu-2", "switches": ""},
        {"name": "spine-1", "nodes": "", "switches": "leaf-1,leaf-2"},
    ]
    assert of("head", head)["slurm_switches"] == expected
    assert of("gpu-2", head)["slurm_switches"] == expected


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g me"
USERS = {"users": [{"name": "ada", "uid": 2001, "keys": [KEY]}]}


def asking(*seen: HostFacts, hosts: list[dict[str, Any]] = HOSTS, **given: Any) -> list[str]:
    """Hosts where ssh asks for a job."""
    made = {h["name"]: of(h["name"], *seen, hosts=hosts, **given) for h in hosts}
    return [name for name, each in made.items() if each["slurm_ssh_needs_job"]]


def test_ssh_asks_for_a_job_on_gpu_hosts_where_there_is_somebody_to_ask() -> None:
    seen = [facts("gpu-1", cgroup="v2"), facts("gpu-2", cgroup="v2")]
    assert asking(*seen) == []
    assert asking(*seen, base=USERS) == ["gpu-1", "gpu-2"]
    assert asking(*seen, base=USERS, ssh_needs_job=False) == []
    assert asking(*seen, ssh_needs_job=True) == ["gpu-1", "gpu-2"]


@pytest.mark.parametrize("role", ["control", "login"])
def test_ssh_asks_for_no_job_where_people_submit_jobs(role: str) -> None:
    hosts = [
        {**host, "roles": [role, "gpu"]} if host["name"] == "gpu-1" else host for host in HOSTS
    ]
    assert asking(hosts=hosts, base=USERS) == ["gpu-2"]


def test_ssh_asks_for_no_job_where_no_control_group_holds_it() -> None:
    seen = [facts("gpu-1", cgroup="v2", container="systemd-nspawn"), facts("gpu-2", cgroup="v2")]
    assert asking(*seen, base=USERS) == ["gpu-2"]
    assert asking(*seen, base=USERS, constrain=False) == []
    assert asking(
        facts("gpu-1", cgroup="v2", id="rocky", version_id="9.4"),
        facts("gpu-2", cgroup="v2"),
        base=USERS,
    ) == ["gpu-2"]
