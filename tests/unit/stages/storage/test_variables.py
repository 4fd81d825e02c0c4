"""What becomes of a site's storage section in the variables of role storage."""

from typing import Any, cast

import pytest

from appliance.errors import ConfigError
from appliance.models.facts import HostFacts
from appliance.models.profile import Profile
from appliance.models.site import Site
from appliance.stages.context import RoleContext
from appliance.stages.storage.variables import mount_unit, variables
from tests.support.facts import facts_of

HOSTS = [
    {"name": "nas1", "roles": ["storage"], "address": "10.0.0.1"},
    {"name": "gpu-1", "roles": ["gpu"], "address": "10.0.0.2"},
]
STORAGE = {
    "exports": [{"path": "/srv/data"}],
    "mounts": [{"export": "/srv/data", "at": "/data"}],
}


def facts(host: str, container: str, kernel: str, nfs_client: str = "") -> HostFacts:
    """Facts of which only the operating system matters here."""
    return facts_of(
        host,
        os={"kernel": kernel, "container": container},
        nfs_client=nfs_client,
    )


def of(
    host: str,
    storage: dict[str, Any] | None = None,
    container: str = "",
    kernel: str = "6.1.0-18-amd64",
    networks: dict[str, Any] | None = None,
    hosts: list[dict[str, Any]] | None = None,
    base: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The variables of one host. The profile has no say in them."""
    site = Site.model_validate(
        {
            "version": 1,
            "name": "s",
            "networks": {"management": {"cidr": "10.0.0.0/24"}, **(networks or {})},
            "hosts": hosts or HOSTS,
            "base": base or {},
            "storage": STORAGE if storage is None else storage,
        }
    )
    known = {host: facts(host, container, kernel)}
    context = RoleContext(cast(Profile, None), site, site.host(host), {}, known)
    return variables(context)


def test_a_machine_serves_and_mounts_with_its_kernel() -> None:
    assert of("nas1")["storage_server"] == "kernel"
    (mount,) = of("gpu-1")["storage_mounts"]
    assert (mount["unit"], mount["what"], mount["type"]) == (
        "data.mount",
        "10.0.0.1:/srv/data",
        "nfs",
    )
    assert "nfsvers=4.2" in mount["options"]
    assert "hard" in mount["options"].split(",")


@pytest.mark.parametrize(
    ("kernel", "wanted"), [("5.2.21", False), ("5.3.0", True), ("6.1.0", True)]
)
def test_several_connections_where_the_kernel_knows_them(kernel: str, wanted: bool) -> None:
    (mount,) = of("gpu-1", kernel=kernel)["storage_mounts"]
    assert ("nconnect=" in mount["options"]) is wanted


def test_a_container_serves_with_ganesha_and_reads_with_libnfs() -> None:
    assert of("nas1", container="systemd-nspawn")["storage_server"] == "ganesha"
    client = of("gpu-1", container="systemd-nspawn")
    assert (client["storage_client"], client["storage_mounts"]) == ("libnfs", [])


def test_the_server_binds_its_own_directory() -> None:
    (mount,) = of("nas1")["storage_mounts"]
    assert (mount["what"], mount["options"]) == ("/srv/data", "bind")
    same = {**STORAGE, "mounts": [{"export": "/srv/data", "at": "/srv/data"}]}
    assert of("nas1", same)["storage_mounts"] == []


def test_clients_default_to_the_management_network() -> None:
    (export,) = of("nas1")["storage_exports"]
    assert export["clients"] == ["10.0.0.0/24"]
    own = {**STORAGE, "exports": [{"path": "/srv/data", "clients": ["10.9.0.0/16"]}]}
    assert of("nas1", own)["storage_exports"][0]["clients"] == ["10.9.0.0/16"]


def test_a_storage_network_is_taken_where_both_ends_have_it() -> None:
    hosts = [
        {**HOSTS[0], "addresses": {"storage": "10.8.0.1"}},
        {**HOSTS[1], "addresses": {"storage": "10.8.0.2"}},
    ]
    networks = {"storage": {"cidr": "10.8.0.0/24"}}
    (mount,) = of("gpu-1", networks=networks, hosts=hosts)["storage_mounts"]
    assert mount["what"] == "10.8.0.1:/srv/data"
    (export,) = of("nas1", networks=networks, hosts=hosts)["storage_exports"]
    assert export["clients"] == ["10.0.0.0/24", "10.8.0.0/24"]


def test_an_external_export_needs_no_server_of_ours() -> None:
    outside = {
        "external": [{"server": "nas9", "path": "/vol/x"}],
        "mounts": [{"export": "/vol/x", "at": "/data"}],
    }
    assert of("nas1", outside)["storage_server"] == "none"
    assert of("nas1", outside)["storage_mounts"][0]["what"] == "nas9:/vol/x"


def test_a_mount_of_nothing_is_refused_before_any_host_is_met() -> None:
    with pytest.raises(ConfigError, match="/data wants /nowhere"):
        of("gpu-1", {"mounts": [{"export": "/nowhere", "at": "/data"}]})


def test_exports_without_a_storage_host_are_refused() -> None:
    with pytest.raises(ConfigError, match="no host has the role storage"):
        of("gpu-1", hosts=[HOSTS[1]])


def test_scratch_is_for_gpu_hosts_and_its_disks_for_machines() -> None:
    disks = {"scratch": {"at": "/scratch", "devices": ["/dev/nvme1n1"]}}
    assert of("nas1", disks)["storage_scratch"] == ""
    assert of("gpu-1", disks)["storage_scratch_devices"] == ["/dev/nvme1n1"]
    assert of("gpu-1", disks, container="lxc")["storage_scratch_devices"] == []
    assert of("gpu-1", {"scratch": None})["storage_scratch"] == ""


@pytest.mark.parametrize(
    ("at", "unit"),
    [
        ("/data", "data.mount"),
        ("/data/sets/", "data-sets.mount"),
        ("/mnt/my-data", "mnt-my\\x2ddata.mount"),
        ("/.hidden/a.b_c", "\\x2ehidden-a.b_c.mount"),
        ("/a//b", "a-b.mount"),
    ],
)
def test_unit_names_are_those_systemd_escape_gives(at: str, unit: str) -> None:
    assert mount_unit(at) == unit


USERS = {"users": [{"name": "ada", "uid": 2001, "keys": ["ssh-ed25519 AAAA ada"]}]}


@pytest.mark.parametrize(
    ("folder", "made_in"),
    [("/data", "/srv/data"), ("/data/home", "/srv/data/home"), ("/database", ""), ("/home", "")],
)
def test_homes_on_an_export_are_made_where_it_is_served(folder: str, made_in: str) -> None:
    base = {**USERS, "homes": folder}
    there, elsewhere = of("nas1", base=base), of("gpu-1", base=base)
    assert there["storage_homes_in"] == made_in
    assert there["storage_homes"] == ([{"name": "ada", "uid": 2001}] if made_in else [])
    assert (elsewhere["storage_homes_in"], elsewhere["storage_homes"]) == ("", [])


def test_homes_on_the_server_of_others_are_theirs_to_make() -> None:
    outside = {
        "external": [{"server": "nas9", "path": "/vol/x"}],
        "mounts": [{"export": "/vol/x", "at": "/data"}],
    }
    assert of("nas1", outside, base={**USERS, "homes": "/data"})["storage_homes"] == []
