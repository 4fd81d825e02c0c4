"""What becomes of a site in the variables of roles containerd and kubernetes, release by release."""

import re
import tomllib
from typing import Any

import jinja2
import pytest

from appliance.config.data import root
from appliance.config.load import load_profile
from appliance.config.secrets import Secret
from appliance.errors import ConfigError
from appliance.models.facts import HostFacts, Unit
from appliance.models.site import Repositories, Site
from appliance.stages.base.variables import networks as let_in
from appliance.stages.context import RoleContext
from appliance.stages.fabric.facts import Topology
from appliance.stages.fabric.switch_tree import FAMILY
from appliance.stages.fabric.topology import label_families
from appliance.stages.kubernetes.facts import Kubernetes
from appliance.stages.kubernetes.site import KubeletOptions
from appliance.stages.kubernetes.stage import upgrade, upgrades, wanted
from appliance.stages.kubernetes.variables import KUBE_VIP, containerd
from appliance.stages.kubernetes.variables.releases import parse
from appliance.stages.slurm.site import SlurmOptions
from tests.support.facts import facts_of
from tests.support.kubernetes_variables import KEY, hosts, of, site

RELEASES = {"1.28.2": "v1beta3", "1.29": "v1beta3", "1.33": "v1beta4", "1.35.1": "v1beta4"}


def facts(host: str, container: str = "", os: str = "debian", nodes: int = 2) -> HostFacts:
    """Facts of which the system and the NUMA nodes matter here."""
    return facts_of(
        host,
        os={"id": os, "container": container},
        memory={"total": 1 << 40, "available": 1 << 40},
        numa=[{"node": n, "cpus": "0-1", "memory": 1 << 39} for n in range(nodes)],
        interfaces=[
            {"name": "ib0", "mtu": 2044, "state": "up", "addresses": ["10.9.0.1/24"]},
            {"name": "eno1", "mtu": 1500, "state": "up", "addresses": ["10.0.0.1/24"]},
        ],
    )


def running(host: str, version: str) -> HostFacts:
    """Facts of a host whose kubelet says that it is of this release."""
    return facts(host).model_copy(update={"kubernetes": Kubernetes(version=version)})


def document(found: dict[str, Any], kind: str) -> dict[str, Any]:
    """One of kubeadm's documents."""
    (one,) = [d for d in found["kubernetes_kubeadm"] if d["kind"] == kind]
    assert isinstance(one, dict)
    return one


def arguments(given: object) -> dict[str, str]:
    """Extra arguments in either of their forms."""
    if isinstance(given, list):
        return {item["name"]: item["value"] for item in given}
    assert isinstance(given, dict)
    return given


@pytest.mark.parametrize("control", [1, 3])
@pytest.mark.parametrize(("version", "api"), RELEASES.items())
def test_each_release_gets_the_configuration_its_kubeadm_reads(
    version: str, api: str, control: int
) -> None:
    found = of("head-1", site(control, version=version))
    cluster, init = (
        document(found, "ClusterConfiguration"),
        document(found, "InitConfiguration"),
    )
    assert cluster["apiVersion"] == init["apiVersion"] == f"kubeadm.k8s.io/{api}"
    assert isinstance(cluster["apiServer"]["extraArgs"], list) == (api == "v1beta4")
    server = arguments(cluster["apiServer"]["extraArgs"])
    assert server["encryption-provider-config"].startswith("/etc/kubernetes/appliance/")
    assert server["audit-log-path"] == "/var/log/kubernetes/audit.log"
    assert server["service-account-extend-token-expiration"] == "false"
    assert cluster.get("kubernetesVersion") == (f"v{version}" if version.count(".") == 2 else None)
    endpoint = "10.0.0.100:6443" if control == 3 else "10.0.0.1:6443"
    assert cluster["controlPlaneEndpoint"] == found["kubernetes_endpoint"] == endpoint
    assert ("10.0.0.100" in cluster["apiServer"]["certSANs"]) == (control == 3)
    assert arguments(init["nodeRegistration"]["kubeletExtraArgs"]) == {"node-ip": "10.0.0.1"}


