"""The files of the Debian package that do not need an environment: what dpkg reads, and the same bytes twice."""

import subprocess  # noqa: TID251 - dpkg-deb reads the package
from pathlib import Path

import pytest

from tools import debian


def packed(folder: Path) -> Path:
    root = folder / "root"
    program = root / "opt/appliance/bin/appliance"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o750)
    (root / "opt/appliance/note").write_text("x")
    (root / "opt/appliance/note").chmod(0o600)
    return debian._packed(root, folder / "made", 3 << 20)


def test_dpkg_reads_the_package(tmp_path: Path) -> None:
    made = packed(tmp_path)
    said = subprocess.check_output(("dpkg-deb", "-f", made, "Package", "Depends"), text=True)
    assert "Package: appliance" in said
    assert "python3 (>= 3." in said
    content = subprocess.check_output(("dpkg-deb", "-c", made), text=True)
    assert "-rwxr-xr-x root/root" in content
    assert "-rw-r--r-- root/root" in content
    assert "1980-01-02" in content


def test_two_packages_of_the_same_files_have_the_same_bytes(tmp_path: Path) -> None:
    one, two = packed(tmp_path / "a"), packed(tmp_path / "b")
    assert one.read_bytes() == two.read_bytes()


def test_a_package_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_much(root: Path, _: Path) -> None:
        root.mkdir()
        (root / "x").write_bytes(b"12")

    monkeypatch.setattr("tools.release.wheels", lambda _: None)
    monkeypatch.setattr(debian, "_environment", too_much)
    monkeypatch.setattr(debian, "_links", lambda _: None)
    monkeypatch.setattr(debian, "LARGEST", 1)
    with pytest.raises(SystemExit, match="occupies"):
        debian.build(tmp_path)
