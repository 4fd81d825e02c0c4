"""The boot medium: what firmware, GRUB and the kernel find on it, read by the tools of others."""

import json
import subprocess  # noqa: TID251 - cpio, xorriso and mtools read what was made
from pathlib import Path

import pytest

from appliance.provision import media
from appliance.provision.manifest import DISK, Image
from appliance.provision.settings import ServedFrom, settings
from tests.support.images import image
from tests.support.media_site import KEY, site

SERVED = ServedFrom("https://10.0.0.5:8443", "ab" * 32, "the-token")


@pytest.fixture
def made(tmp_path: Path) -> Image:
    return image(tmp_path / "image")


def read(iso: Path, name: str, folder: Path) -> bytes:
    target = folder / "read"
    target.unlink(missing_ok=True)
    command = ("xorriso", "-osirrox", "on", "-indev", iso, "-extract", f"/{name}", target)
    subprocess.run(command, check=True, capture_output=True)
    return target.read_bytes()


def test_the_installer_finds_its_settings_where_it_looks(tmp_path: Path) -> None:
    archive = tmp_path / "host.img"
    archive.write_bytes(media.archive('{"host": "gpu-1"}'))
    subprocess.run(("cpio", "-id", "--quiet"), input=archive.read_bytes(), cwd=tmp_path, check=True)
    found = tmp_path / media.SETTINGS
    assert found.read_text() == '{"host": "gpu-1"}'
    assert found.stat().st_mode & 0o777 == 0o600


def test_a_medium_is_one_machines_own(made: Image, tmp_path: Path) -> None:
    iso = tmp_path / "gpu-1.iso"
    media.make(made, '{"host": "gpu-1"}', iso)
    assert iso.stat().st_mode & 0o777 == 0o600
    assert b'{"host": "gpu-1"}' in read(iso, "host.img", tmp_path)
    assert read(iso, "vmlinuz", tmp_path) == made.path("vmlinuz").read_bytes()
    assert b"boot=appliance" in read(iso, "boot/grub/grub.cfg", tmp_path)
    assert list(tmp_path.glob(".medium-*")) == []


def test_firmware_of_discs_and_of_sticks_finds_the_loader(made: Image, tmp_path: Path) -> None:
    iso = tmp_path / "gpu-1.iso"
    media.make(made, "{}", iso)
    boot = subprocess.run(("xorriso", "-indev", iso, "-report_el_torito", "plain"), capture_output=True, text=True, check=True).stdout  # fmt: skip
    assert "UEFI" in boot
    table = subprocess.run(("sfdisk", "--json", iso), capture_output=True, text=True, check=True)
    entries = json.loads(table.stdout)["partitiontable"]["partitions"]
    start = next(e["start"] for e in entries if e["type"].startswith("C12A7328"))
    loader = subprocess.run(("mtype", "-i", f"{iso}@@{start * 512}", "::/EFI/BOOT/BOOTX64.EFI"), capture_output=True, check=True).stdout  # fmt: skip
    assert loader == made.path("shimx64.efi").read_bytes()


def test_a_stick_carries_the_image(made: Image, tmp_path: Path) -> None:
    iso = tmp_path / "gpu-1.iso"
    media.make(made, "{}", iso, with_disk=True)
    assert read(iso, DISK, tmp_path) == made.path(DISK).read_bytes()


def test_a_host_is_told_what_the_site_says_of_it(made: Image) -> None:
    one = site(mac="52:54:00:00:00:11")
    told = json.loads(settings(one, one.hosts[0], made, KEY, SERVED))
    assert told["network"] == {
        "mac": "52:54:00:00:00:11",
        "address": "10.0.0.11/24",
        "gateway": "10.0.0.1",
        "dns": ["10.0.0.2"],
        "mtu": 9000,
    }
    assert told["disk"] == {"min_gb": 900}
    assert told["identity"]["image"] == made.digest
    assert told["server"]["token"] == "the-token"
    assert told["reinstall"] is False


def test_a_hosts_own_disk_stands_before_the_sites(made: Image) -> None:
    one = site(disk={"serial": "S1"})
    assert json.loads(settings(one, one.hosts[0], made, KEY, None))["disk"] == {"serial": "S1"}