@pytest.mark.parametrize("version", RELEASES)
def test_hosts_that_share_a_machine_give_etcd_more_time(version: str) -> None:
    plain, shared = (
        document(of("head-1", site(version=version), facts("head-1", kind)), "ClusterConfiguration")
        for kind in ("", "systemd-nspawn")
    )
    room = {"quota-backend-bytes": str(8 << 30)}
    assert arguments(plain["etcd"]["local"]["extraArgs"]) == room
    times = arguments(shared["etcd"]["local"]["extraArgs"])
    assert times == {**room, "heartbeat-interval": "500", "election-timeout": "5000"}


@pytest.mark.parametrize(
    ("version", "dns", "skipped"),
    [
        ("1.31.9", "supplied", []),
        ("1.32", "supplied", ["addon/coredns"]),
        ("1.36", "supplied", ["addon/coredns"]),
        ("1.36", "coredns", []),
    ],
)
@pytest.mark.parametrize("host", ["head-1", "head-2", "gpu-1"])
def test_an_upgrade_leaves_out_the_dns_server_where_kubeadm_can_be_told_to(
    host: str, version: str, dns: str, skipped: list[str]
) -> None:
    cluster = site(control=3, version=version, dns=dns)
    assert of(host, cluster)["kubernetes_upgrade_skip"] == skipped


@pytest.mark.parametrize(("version", "learners"), {"1.28.9": False, "1.29": True}.items())
def test_members_of_etcd_learn_before_they_count_from_1_29_on(version: str, learners: bool) -> None:
    assert of("head-1", site(version=version))["kubernetes_learners"] is learners


@pytest.mark.parametrize("host", ["head-1", "head-3", "gpu-1"])
def test_every_host_knows_all_control_planes_and_one_makes_the_cluster(host: str) -> None:
    found = of(host, site(3, version="1.35"))
    assert found["kubernetes_control_addresses"] == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    assert found["kubernetes_first"] == (host == "head-1")
    assert (found["kubernetes_virtual_address"] != "") == host.startswith("head")


def test_control_planes_are_kept_free_of_pods() -> None:
    given = site(version="1.35")
    registration = of("head-1", given)["kubernetes_registration"]
    taint = "node-role.kubernetes.io/control-plane"
    assert registration["taints"] == [{"key": taint, "effect": "NoSchedule"}]
    assert registration["criSocket"] == "unix:///run/containerd/containerd.sock"
    assert of("gpu-1", given)["kubernetes_registration"]["taints"] == []


def test_three_control_planes_share_an_address_on_the_interface_of_management() -> None:
    given = site(3, version="1.35")
    seen = facts("head-1")
    found = of("head-1", given, seen)
    assert found["kubernetes_virtual_address"] == "10.0.0.100"
    assert found["kubernetes_virtual_interface"] == "eno1"
    assert [of(f"head-{n}", given)["kubernetes_first"] for n in (1, 2, 3)] == [True, False, False]
    assert of("gpu-1", given)["kubernetes_virtual_address"] == ""


@pytest.mark.parametrize("image", ["", f"mirror/kube-vip@sha256:{'0' * 64}"])
def test_what_holds_the_address_is_the_image_the_site_pins_or_the_one_of_its_source(
    image: str,
) -> None:
    given = site(3, version="1.35", source="/opt/source", address_image=image or None)
    assert of("head-1", given)["kubernetes_virtual_image"] == (image or KUBE_VIP)
    assert of("head-1", site(version="1.35"))["kubernetes_virtual_image"] == ""


def test_the_key_of_secrets_goes_to_control_planes_alone() -> None:
    given = site(version="1.35")
    assert of("head-1", given)["kubernetes_encryption_key"] == KEY
    assert of("gpu-1", given, key=None)["kubernetes_encryption_key"] == ""


@pytest.mark.parametrize("key", [None, Secret("short"), Secret("k" * 44)])
def test_a_control_plane_without_a_usable_key_is_refused(key: Secret | None) -> None:
    with pytest.raises(ConfigError, match="kubernetes_encryption_key"):
        of("head-1", site(version="1.35"), key=key)


def test_a_gpu_host_hands_out_whole_processors_of_one_node() -> None:
    found = of("gpu-1", site(version="1.35"), facts("gpu-1"))["kubernetes_kubelet"]
    assert found["cpuManagerPolicy"] == "static"
    assert found["topologyManagerPolicy"] == "best-effort"
    assert found["systemReserved"] == {"cpu": "2", "memory": "4096Mi"}
    assert found["cgroupDriver"] == "systemd"
    assert "memoryManagerPolicy" not in found
    assert "cpuManagerPolicy" not in of("head-1", site(version="1.35"))["kubernetes_kubelet"]


