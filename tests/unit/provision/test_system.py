"""What makes the system on the disk one host's own."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from appliance.provision.ramdisk import system
from appliance.provision.ramdisk.shared import Refused

OLD, NEW = "2923dfa1-6122-554f-bbe4-a5a1d3ddaf0c", "0f0e0d0c-0000-4000-8000-000000000000"
SETTINGS: dict[str, Any] = {
    "host": "gpu-1",
    "identity": {"image": "ab" * 32, "name": "debian-12"},
    "network": {
        "mac": "52:54:00:00:00:11",
        "address": "10.0.0.11/24",
        "gateway": "10.0.0.1",
        "dns": ["10.0.0.2", "10.0.0.3"],
        "mtu": 9000,
    },
    "user": "root",
    "authorized_key": "ssh-ed25519 AAAA owner",
}


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("boot/grub/grub.cfg", "boot/efi/EFI/debian/grub.cfg", "etc/fstab"):
        system.write(tmp_path / name, f"root={OLD}\n")
    system.write(tmp_path / f"{system.HOST_KEY}.pub", "ssh-ed25519 AAAA root@gpu-1\n")
    monkeypatch.setattr(system, "run", lambda *words, given=None: "")
    return tmp_path


def configured(target: Path, **more: Any) -> str:
    return system.configure(target, {**SETTINGS, **more}, {"old": OLD, "new": NEW})


def test_a_host_has_its_name_address_and_key(target: Path) -> None:
    assert configured(target) == "ssh-ed25519 AAAA root@gpu-1"
    assert (target / "etc/hostname").read_text() == "gpu-1\n"
    assert (target / "etc/resolv.conf").read_text() == "nameserver 10.0.0.2\nnameserver 10.0.0.3\n"
    network = (target / "etc/systemd/network/10-management.network").read_text()
    for line in ("MACAddress=52:54:00:00:00:11", "Address=10.0.0.11/24", "Gateway=10.0.0.1"):
        assert f"{line}\n" in network
    keys = target / "root/.ssh/authorized_keys"
    assert keys.read_text() == "ssh-ed25519 AAAA owner\n"
    assert keys.stat().st_mode & 0o777 == 0o600
    assert json.loads((target / "etc/appliance/image.json").read_text())["image"] == "ab" * 32


def test_each_host_is_known_by_a_number_of_its_own(target: Path) -> None:
    made = []
    for identity in ({"old": OLD, "new": NEW}, {"old": NEW, "new": OLD}):
        system.configure(target, SETTINGS, identity)
        made.append((target / "etc/machine-id").read_text())
    assert made[0] != made[1]
    assert all(re.fullmatch(r"[0-9a-f]{32}\n", text) for text in made)


def test_its_root_has_an_identity_of_its_own_wherever_it_is_named(target: Path) -> None:
    configured(target)
    for name in ("boot/grub/grub.cfg", "boot/efi/EFI/debian/grub.cfg", "etc/fstab"):
        assert (target / name).read_text() == f"root={NEW}\n"


def test_an_image_that_does_not_name_its_root_is_refused(target: Path) -> None:
    system.write(target / "etc/fstab", "LABEL=root / ext4 defaults 0 1\n")
    with pytest.raises(Refused, match="does not contain the UUID of its root"):
        configured(target)


def test_another_account_comes_in_with_sudo(target: Path) -> None:
    configured(target, user="ops")
    assert (target / "home/ops/.ssh/authorized_keys").exists()
    assert (target / "etc/sudoers.d/ops").stat().st_mode & 0o777 == 0o440


@pytest.mark.parametrize("user", ["", "../root", "a b", "Root", "x" * 40])
def test_what_cannot_be_an_account_is_refused(target: Path, user: str) -> None:
    with pytest.raises(Refused, match="is not a valid account name"):
        configured(target, user=user)
