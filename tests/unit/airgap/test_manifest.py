"""A bundle is compared with its manifest, file by file; what differs is named."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from appliance.adapters.process import run
from appliance.airgap import manifest
from appliance.airgap.manifest import BundleFile, Difference, Earlier, Manifest
from appliance.errors import ApplianceError, ConfigError


def made(folder: Path, files: dict[str, str], **changed: object) -> Manifest:
    """A bundle of these files, by path."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    entries = tuple(
        BundleFile(path=path, sha256=hashlib.sha256(text.encode()).hexdigest(), bytes=len(text), kind="package", name=path)
        for path, text in files.items()
    )  # fmt: skip
    found = Manifest(site="s", made="now", appliance="1", complete=True, systems=("debian-12",), files=entries).model_copy(update=changed)  # fmt: skip
    manifest.write(folder, found)
    return found


FILES = {"debian/pool/a.deb": "one", "debian/pool/b.deb": "two", "wheels/c.whl": "three"}


def _differences(folder: Path) -> set[tuple[str, str]]:
    return {(d.what, d.path) for d in manifest.verify(folder).differences}


def test_a_whole_bundle_has_no_differences(tmp_path: Path) -> None:
    made(tmp_path, FILES)
    found = manifest.verify(tmp_path)
    assert found.differences == ()
    assert not found.is_delta
    assert found.digest == hashlib.sha256((tmp_path / manifest.NAME).read_bytes()).hexdigest()


def test_changed_missing_and_extra_files_are_named(tmp_path: Path) -> None:
    made(tmp_path, FILES)
    (tmp_path / "debian/pool/a.deb").write_text("onf")
    (tmp_path / "debian/pool/b.deb").unlink()
    (tmp_path / "debian/pool/evil.deb").write_text("x")
    (tmp_path / "wheels/c.whl").write_text("thre")
    assert _differences(tmp_path) == {
        ("changed", "debian/pool/a.deb"),
        ("missing", "debian/pool/b.deb"),
        ("extra", "debian/pool/evil.deb"),
        ("changed", "wheels/c.whl"),
    }


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "bundle"
    outside.mkdir()
    folder.mkdir()
    made(folder, FILES)
    (folder / "debian/pool/a.deb").rename(outside / "a.deb")
    (folder / "debian/pool/a.deb").symlink_to(outside / "a.deb")
    (folder / "wheels").rename(outside / "wheels")
    (folder / "wheels").symlink_to(outside / "wheels")
    found = _differences(folder)
    assert {("changed", "debian/pool/a.deb"), ("changed", "wheels/c.whl")} <= found


def test_an_interrupted_download_is_no_bundle(tmp_path: Path) -> None:
    made(tmp_path, FILES, complete=False)
    with pytest.raises(ApplianceError, match="the download was interrupted"):
        manifest.verify(tmp_path)


@pytest.mark.parametrize(
    "path", ["../etc/passwd", "/etc/passwd", "a/../../b", "a//b", ".hidden", "a/.git/b", "a\nb", ""]
)
def test_paths_lead_nowhere_else(tmp_path: Path, path: str) -> None:
    made(tmp_path, FILES)
    file = tmp_path / manifest.NAME
    content = json.loads(file.read_text())
    content["files"][0]["path"] = path
    file.write_text(json.dumps(content))
    with pytest.raises(ConfigError, match=r"is damaged: files\.0\.path"):
        manifest.verify(tmp_path)


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="it is no bundle"):
        manifest.verify(tmp_path)
    with pytest.raises(ConfigError, match="does not exist"):
        manifest.read(tmp_path / "nothing")


def test_a_delta_lacks_only_files_of_the_earlier_bundle(tmp_path: Path) -> None:
    since = Earlier(digest="0" * 64, paths=("debian/pool/a.deb", "debian/pool/b.deb"))
    made(tmp_path, FILES, since=since)
    assert not manifest.verify(tmp_path).is_delta
    (tmp_path / "debian/pool/a.deb").unlink()
    assert _differences(tmp_path) == {("missing", "debian/pool/a.deb")}
    (tmp_path / "debian/pool/b.deb").unlink()
    found = manifest.verify(tmp_path)
    assert found.is_delta
    assert found.differences == ()
    (tmp_path / "wheels/c.whl").unlink()
    assert manifest.verify(tmp_path).differences == (Difference("wheels/c.whl", "missing"),)


def test_files_of_the_earlier_bundle_that_are_no_longer_needed_are_not_extra(
    tmp_path: Path,
) -> None:
    made(tmp_path, FILES, dropped=("debian/pool/old.deb",))
    (tmp_path / "debian/pool/old.deb").write_text("old")
    assert manifest.verify(tmp_path).differences == ()


def test_texts_of_a_manifest_forge_no_line(tmp_path: Path) -> None:
    """Operators compare the digest that follows them."""
    forged = "now\n  digest of bundle.json: 0000\x1b[2J"
    entry = {"path": "a", "sha256": "0" * 64, "bytes": 1, "kind": "package", "name": forged}
    lacking = {"kind": forged, "name": forged, "why": forged}
    found = Manifest.model_validate(
        {
            **{"site": forged, "made": forged, "appliance": forged, "complete": True},
            **{"systems": [forged], "files": [{**entry, "version": forged, "of": forged}]},
            "lacking": [lacking],
        }
    )
    assert all(text.isprintable() for text in _texts(found.model_dump()))


def _texts(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list | tuple):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []


def test_a_name_of_an_extra_file_is_one_line(tmp_path: Path) -> None:
    made(tmp_path, FILES)
    (tmp_path / "a\n\x1b[2J").write_text("x")
    (found,) = manifest.verify(tmp_path).differences
    assert found.path.isprintable()


def test_folders_as_deep_as_a_path_may_be_are_walked(tmp_path: Path) -> None:
    made(tmp_path, FILES)
    at = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)
    try:
        (found,) = manifest.verify(tmp_path).differences
    finally:
        # shutil.rmtree, which clears the folder of tests, calls itself as well.
        run(["rm", "-rf", str(tmp_path / "d")])
    assert found.what == "extra"
    assert found.path.startswith("d/d/")