@pytest.mark.parametrize(("pods", "written"), [(110, None), (250, 250)])
def test_places_for_pods_are_written_where_they_are_not_kubelets_own(
    pods: int, written: int | None
) -> None:
    given = site(version="1.35", kubelet=KubeletOptions(max_pods=pods))
    assert of("gpu-1", given, facts("gpu-1"))["kubernetes_kubelet"].get("maxPods") == written
    assert "maxPods" not in of("head-1", given)["kubernetes_kubelet"]


@pytest.mark.parametrize(
    ("release", "version"),
    [("1.33", None), ("1.34", "v1beta1=true"), ("1.35", "v1beta1=true"), ("1.36", None)],
)
def test_a_release_whose_policies_need_a_gate_gets_it(release: str, version: str | None) -> None:
    found = of("head-1", site(version=release))
    server = arguments(document(found, "ClusterConfiguration")["apiServer"]["extraArgs"])
    assert server.get("feature-gates") == (version and "MutatingAdmissionPolicy=true")
    assert server.get("runtime-config") == (version and f"admissionregistration.k8s.io/{version}")


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_memory_kept_from_pods_is_spread_over_the_nodes_without_rest(nodes: int) -> None:
    given = site(version="1.35", kubelet={"memory_manager": "static", "system_memory_mib": 5000})
    found = of("gpu-1", given, facts("gpu-1", nodes=nodes))["kubernetes_kubelet"]
    reserved = [int(item["limits"]["memory"][:-2]) for item in found["reservedMemory"]]
    assert len(reserved) == nodes
    # kubelet demands exactly kube and system reserve and the hard eviction threshold.
    assert sum(reserved) == 5000 + 1024 + 512


def test_api_and_kubelets_take_no_cipher_without_forward_secrecy_or_authentication() -> None:
    found = of("head-1", site(version="1.35"), facts("head-1"))
    server = arguments(document(found, "ClusterConfiguration")["apiServer"]["extraArgs"])
    taken = found["kubernetes_kubelet"]["tlsCipherSuites"]
    assert server["tls-cipher-suites"].split(",") == taken
    # HTTP/2 of Go's servers does not start without the first.
    assert "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256" in taken
    assert all(re.fullmatch(r"TLS_ECDHE_(RSA|ECDSA)_WITH_AES_\d+_GCM_SHA\d+", c) for c in taken)


@pytest.mark.parametrize("host", ["head-1", "gpu-1"])
def test_a_pod_cannot_take_all_process_numbers_of_a_host(host: str) -> None:
    assert of(host, site(version="1.35"))["kubernetes_kubelet"]["podPidsLimit"] == 65_536


def test_a_container_sets_nothing_of_its_machine() -> None:
    given = site(version="1.28.2", containerd="1.6")
    found = of("head-1", given, facts("head-1", container="systemd-nspawn"))
    assert found["kubernetes_kubelet"]["cgroupDriver"] == "cgroupfs"
    assert "cpuManagerPolicy" not in found["kubernetes_kubelet"]
    assert document(found, "KubeProxyConfiguration")["conntrack"] == {"maxPerCore": 0}
    assert found["containerd_container"] is True
    assert found["containerd_systemd_cgroups"] is False


@pytest.mark.parametrize(
    ("version", "container", "told"),
    [("1.35", "systemd-nspawn", True), ("1.30", "systemd-nspawn", False), ("1.35", "", False)],
)
def test_kubelet_runs_on_the_cgroups_a_container_has(
    version: str, container: str, told: bool
) -> None:
    """Real hosts keep kubelet's own refusal of cgroup v1."""
    found = of("head-1", site(version=version), facts("head-1", container=container))
    assert ("failCgroupV1" in found["kubernetes_kubelet"]) is told
    assert found["kubernetes_kubelet"].get("failCgroupV1", False) is False


