"""What a rehearsed site keeps of the customer's, and what it must not keep."""

import json
import re
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from appliance.actions.sites import rehearsal_site
from appliance.actions.sites.rehearsal_site import Made, Rack, chosen, numbered, plain, rehearsed
from appliance.config import document
from appliance.config.schema import check
from appliance.models.site import Site

TEXT = """
version: 2
name: acme
profile: classes/special.yml
access: {user: ops, become: true, private_key: secrets/key}
networks:
  management: {cidr: 10.20.30.0/24, gateway: 10.20.30.1, dns: [10.20.30.2]}
  bmc: {cidr: 10.20.31.0/24}
  storage: {cidr: 10.20.32.0/24}
hosts:
  - {name: mgmt, roles: [control, storage, login], address: 10.20.30.10, addresses: {storage: 10.20.32.10}, mac: "52:54:00:00:00:01"}
  - name: gpu-a
    roles: [gpu]
    address: 10.20.30.21
    bmc: {address: 10.20.31.21, user: root, password: {file: secrets/bmc}}
  - {name: gpu-b, roles: [gpu], address: 10.20.30.22}
  - {name: gpu-c, roles: [gpu], address: 10.20.30.23, class: classes/other.yml}
secrets:
  munge_key: {vault: all.yml#munge}
  slurmdbd_password: {env: PASSWORD}
base:
  ntp_servers: [10.9.9.9]
  mirror: http://10.20.30.2/debian
  groups: [{name: lab, gid: 3000}]
  users: [{name: alice, uid: 3001, groups: [lab], keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIL0uQeUqVf7mNqVJ4M2s1oHqP9m1c5y8jK0hX3Wz1abc"]}]
storage:
  exports: [{path: /srv/data, clients: [10.20.30.0/25]}]
  external: [{server: 10.5.5.5, path: /vol}]
  mounts: [{export: /srv/data, at: /data}, {export: /vol, at: /vol}]
observe:
  receivers: [{name: chat, slack: {file: secrets/chat}}]
  open_to: [10.20.30.7/32]
mig: {hosts: {gpu-b: {layout: all-balanced}, gpu-a: {layout: all-balanced}}}
fabric: {standby: [gpu-b, gpu-a]}
slurm:
  partitions: [{name: gpu, default: true}, {name: short, max_time: "1:00:00"}]
software: {driver_branch: 580.10}
"""
PACKAGES = {"mirror": "http://10.77.4.1:8070", "key": "lab.asc", "fingerprint": "A" * 40}
RACK = Rack(IPv4Network("10.77.4.0/24"), {"mgmt": 10, "gpu-a": 21}, PACKAGES)


def _read(tmp_path: Path, text: str = TEXT) -> tuple[document.Document, Site]:
    file = tmp_path / "site.yml"
    file.write_text(text, encoding="utf-8")
    read = document.read(file)
    site = check(read, Site).model
    assert site is not None
    return read, site


@pytest.fixture
def made(tmp_path: Path) -> Made:
    read, site = _read(tmp_path)
    return rehearsed(read, site, "special", RACK)


def test_it_keeps_names_roles_users_and_partitions(made: Made) -> None:
    hosts = [(host["name"], host["roles"]) for host in made.data["hosts"]]
    assert hosts == [("mgmt", ["control", "storage", "login"]), ("gpu-a", ["gpu"])]
    assert made.data["base"]["users"][0]["name"] == "alice"
    assert [p["name"] for p in made.data["slurm"]["partitions"]] == ["gpu", "short"]


def test_no_address_of_the_site_is_left(made: Made) -> None:
    left = re.findall(r"\b10\.(?!77\.4\.)\d+\.\d+\.\d+\b", json.dumps(made.data))
    assert left == []
    assert made.data["storage"]["exports"][0]["clients"] == ["10.77.4.0/24"]


def test_no_place_of_a_secret_is_left(made: Made) -> None:
    text = json.dumps(made.data)
    assert not any(word in text for word in ("vault", "env", "secrets/key", "secrets/bmc", "chat"))
    assert made.data["secrets"]["munge_key"] == {"file": "secrets/munge_key"}
    assert made.data["access"] == rehearsal_site.ACCESS


def test_what_a_rack_lacks_is_named(made: Made) -> None:
    told = "; ".join(made.lacks)
    for part in (
        "BMCs",
        "networks storage",
        "base.mirror",
        "time servers",
        "/vol",
        "alert receivers",
    ):
        assert part in told, part


def test_hosts_that_are_left_out_leave_all_sections(made: Made) -> None:
    assert made.data["mig"] == {"hosts": {"gpu-a": {"layout": "all-balanced"}}}
    assert made.data["fabric"] == {"standby": ["gpu-a"]}


def test_it_is_a_valid_site(made: Made, tmp_path: Path) -> None:
    _read(tmp_path, document.text_of(made.data))


def test_a_release_stays_as_it_was_written(tmp_path: Path) -> None:
    read, _ = _read(tmp_path)
    assert plain(read)["software"] == {"driver_branch": "580.10"}


@pytest.mark.parametrize(("most", "names"), [
    (9, ("mgmt", "gpu-a", "gpu-b", "gpu-c")),
    (3, ("mgmt", "gpu-a", "gpu-c")),
    (1, ("mgmt", "gpu-a", "gpu-c")),
])  # fmt: skip
def test_one_host_of_each_kind_is_kept(most: int, names: tuple[str, ...], tmp_path: Path) -> None:
    _, site = _read(tmp_path)
    assert chosen([site], most) == names


def test_hosts_that_come_and_go_are_kept(tmp_path: Path) -> None:
    _, site = _read(tmp_path)
    fewer = site.model_copy(update={"hosts": tuple(h for h in site.hosts if h.name != "gpu-b")})
    assert "gpu-b" in chosen([site, fewer], 4)
    assert "gpu-b" in chosen([fewer, site], 4)


def test_addresses_keep_their_last_part_and_are_never_shared(tmp_path: Path) -> None:
    text = TEXT.replace("10.20.30.0/24", "10.20.0.0/16").replace("10.20.30.22", "10.20.40.21")
    _, site = _read(tmp_path, text.replace("  bmc: {cidr: 10.20.31.0/24}\n", ""))
    found = numbered([site], {"mgmt", "gpu-a", "gpu-b"})
    assert (found["mgmt"], found["gpu-a"]) == (10, 21)
    assert len(set(found.values())) == 3
