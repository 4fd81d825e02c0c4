"""What goes into an image and its ramdisk, and what stops a build before it begins."""

import json
import os
import shutil
import subprocess  # noqa: TID251 - sfdisk and blkid read what was made
import sys
from pathlib import Path

import pytest

from appliance.errors import ConfigError
from appliance.provision import build, layout
from appliance.provision.layout import MIB, Identity
from appliance.provision.manifest import LOADER, SHIM
from appliance.provision.recipe import Recipe
from appliance.provision.sources import Sources

HERE = Path(build.__file__).parent / "ramdisk"
RECIPE = Recipe("12", Sources((), "", {}), ("firmware-bnx2x",))


def test_every_module_of_the_installer_goes_into_the_ramdisk() -> None:
    assert sorted(build.RAMDISK_FILES) == sorted(file.name for file in HERE.glob("*.py"))


def test_what_the_installer_reads_is_compiled_on_its_medium(tmp_path: Path) -> None:
    library = Path(os.__file__).parent
    unused = shutil.ignore_patterns("__pycache__", "test", "site-packages", "dist-packages", "idlelib", "lib-dynload", "config-*")  # fmt: skip
    shutil.copytree(library, tmp_path / library.relative_to("/"), ignore=unused)
    installer = tmp_path / "opt/appliance/provision/ramdisk"
    shutil.copytree(HERE, installer, ignore=unused)
    for package in installer.parents[:2]:
        (package / "__init__.py").touch()
    hook = (HERE / "hook").read_text()
    program = hook.partition("python3 -I -S - \"$DESTDIR\" <<'END'\n")[2].partition("\nEND\n")[0]
    argv = (sys.executable, "-I", "-S", "-", str(tmp_path))
    subprocess.run(argv, input=program, text=True, check=True)
    compiled = {file.name.split(".")[0] for file in installer.rglob("*.pyc")}
    assert compiled == {name.removesuffix(".py") for name in build.RAMDISK_FILES}
    # It is what is read, whatever times the medium's files have.
    (installer / "main.py").write_text("raise SystemExit('compiled anew')")
    reading = "import sys; sys.path.insert(0, sys.argv[1]); import appliance.provision.ramdisk.main"
    again = (sys.executable, "-I", "-S", "-B", "-c", reading, f"{tmp_path}/opt")
    subprocess.run(again, check=True)


def test_packages_that_were_asked_for_come_along() -> None:
    assert {"firmware-bnx2x", "linux-image-amd64", "shim-signed"} <= set(RECIPE.packages)


def test_a_folder_that_is_there_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr(build, "require", lambda: None)
    with pytest.raises(ConfigError, match="exists"):
        build.build(RECIPE, tmp_path, lambda _: None)


def test_who_is_not_root_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ConfigError, match="needs root"):
        build.require()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A system as small as can be."""
    made = tmp_path / "root"
    for name in (
        f"usr/lib/shim/{SHIM}.signed",
        "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed",
        f"usr/lib/grub/x86_64-efi-signed/{LOADER}.signed",
    ):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_bytes(name.encode())
    (made / "etc").mkdir()
    return made


def test_a_disk_is_what_firmware_and_kernel_expect(root: Path, tmp_path: Path) -> None:
    identity, disk = Identity("debian-12"), tmp_path / "disk.raw"
    layout.prepare(root, identity, "6.1.0-1-amd64")
    size = layout.assemble(root, disk, identity, 1_700_000_000)
    assert disk.stat().st_size == size
    told = subprocess.run(("sfdisk", "--json", disk), capture_output=True, check=True).stdout
    efi, linux = json.loads(told)["partitiontable"]["partitions"]
    assert (efi["name"], linux["name"]) == ("efi", "root")
    at = ("-p", "-O", str(linux["start"] * 512), "-s", "UUID", "-o", "value", str(disk))
    found = subprocess.run(("blkid", *at), capture_output=True, text=True, check=True).stdout
    assert found.strip() == identity.root
    loader = ("mtype", "-i", f"{disk}@@{efi['start'] * 512}", "::/EFI/BOOT/BOOTX64.EFI")
    assert subprocess.run(loader, capture_output=True, check=True).stdout.endswith(b".signed")
    assert (size - linux["start"] * 512 - linux["size"] * 512) >= MIB


def test_a_system_that_gives_up_at_boot_starts_anew(root: Path) -> None:
    """By both: the first configuration of the loader, and the one that update-grub writes."""
    layout.prepare(root, Identity("debian-12"), "6.1.0-1-amd64")
    (first,) = (
        line for line in (root / "boot/grub/grub.cfg").read_text().splitlines() if "vmlinuz" in line
    )
    later = (root / "etc/default/grub.d/appliance.cfg").read_text().partition("LINUX=")[2]
    assert "panic=10" in first.split()
    assert "panic=10" in later.strip().strip('"').split()


def test_another_release_has_another_identity() -> None:
    assert Identity("debian-12").root != Identity("debian-13").root