@pytest.mark.parametrize(
    ("os", "state", "file"),
    [
        ("ubuntu", "active", "/run/systemd/resolve/resolv.conf"),
        ("debian", "active", "/run/systemd/resolve/resolv.conf"),
        ("ubuntu", "inactive", "/etc/resolv.conf"),
        ("ubuntu", None, "/etc/resolv.conf"),
    ],
)
def test_pods_resolve_through_the_hosts_own_servers_not_a_stub(
    os: str, state: str | None, file: str
) -> None:
    units = {"systemd-resolved.service": Unit(load="loaded", active=state)} if state else {}
    host = facts("gpu-1", os=os).model_copy(update={"units": units})
    found = of("gpu-1", site(version="1.35"), host)["kubernetes_kubelet"]
    assert found["resolvConf"] == file
    assert found["clusterDNS"] == ["10.96.0.10"]


def test_bridged_hosts_have_parts_of_their_own_and_routes_to_all_others() -> None:
    given = site(version="1.28.2", network="bridge")
    found = of("gpu-1", given)
    assert found["kubernetes_pod_subnet"] == "10.244.11.0/24"
    assert found["kubernetes_pod_routes"] == [
        {"subnet": "10.244.1.0/24", "via": "10.0.0.1"},
        {"subnet": "10.244.12.0/24", "via": "10.0.0.12"},
    ]
    assert of("gpu-1", site(version="1.35"))["kubernetes_pod_routes"] == []


def test_a_hosts_part_stays_when_others_come_and_go() -> None:
    fewer = site(version="1.28.2", network="bridge", given=[*hosts(1)[:1], hosts(1)[2]])
    assert of("gpu-2", fewer)["kubernetes_pod_subnet"] == "10.244.12.0/24"


def test_owner_is_the_cluster_unless_the_site_says_slurm() -> None:
    given = hosts(1)
    given[1]["owner"] = "slurm"
    both = site(version="1.35", given=given)
    assert of("gpu-1", both)["kubernetes_owner"] == "slurm"
    assert of("gpu-2", both)["kubernetes_owner"] == "kubernetes"


@pytest.mark.parametrize(
    ("version", "schema", "package", "devices"),
    [
        ("1.6", 2, "containerd", False),
        ("1.7", 2, "containerd", True),
        ("2.0", 3, "containerd.io", True),
        ("2.2.1", 3, "containerd.io", True),
        ("2.3", 3, "containerd.io", True),
    ],
)
def test_containerd_gets_the_schema_of_its_release(
    version: str, schema: int, package: str, devices: bool
) -> None:
    found = of("gpu-1", site(version="1.35", containerd=version, source="/opt/source"))
    assert found["containerd_schema"] == schema
    assert found["containerd_package"] == package
    assert found["containerd_release"] == version
    assert found["containerd_devices"] is devices


@pytest.mark.parametrize(("source", "name"), [("docker", ".io"), ("distribution", "")])
def test_containerd_is_called_as_its_repository_calls_it(source: str, name: str) -> None:
    given = site(version="1.35", containerd="1.7")
    chosen = Repositories.model_validate({"containerd": {"source": source}})
    found = of("gpu-1", given.model_copy(update={"repositories": chosen}))
    assert found["containerd_package"] == f"containerd{name}"
    assert found["containerd_repository"] == source


PARTS = ("packages", "images", "charts", "manifests")


def test_hosts_without_a_control_plane_are_spared_the_images_of_static_pods() -> None:
    image = "registry.example.org:5000/vip/holder:1@sha256:" + "0" * 64
    given = site(version="1.35", source="/opt/source", address_image=image)
    assert of("head-1", given)["containerd_images_spared"] == []
    spared = of("gpu-1", given)["containerd_images_spared"]
    assert {"etcd", "kube-apiserver", "kube-vip", "holder"} <= set(spared)
    assert "coredns" not in spared
    assert of("gpu-1", site(version="1.35"))["containerd_images_spared"] == []


def test_coredns_has_two_hosts_where_two_can_take_its_pods() -> None:
    assert of("head-1", site(version="1.35"))["kubernetes_dns_spread"] is True
    assert of("gpu-1", site(version="1.35"))["kubernetes_dns_spread"] is False
    given = [
        {**host, **({"owner": "slurm"} if "gpu" in host["roles"] else {})} for host in hosts(1)
    ]
    alone = site(given=given, version="1.35").model_copy(update={"slurm": SlurmOptions()})
    assert of("head-1", alone)["kubernetes_dns_spread"] is False


