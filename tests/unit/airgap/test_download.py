"""Each file is compared with its digest; an interrupted download continues."""

import hashlib
import shutil
from pathlib import Path

import pytest

from appliance.airgap import download
from appliance.airgap.download import Wanted
from appliance.airgap.manifest import STAGING, BundleFile
from appliance.errors import ApplianceError
from tests.unit.airgap.conftest import Archive


def _wanted(archive: Archive) -> list[Wanted]:
    found = []
    for file in sorted(archive.folder.glob("*.deb")):
        content = file.read_bytes()
        entry = BundleFile(path=f"debian/{file.name}", sha256=hashlib.sha256(content).hexdigest(), bytes=len(content), kind="package", name=file.name)  # fmt: skip
        found.append(Wanted(entry, f"{archive.uri}/{file.name}"))
    return found


def _quiet(text: str) -> None:
    del text


def test_files_come_once(archive: Archive, tmp_path: Path) -> None:
    wanted, folder = _wanted(archive), tmp_path / "bundle"
    folder.mkdir()
    found = download.bring(folder, wanted, _quiet)
    assert found == tuple(w.file for w in wanted)
    asked = len(archive.asked)
    assert download.bring(folder, wanted, _quiet) == found
    assert len(archive.asked) == asked


@pytest.mark.parametrize("harm", ["changed", "cut", "gone"])
def test_a_file_that_is_not_as_announced_is_named_and_not_kept(
    archive: Archive, tmp_path: Path, harm: str
) -> None:
    wanted, folder = _wanted(archive), tmp_path / "bundle"
    folder.mkdir()
    bad = archive.folder / "jq_1.6_all.deb"
    good = bad.read_bytes()
    match harm:
        case "changed":
            bad.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        case "cut":
            bad.write_bytes(good[: len(good) // 2])
        case _:
            bad.unlink()
    with pytest.raises(ApplianceError, match=r"not fetched.*debian/jq_1\.6_all\.deb$"):
        download.bring(folder, wanted, _quiet)
    assert not (folder / "debian/jq_1.6_all.deb").exists()
    assert len(list((folder / "debian").iterdir())) == len(wanted) - 1
    bad.write_bytes(good)
    archive.asked.clear()
    download.bring(folder, wanted, _quiet)
    assert archive.asked == ["/jq_1.6_all.deb"]


def test_a_killed_download_continues_with_what_was_complete(
    archive: Archive, tmp_path: Path
) -> None:
    """Its files are still in the staging folder: one whole, one cut off."""
    wanted, folder = _wanted(archive), tmp_path / "bundle"
    (folder / STAGING).mkdir(parents=True)
    whole, cut = wanted[0].file, wanted[1].file
    shutil.copy(archive.folder / whole.name, folder / STAGING / whole.sha256)
    part = (archive.folder / cut.name).read_bytes()[:100]
    (folder / STAGING / cut.sha256).write_bytes(part)
    download.bring(folder, wanted, _quiet)
    assert f"/{whole.name}" not in archive.asked
    assert f"/{cut.name}" in archive.asked
    download.finish(folder)
    assert {p.name for p in folder.iterdir()} == {"debian"}


def test_a_full_disk_is_told_before_the_download(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(ApplianceError, match="free space"):
        download.bring(tmp_path, _wanted(archive), _quiet)
    assert archive.asked == []
