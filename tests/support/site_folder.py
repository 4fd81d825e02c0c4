"""Site folder, as several test modules use it."""

from pathlib import Path

import pytest

from appliance.config.new_secrets import write_secrets

SITE = """\
version: 1
name: acme
profile: hpc

access:
  user: root
  port: 22
  private_key: secrets/id_ed25519
  known_hosts: known_hosts

networks:
  management:
    cidr: 10.0.0.0/24
    gateway: 10.0.0.1
    dns: [10.0.0.2]
  storage:
    cidr: 10.0.8.0/24
    mtu: 9000

hosts:
  - name: head
    roles: [control, storage, login]
    address: 10.0.0.10
    addresses: {storage: 10.0.8.10}
  - name: gpu-1
    roles: [gpu]
    address: 10.0.0.11
    mac: 52:54:00:00:00:11
    addresses: {storage: 10.0.8.11}
    bmc: {address: 10.0.16.11, user: admin, password: {file: secrets/bmc}}
  - name: gpu-2
    roles: [gpu]
    address: 10.0.0.12

secrets:
  munge_key: {file: secrets/munge_key}
  slurmdbd_password: {file: secrets/slurmdbd_password}

base:
  timezone: Europe/Berlin
  ntp_servers: [ntp.example.org, 10.0.0.2]
  admins:
    - {name: alice, keys: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g alice], sudo: true}

fabric:
  subnet_manager: opensm

storage:
  exports:
    - path: /srv/data
      clients: [10.0.0.0/24, 10.0.8.0/24]
  external:
    - {server: filer.example.org, path: /vol/home}
  mounts:
    - {export: /srv/data, at: /data}
    - {export: /vol/home, at: /shared}
  scratch:
    at: /scratch
    devices: [/dev/nvme1n1]

slurm:
  cluster: acme
  partitions:
    - {name: gpu, default: true, max_time: 2-00:00:00}
    - {name: debug, max_time: "30"}
  accounts:
    - {name: research, users: [alice]}

software:
  kai: "0.18"

limits:
  base.clock: {value: 0.05, unit: s, source: contract, date: "2026-11-02"}
"""


@pytest.fixture
def site_folder(tmp_path: Path) -> Path:
    """A folder whose site.yml is sound and whose files are all there."""
    (tmp_path / "site.yml").write_text(SITE)
    write_secrets(tmp_path / "secrets")
    for name in ("bmc", "id_ed25519"):
        file = tmp_path / "secrets" / name
        file.touch(mode=0o600)
        file.write_text(f"{name} of this test\n")
    (tmp_path / "known_hosts").write_text("")
    return tmp_path