@pytest.mark.parametrize("brought", [(), PARTS, *((part,) for part in PARTS)])
def test_parts_of_the_offline_source_stand_alone(brought: tuple[str, ...]) -> None:
    found = of("head-1", site(version="1.35", source="/opt/source", source_parts=brought))
    has = {part: "/opt/source" if part in brought else "" for part in PARTS}
    assert found["containerd_source"] == has["packages"]
    assert found["kubernetes_source"] == has["manifests"]
    images = [f"/opt/source/images/{name}" for name in ("hosts", "control")]
    assert found["containerd_image_folders"] == (images if has["images"] else [])
    online = ("docker", "kubernetes") if not has["packages"] else ("", "")
    assert (found["containerd_repository"], found["kubernetes_repository"]) == online


@pytest.mark.parametrize(
    ("minor", "image"),
    [
        (28, "registry.k8s.io/pause:3.9"),
        (29, "registry.k8s.io/pause:3.9"),
        (33, "registry.k8s.io/pause:3.10"),
        (35, "registry.k8s.io/pause:3.10.1"),
        (36, "registry.k8s.io/pause:3.10.2"),
    ],
)
def test_the_sandbox_image_is_the_one_kubeadm_names(minor: int, image: str) -> None:
    assert containerd.sandbox_image(minor) == image


def test_mirrors_stand_before_their_registries() -> None:
    mirrors = {"docker.io": "https://mirror.example.org/hub", "registry.k8s.io": "http://m:5000"}
    found = of("gpu-1", site(version="1.35", registry_mirrors=mirrors))["containerd_mirrors"]
    assert found == [
        {
            "registry": "docker.io",
            "server": "https://registry-1.docker.io",
            "mirror": "https://mirror.example.org/hub",
        },
        {
            "registry": "registry.k8s.io",
            "server": "https://registry.k8s.io",
            "mirror": "http://m:5000",
        },
    ]


@pytest.mark.parametrize("text", ["1.27", "1.99", "2.1", "1.x", "1", "1.28.1.1"])
def test_a_release_without_tables_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not supported"):
        parse(text)


def test_the_stage_is_wanted_where_the_site_makes_a_cluster() -> None:
    given = site(version="1.35")
    assert wanted(given)
    assert not wanted(given.model_copy(update={"kubernetes": None}))
    external = Site.model_validate(
        {**given.model_dump(mode="json", exclude={"kubernetes"}), "kubernetes": {"external": "k"}}
    )
    assert not wanted(external)


def test_an_external_cluster_stands_alone() -> None:
    with pytest.raises(ValueError, match="remove all other keys"):
        site(version="1.35", external="kubeconfig")


def test_the_firewall_lets_pods_in_where_there_are_any() -> None:
    given = site(version="1.35")
    assert let_in(given) == ["10.0.0.0/24", "10.244.0.0/16"]
    assert let_in(given.model_copy(update={"kubernetes": None})) == ["10.0.0.0/24"]


def fabric(*cables: tuple[str, str]) -> dict[str, Any]:
    """What discovery finds where these adapters hang on these leaves, and the leaves on one spine."""
    leaves = sorted({leaf for _, leaf in cables})
    links = [*cables, *((leaf, "spine-1") for leaf in leaves)]
    return {
        "hcas": [{"guid": "0x1", "description": end, "ports": 1} for end, _ in cables],
        "switches": [
            {"guid": "0x2", "description": name, "ports": 40} for name in (*leaves, "spine-1")
        ],
        "links": [
            {"node": a, "port": n, "peer": b, "peer_port": n} for n, (a, b) in enumerate(links, 1)
        ],
    }


def test_gpu_hosts_are_labelled_with_their_place_in_the_fabric_and_with_nothing_else() -> None:
    seen = fabric(("gpu-1 mlx5_0", "leaf-1"), ("gpu-2 mlx5_0", "leaf-2"))
    head = facts("head-1").model_copy(update={"topology": Topology.model_validate(seen)})
    found = of("gpu-2", site(), head)
    tiers = {k: v for k, v in found["kubernetes_labels"].items() if k.startswith(FAMILY)}
    assert tiers == {f"{FAMILY}1": "leaf-2", f"{FAMILY}2": "spine-1"}
    assert found["kubernetes_label_families"] == [FAMILY]
    assert not any(k.startswith(FAMILY) for k in of("head-1", site(), head)["kubernetes_labels"])


