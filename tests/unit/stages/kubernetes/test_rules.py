"""A site with an unusable cluster is refused with the key and the reason."""

from pathlib import Path

import pytest

from appliance.config.finding import InvalidConfig
from appliance.config.load import find_profile, load_site
from appliance.config.new_secrets import CLUSTER_KEY, write_secrets
from tests.support.site_folder import site_folder

__all__ = ["site_folder"]


MORE_CONTROL = "".join(
    f"  - {{name: head-{n}, roles: [control], address: 10.0.0.2{n}}}\n" for n in (1, 2)
)
PINNED = f"ghcr.io/kube-vip/kube-vip:v0.8.9@sha256:{'0' * 64}"
KAI = "scheduler: {kind: kai}"
KEY_LINE = f"  {CLUSTER_KEY}: {{file: secrets/{CLUSTER_KEY}}}\n"


def problems(
    folder: Path, section: str, host: str = "", key: bool = True, more: str = KAI
) -> list[str]:
    """What is said of the site with a section kubernetes, a further host, and its key."""
    write_secrets(folder / "secrets", slurm=False, kubernetes=True)
    text = (folder / "site.yml").read_text()
    if key:
        text = text.replace("\nbase:\n", f"{KEY_LINE}\nbase:\n")
    text = text.replace("\nsecrets:\n", f"{host}\nsecrets:\n")
    (folder / "site.yml").write_text(f"{text}\nkubernetes: {section}\n{more}\n")
    try:
        load_site(folder)
    except InvalidConfig as error:
        return [f"{f.key} {f.message}" for f in error.findings]
    return []


def test_a_sound_cluster_is_accepted(site_folder: Path) -> None:
    assert problems(site_folder, '{version: "1.35", network: cilium}') == []


def test_pods_may_have_addresses_that_carriers_share(site_folder: Path) -> None:
    assert problems(site_folder, '{version: "1.35", pod_network: 100.64.0.0/16}') == []


