"""Which disk takes the system: exactly the one that is meant, never one of two."""

import json
import subprocess  # noqa: TID251 - the ramdisk's own programs, as it calls them
from pathlib import Path
from typing import Any

import pytest

from appliance.provision.ramdisk import disks
from appliance.provision.ramdisk.shared import Refused

GB = 10**9


def disk(name: str = "nvme0n1", **more: Any) -> dict[str, Any]:
    base = {"name": name, "path": f"/dev/{name}", "type": "disk", "size": 1920 * GB, "rm": False}
    return {
        **base,
        "ro": False,
        "tran": "nvme",
        "model": "MAKER X1 ",
        "serial": name.upper(),
        **more,
    }


def chosen(found: list[dict[str, Any]], wanted: dict[str, Any], least: int = GB) -> str:
    at = {"nvme0n1": ["pci-0000:41:00.0-nvme-1"]}
    return str(disks.choose(found, at, wanted, least)["name"])


def test_the_only_disk_is_taken() -> None:
    assert chosen([disk()], {}) == "nvme0n1"


def test_one_of_two_is_never_guessed() -> None:
    with pytest.raises(
        Refused, match="2 disks could be the system disk; it has nvme0n1 of 1920 GB"
    ):
        chosen([disk(), disk("nvme1n1")], {})


@pytest.mark.parametrize(
    "wanted",
    [
        {"serial": "nvme1N1 "},
        {"model": "x2"},
        {"max_gb": 1000},
        {"wwn": "EUI.7"},
        {"max_gb": 1000, "model": "maker"},
    ],
)
def test_a_disk_is_named_by_what_is_printed_on_it(wanted: dict[str, Any]) -> None:
    other = disk("nvme1n1", model="MAKER X2", size=960 * GB, wwn="eui.7")
    assert chosen([disk(), other], wanted) == "nvme1n1"


def test_a_disk_is_named_by_its_place() -> None:
    assert chosen([disk(), disk("nvme1n1")], {"path": "pci-0000:41:00.0-nvme-1"}) == "nvme0n1"


def test_all_that_is_said_must_be_true() -> None:
    with pytest.raises(
        Refused, match=r"no disk matches hosts\[\].disk of the site; it has nvme0n1"
    ):
        chosen([disk()], {"serial": "nvme0n1", "min_gb": 3000})


def test_a_disk_smaller_than_the_image_is_refused() -> None:
    with pytest.raises(Refused, match=r"is smaller than the image, 2000\.0 GB"):
        chosen([disk()], {}, 2000 * GB)


def test_no_disk_is_told_as_such() -> None:
    with pytest.raises(Refused, match="it has no disk"):
        chosen([], {})


@pytest.mark.parametrize(
    "other",
    [{"rm": True}, {"ro": True}, {"tran": "usb"}, {"type": "rom"}, {"size": 0}, {"size": None}],
)
def test_the_medium_itself_is_no_candidate(other: dict[str, Any]) -> None:
    listed = json.dumps({"blockdevices": [disk(), disk("sdb", **other)]})
    assert [found["name"] for found in disks.candidates(listed)] == ["nvme0n1"]


def test_what_a_disk_carries_is_told(tmp_path: Path) -> None:
    file = tmp_path / "disk"
    file.write_bytes(bytes(8 << 20))
    assert disks.carries(str(file)) == ""
    subprocess.run(("mke2fs", "-q", "-F", str(file)), check=True)
    assert disks.carries(str(file)) == "ext2"
    subprocess.run(("sfdisk", "--quiet", str(file)), input=b"label: gpt\n,2M\n", check=True)
    assert disks.carries(str(file)).startswith("a partition table (gpt)")


def test_what_cannot_be_read_is_not_blank(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be determined"):
        disks.carries(str(tmp_path / "none"))


def test_places_are_read_from_udevs_links(tmp_path: Path) -> None:
    (tmp_path / "sda").touch()
    (tmp_path / "by-path").mkdir()
    (tmp_path / "by-path/pci-0000:00:1f.2-ata-1").symlink_to("../sda")
    assert disks.places(tmp_path / "by-path") == {"sda": ["pci-0000:00:1f.2-ata-1"]}
    assert disks.places(tmp_path / "none") == {}