def test_a_fabric_nobody_has_discovered_yet_takes_no_label_away() -> None:
    assert of("gpu-1", site())["kubernetes_label_families"] == []
    given = site()
    context = RoleContext(load_profile("balanced"), given, given.host("gpu-1"), {}, {})
    assert label_families(context) == [FAMILY]


@pytest.mark.parametrize(
    ("wanted", "present", "fix"),
    [
        ("1.34", "1.35", 'set kubernetes.version: "1.35": kubeadm takes no cluster back'),
        ("1.35.1", "1.35.2", 'set kubernetes.version: "1.35.2": kubeadm takes no cluster back'),
        ("1.37", "1.35", "upgrade to 1.36 first"),
    ],
)
def test_a_release_back_or_over_a_minor_one_is_refused_before_a_host_is_met(
    wanted: str, present: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appliance.stages.kubernetes.variables.releases.NEWEST", 37)
    with pytest.raises(ConfigError) as refused:
        of("head-1", site(1, version=wanted), running("head-1", "v1.35.2"))
    told = f"head-1 runs Kubernetes {present}, and the site asks for {wanted}"
    assert refused.value.message == told
    assert fix in refused.value.hint
    # What a host that is no control plane says ends its own stage alone.
    made = of("gpu-1", site(1, version=wanted), running("gpu-1", "v1.35.2"))
    assert fix in made["kubernetes_refused"]
    assert (
        of("head-1", site(1, version=wanted), running("gpu-1", "v1.35.2"))["kubernetes_refused"]
        == ""
    )


@pytest.mark.parametrize(
    ("wanted", "present", "drained"),
    [
        ("1.36", "v1.35.2", True),
        ("1.36.1", "v1.35.2", True),
        ("1.35.7", "v1.35.2", True),
        ("1.35", "v1.35.2", False),
        ("1.35.2", "v1.35.2", False),
        ("1.36", "", False),
        ("1.36", "unknown", False),
    ],
)
def test_a_host_is_drained_for_the_next_minor_release_and_for_a_later_patch(
    wanted: str, present: str, drained: bool
) -> None:
    seen = running("gpu-1", present)
    given = site(1, version=wanted)
    assert upgrades(given.host("gpu-1"), seen, of("gpu-1", given, seen)) is drained
    assert not upgrades(given.host("gpu-1"), None, of("gpu-1", given))


def test_the_plan_says_of_an_upgrade_from_where_to_where_and_in_which_order() -> None:
    given = site(3, version="1.36")
    told = {}
    for host in given.hosts:
        seen = running(host.name, "v1.35.2")
        told[host.name] = upgrade(given, host, seen, of(host.name, given, seen))
    release = "upgrade 1.35.2 → 1.36: "
    assert told["head-1"] == release + "etcd saved, then drained; first, alone"
    assert told["head-3"] == release + "drained; alone, after the first control plane"
    assert told["gpu-1"] == release + "drained; 1 at a time, after the control planes"


@pytest.mark.parametrize("version", ["v1.35.2", "", "unknown"])
def test_the_release_that_runs_or_one_nobody_tells_is_deployed(version: str) -> None:
    seen = running("gpu-1", version)
    assert of("gpu-1", site(1, version="1.35.7"), seen)["kubernetes_version"] == "1.35.7"


CONTAINERD = root() / "roles/containerd/templates/etc/containerd/config.toml.j2"
NVIDIA = "/usr/bin/nvidia-container-runtime"


def plugins_of(host: str, version: str) -> dict[str, Any]:
    """What containerd of a release is told of its plugins."""
    found = of(host, site(version="1.35", containerd=version))
    made = jinja2.Environment().from_string(CONTAINERD.read_text())
    written = made.render(**found, __containerd_plugins="/usr/lib/cni")
    plugins: dict[str, Any] = tomllib.loads(written)["plugins"]
    return plugins


@pytest.mark.parametrize(
    ("version", "key"),
    [("1.7", "bin_dir"), ("2.0", "bin_dir"), ("2.1", "bin_dirs"), ("2.10.1", "bin_dirs")],
)
def test_network_plugins_are_named_as_the_release_reads_them(version: str, key: str) -> None:
    """2.4 reads bin_dirs alone, which is known since 2.1."""
    written = plugins_of("gpu-1", version)
    cri = written.get("io.containerd.cri.v1.runtime") or written["io.containerd.grpc.v1.cri"]
    place = "/opt/cni/bin"
    assert {k: v for k, v in cri["cni"].items() if k.startswith("bin")} == {
        key: [place] if key == "bin_dirs" else place
    }


@pytest.mark.parametrize(
    ("host", "version"), [("gpu-1", "1.7"), ("gpu-1", "2.2"), ("gpu-1", "2.3")]
)
def test_pods_of_the_gpu_operator_find_their_runtime(host: str, version: str) -> None:
    written = plugins_of(host, version)
    cri = written.get("io.containerd.cri.v1.runtime") or written["io.containerd.grpc.v1.cri"]
    runtimes = cri["containerd"]["runtimes"]
    assert runtimes["nvidia"]["options"] == {"BinaryName": NVIDIA, "SystemdCgroup": True}
    assert "BinaryName" not in runtimes["runc"]["options"]
    assert of("head-1", site(version="1.35"))["containerd_gpu_runtime"] == ""


@pytest.mark.parametrize(
    ("image", "subnet"),
    [
        (f"mirror:5000/kube-vip:v0.8.9@sha256:{'0' * 64}", False),
        (f"mirror:5000/kube-vip:v0.9.0@sha256:{'0' * 64}", True),
        (f"mirror:5000/kube-vip:v1.2.3@sha256:{'0' * 64}", True),
        (f"mirror:5000/kube-vip@sha256:{'0' * 64}", True),
        (None, False),
    ],
)
def test_kube_vip_is_told_its_mask_by_the_name_its_release_reads(
    image: str | None, subnet: bool
) -> None:
    given = site(3, version="1.35", source="/opt/source", address_image=image)
    assert of("head-1", given)["kubernetes_virtual_subnet"] is subnet


def test_no_threshold_of_eviction_is_lost_by_giving_others() -> None:
    kubelet = of("gpu-1", site(version="1.35"))["kubernetes_kubelet"]
    assert kubelet["evictionHard"]["nodefs.inodesFree"] == "5%"
    assert kubelet["evictionHard"]["imagefs.inodesFree"] == "5%"


@pytest.mark.parametrize(
    ("cluster", "more", "brought"),
    [
        ({"network": "calico"}, {}, True),
        ({"network": "bridge"}, {}, True),
        ({"network": "bridge", "device_plugin": "own"}, {}, False),
        ({"network": "bridge"}, {"scheduler": {"projects": []}}, True),
        ({"network": "calico", "source": "/opt/source"}, {}, False),
        ({"network": "calico", "source": "/opt/source", "source_parts": ["images"]}, {}, True),
    ],
)
def test_helm_is_brought_by_its_digest_where_something_is_installed_by_it(
    cluster: dict[str, Any], more: dict[str, Any], brought: bool
) -> None:
    given = Site.model_validate({**site(version="1.35", **cluster).model_dump(mode="json"), **more})
    found = of("head-1", given)["kubernetes_helm"]
    assert bool(found) is brought
    assert not brought or re.fullmatch("[0-9a-f]{64}", found["sha256"])
    assert of("gpu-1", given)["kubernetes_helm"] == {}


def test_calico_is_two_releases_whose_pods_stay_on_network_management() -> None:
    first, second = of("head-1", site(version="1.35"))["kubernetes_network_releases"]
    assert (first["chart"], second["chart"]) == ("crd.projectcalico.org.v1", "tigera-operator")
    assert first["version"] == second["version"] == "v3.32.1"
    calico = second["values"]["installation"]["calicoNetwork"]
    assert calico["ipPools"][0]["cidr"] == "10.244.0.0/16"
    assert calico["nodeAddressAutodetectionV4"] == {"cidrs": ["10.0.0.0/24"]}
    assert of("gpu-1", site(version="1.35"))["kubernetes_network_releases"] == []


@pytest.mark.parametrize(("members", "operators"), [(1, 1), (3, 2)])
def test_cilium_has_no_more_operators_than_hosts(members: int, operators: int) -> None:
    given = site(
        version="1.35", network="cilium", network_version="1.19.3", given=hosts(1)[:members]
    )
    (release,) = of("head-1", given)["kubernetes_network_releases"]
    assert release["version"] == "1.19.3"
    assert release["values"]["operator"]["replicas"] == operators
    assert release["values"]["ipam"]["operator"]["clusterPoolIPv4PodCIDRList"] == ["10.244.0.0/16"]


def test_plain_routes_have_no_chart() -> None:
    given = site(version="1.35", network="bridge")
    assert of("head-1", given)["kubernetes_network_releases"] == []


def test_the_first_control_host_installs_what_hands_out_gpus() -> None:
    given = of("head-1", site(version="1.35", device_plugin="operator"))
    (release,) = given["kubernetes_gpu_releases"]
    assert (release["name"], release["version"]) == ("gpu-operator", "v26.3.2")
    assert [gone["name"] for gone in given["kubernetes_gpu_replaced"]] == ["nvidia-device-plugin"]
    assert given["kubernetes_gpu_runtime"] == []
    other = of("gpu-1", site(version="1.35", device_plugin="operator"))
    assert (other["kubernetes_gpu_releases"], other["kubernetes_gpu_replaced"]) == ([], [])


def test_the_plugin_alone_comes_with_the_runtime_that_its_pods_ask_for() -> None:
    given = of("head-1", site(version="1.35", device_plugin="plugin"))
    (release,) = given["kubernetes_gpu_releases"]
    assert (release["name"], release["version"]) == ("nvidia-device-plugin", "0.20.0")
    (runtime,) = given["kubernetes_gpu_runtime"]
    assert release["values"]["runtimeClassName"] == runtime["metadata"]["name"] == "nvidia"


def test_a_device_plugin_of_the_sites_own_is_left_to_the_site() -> None:
    given = of("head-1", site(version="1.35", device_plugin="own"))
    assert given["kubernetes_gpu_releases"] == given["kubernetes_gpu_replaced"] == []


def test_only_control_hosts_report_static_pods_where_the_release_can_say_so() -> None:
    def policies(version: str) -> list[dict[str, Any]]:
        found = of("head-1", site(3, version=version))["kubernetes_node_rights"]
        return [one for one in found if one["kind"].startswith("ValidatingAdmission")]

    policy, binding, *_ = policies("1.30")
    assert policy["spec"]["validations"][0]["expression"] == (
        "request.userInfo.username in ['system:node:head-1', 'system:node:head-2', 'system:node:head-3']"
    )
    assert binding["spec"] == {
        "policyName": policy["metadata"]["name"],
        "validationActions": ["Deny"],
    }
    assert policies("1.29") == []
    assert of("head-2", site(3))["kubernetes_node_rights"] == []


def test_kubelets_of_gpu_hosts_write_only_small_events_and_requests() -> None:
    """Else one host would fill etcd for all: each event may have a megabyte, and there is no limit to their number."""
    found = of("head-1", site(3, version="1.30"))["kubernetes_node_rights"]
    specs = {
        one["metadata"]["name"]: one["spec"]
        for one in found
        if one["kind"] == "ValidatingAdmissionPolicy"
    }
    bound = {
        one["spec"]["policyName"]: one["spec"]["validationActions"]
        for one in found
        if one["kind"] == "ValidatingAdmissionPolicyBinding"
    }
    for name, resource in (
        ("appliance-node-events", "events"),
        ("appliance-node-requests", "certificatesigningrequests"),
    ):
        (rule,) = specs[name]["matchConstraints"]["resourceRules"]
        assert (rule["resources"], rule["operations"]) == ([resource], ["CREATE", "UPDATE"])
        assert specs[name]["matchConditions"] == specs["appliance-static-pods"]["matchConditions"]
        assert bound[name] == ["Deny"]
        control = "request.userInfo.username in ['system:node:head-1', 'system:node:head-2', 'system:node:head-3'] || "
        told = [one["expression"] for one in specs[name]["validations"]]
        assert all(one.startswith(control) for one in told)
        assert told[0].endswith("<= 8192")
    texts = specs["appliance-node-events"]["validations"][0]["expression"]
    for text in ("message", "reason", "source.?host", "involvedObject.?fieldPath", "related.?name"):
        assert f'object.?{text}.orValue("")' in texts