def test_two_issuers_that_name_nobody_alike_are_accepted(site_folder: Path) -> None:
    given = "[{issuer: https://a, client_id: k}, {issuer: 'https://b:8443/x', client_id: k, prefix: 'b:'}]"
    assert problems(site_folder, f'{{version: "1.35", oidc: {given}}}') == []


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("{pod_network: 10.0.0.0/16}", "overlaps 10.0.0.0/24"),
        ("{service_network: 10.0.8.0/24}", "overlaps 10.0.8.0/24"),
        ("{pod_network: 10.96.0.0/12}", "overlaps pod_network"),
        ("{pod_network: 10.244.0.0/25}", "too few addresses"),
        ("{pod_network: 8.8.0.0/16}", "is not private"),
        ("{pod_network: 127.0.0.0/16}", "is not private"),
        ("{service_network: 169.254.0.0/16}", "is not private"),
        ("{pod_network: 10.0.16.0/20}", "contains 10.0.16.11 of hosts[1].bmc.address"),
        ("{address: 10.0.0.100}", "the single control plane uses its own address"),
        ('{version: "1.19"}', "is not supported"),
        ('{version: "1.32"}', "kubernetes"),
        ("{external: nowhere}", "nowhere is not a file"),
        ("{network: flannel}", "is not accepted"),
        ("{network: bridge, network_version: v3.32.1}", "bridge has no chart"),
        ("{network_policies: supplied}", "calico enforces NetworkPolicies itself"),
        ("{network: bridge, network_policies: supplied}", "needs a manifest in the offline source"),
        ("{network_version: newest}", "network_version"),
        ("{registry_mirrors: {Docker: x}}", "registry_mirrors"),
        ("{kubelet: {system_memory_mib: 1048576}}", "none of the 983,040 MiB"),
        ("{registry_mirrors: {'docker.io:80443': 'https://m'}}", "registry_mirrors"),
        ("{registry_mirrors: {docker.io: 'https://mirror:80443'}}", "registry_mirrors"),
        ("{oidc: [{issuer: 'https://sso:80443', client_id: k}]}", "oidc[0].issuer"),
        ("{oidc: [{issuer: 'http://sso', client_id: k}]}", "oidc[0].issuer"),
        ("{oidc: [{issuer: 'https://sso?x=1', client_id: k}]}", "oidc[0].issuer"),
        ("{oidc: [{issuer: 'https://sso', client_id: k, ca: ca.pem}]}", "oidc[0].ca"),
        ("{oidc: [{issuer: 'https://sso', client_id: k, prefix: 'system'}]}", "oidc[0].prefix"),
        (
            '{version: "1.29", oidc: [{issuer: https://sso, client_id: k}]}',
            "Kubernetes 1.29 does not support it",
        ),
        (
            "{oidc: [{issuer: https://a, client_id: k}, {issuer: https://b, client_id: k}]}",
            "can produce the same user name",
        ),
        (
            "{oidc: [{issuer: https://a, client_id: k}, {issuer: https://a, client_id: l, prefix: 'b:'}]}",
            "is given twice",
        ),
        (
            "{network: bridge, kubelet: {max_pods: 251}}",
            "251 pods, but network bridge gives a host one block of /24",
        ),
        ("{network: cilium, kubelet: {max_pods: 500}}", "500 pods, but network cilium"),
    ],
)
def test_an_unusable_cluster_is_refused(site_folder: Path, section: str, said: str) -> None:
    found = problems(site_folder, section)
    assert any("kubernetes" in line and said in line for line in found)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("", "need a virtual address that survives"),
        ("10.0.0.11", "is also hosts[1].address"),
        ("10.9.9.9", "is outside management"),
        ("10.0.0.255", "is the broadcast address"),
        ("10.0.0.1", "is also networks.management.gateway"),
        ("10.0.0.2", "is also networks.management.dns[0]"),
        ("10.0.0.99", "is also hosts[5].bmc.address"),
    ],
)
def test_three_control_planes_need_a_free_address_of_management(
    site_folder: Path, address: str, said: str
) -> None:
    section = f"{{address: {address}}}" if address else "{}"
    bmc = "{address: 10.0.0.99, user: admin, password: {file: secrets/bmc}}"
    more = f"{MORE_CONTROL}  - {{name: gpu-9, roles: [gpu], address: 10.0.0.98, bmc: {bmc}}}\n"
    found = problems(site_folder, section, more)
    told = [line for line in found if line.startswith("kubernetes.address ")]
    assert any(said in line for line in told), found


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("{address: 10.0.0.100}", "named by a tag"),
        ("{address: 10.0.0.100, address_image: ghcr.io/kube-vip/kube-vip:v0.8.9}", "its digest"),
        (f"{{address: 10.0.0.100, address_image: {PINNED}}}", ""),
        ("{address: 10.0.0.100, source: /opt/source}", ""),
        (f"{{address_image: {PINNED}}}", "no address to announce"),
    ],
)
def test_what_holds_the_address_is_pinned_by_its_digest(
    site_folder: Path, section: str, said: str
) -> None:
    found = problems(site_folder, section, MORE_CONTROL if "address:" in section else "")
    told = [line for line in found if line.startswith("kubernetes.address_image ")]
    assert any(said in line for line in told) == bool(said)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("{trial_image: docker.io/library/busybox:1.36.1}", "named by a tag"),
        ("{trial_image: 'Busybox; rm'}", "not an image"),
        (f"{{trial_image: {PINNED}}}", ""),
        ("{trial_image: mine/busybox:1, source: /opt/source}", ""),
        ("{trial_image: mine/busybox:1, source: /opt/s, source_parts: [charts]}", "by a tag"),
    ],
)
def test_what_runs_as_root_on_hosts_is_pinned_or_of_the_sites_own_source(
    site_folder: Path, section: str, said: str
) -> None:
    told = [line for line in problems(site_folder, section) if "trial_image " in line]
    assert any(said in line for line in told) == bool(said), told


def test_the_key_of_secrets_is_asked_for(site_folder: Path) -> None:
    assert any(CLUSTER_KEY in line for line in problems(site_folder, "{}", key=False))


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("  - {name: visitor, roles: [login], address: 10.0.0.99, owner: slurm}\n", "no GPUs"),
        ("  - {name: odd, roles: [gpu], address: 10.0.0.98, owner: nomad}\n", "not accepted"),
    ],
)
def test_an_owner_is_one_of_two_and_of_a_gpu_host(site_folder: Path, host: str, said: str) -> None:
    assert any(said in line for line in problems(site_folder, "{}", host))


def test_kubernetes_owns_nothing_where_there_is_none(site_folder: Path) -> None:
    file = site_folder / "site.yml"
    file.write_text(
        file.read_text().replace(
            "    address: 10.0.0.12\n", "    address: 10.0.0.12\n    owner: kubernetes\n"
        )
    )
    with pytest.raises(InvalidConfig) as caught:
        load_site(site_folder)
    assert ["has no Kubernetes" in f.message for f in caught.value.findings] == [True]


def test_bridged_hosts_with_the_same_last_bits_are_told(site_folder: Path) -> None:
    section = "{network: bridge, pod_network: 10.244.0.0/21}"
    more = "  - {name: gpu-9, roles: [gpu], address: 10.0.0.19}\n"
    assert any("addresses 10.244.3.0/24" in line for line in problems(site_folder, section, more))


@pytest.mark.parametrize(
    ("at", "network", "fine"),
    [
        ("/opt", "calico", False),
        ("/opt/cni", "cilium", False),
        ("/opt/cni/bin/x", "calico", False),
        ("/opt/apps", "calico", True),
        ("/opt", "bridge", True),
    ],
)
def test_no_mount_hides_the_plugins_of_the_pod_network(
    site_folder: Path, at: str, network: str, fine: bool
) -> None:
    file = site_folder / "site.yml"
    file.write_text(file.read_text().replace("at: /shared}", f"at: {at}}}"))
    found = problems(site_folder, f"{{network: {network}}}")
    told = [line for line in found if line.startswith("storage.mounts[1].at ")]
    assert any("/opt/cni/bin" in line for line in told) == (not fine), found


@pytest.mark.parametrize(("network", "pods"), [("calico", 500), ("cilium", 250), ("bridge", 250)])
def test_a_host_has_addresses_for_its_pods(network: str, pods: int, site_folder: Path) -> None:
    section = f'{{version: "1.35", network: {network}, kubelet: {{max_pods: {pods}}}}}'
    assert not any("max_pods" in line for line in problems(site_folder, section))


def test_a_host_has_a_core_for_pods(site_folder: Path) -> None:
    """The smallest class of the tree has 32 cores, and 64 are the most that may be kept."""
    file = site_folder / "site.yml"
    file.write_text(file.read_text().replace("profile: hpc", "profile: ./small.yml"))
    text = find_profile("hpc").read_text().replace("cores: 96", "cores: 8")
    (site_folder / "small.yml").write_text(text)
    assert problems(site_folder, "{kubelet: {system_cpus: 7}}") == []
    (site_folder / "site.yml").write_text(
        (site_folder / "site.yml").read_text().replace("system_cpus: 7", "system_cpus: 8")
    )
    with pytest.raises(InvalidConfig, match="leaves pods none of the 8 cores"):
        load_site(site_folder)


NODES = "".join(
    f"  - {{name: gpu-{n}, roles: [gpu], address: 10.0.0.{n}}}\n" for n in range(100, 118)
)


@pytest.mark.parametrize(
    ("network", "pods", "refused"),
    [
        ("cilium", "10.244.0.0/20", True),
        ("cilium", "10.244.0.0/19", False),
        ("calico", "10.244.0.0/20", False),
    ],
)
def test_each_node_needs_a_block_of_the_pod_network_where_cilium_hands_them_out(
    network: str, pods: str, refused: bool, site_folder: Path
) -> None:
    section = f'{{version: "1.35", network: {network}, pod_network: {pods}}}'
    said = [one for one in problems(site_folder, section, NODES) if "blocks" in one]
    assert bool(said) is refused
    if refused:
        assert "has 16 blocks of /24, but 2" in said[0]
