"""Lists of packages are accepted with the right signature alone, and name all that a fresh host would download."""

from pathlib import Path

import pytest

from appliance.airgap import keys
from appliance.airgap.apt import Apt
from appliance.errors import ApplianceError, CommandFailed
from appliance.lab import repository
from tests.unit.airgap.conftest import Archive


def test_dependencies_come_along(archive: Archive, tmp_path: Path) -> None:
    apt = Apt(tmp_path / "apt", [archive.source])
    apt.update()
    found = {deb.name: deb for deb in apt.closure(["slurmd"])}
    assert set(found) == {"slurmd", "munge"}
    assert found["munge"].path == "publisher/munge_0.5_all.deb"
    assert found["munge"].size == (archive.folder / "munge_0.5_all.deb").stat().st_size
    assert apt.offered(["jq", "nothing"]) == {"jq": ["1.6"]}


def test_signed_lists_are_kept_as_they_are(archive: Archive, tmp_path: Path) -> None:
    apt = Apt(tmp_path / "apt", [archive.source])
    apt.update()
    found = {index.path: index for index in apt.indices()}
    assert set(found) == {"publisher/InRelease", "publisher/Packages"}
    assert found["publisher/InRelease"].content == (archive.folder / "InRelease").read_bytes()


def test_lists_that_another_key_signed_are_refused(archive: Archive, tmp_path: Path) -> None:
    repository.make_keyring(tmp_path / "others", "somebody")
    archive.publish(tmp_path / "others")
    with pytest.raises(
        ApplianceError, match=r"package lists are refused: .*(NO_PUBKEY|not signed)"
    ):
        Apt(tmp_path / "apt", [archive.source]).update()


def test_lists_that_were_changed_after_signing_are_refused(
    archive: Archive, tmp_path: Path
) -> None:
    signed = archive.folder / "InRelease"
    signed.write_text(signed.read_text().replace("appliance lab, simulated", "somebody else"))
    with pytest.raises(ApplianceError, match="refused"):
        Apt(tmp_path / "apt", [archive.source]).update()


def test_an_archive_that_does_not_answer_is_no_empty_one(archive: Archive, tmp_path: Path) -> None:
    (archive.folder / "InRelease").unlink()
    with pytest.raises(ApplianceError, match="refused"):
        Apt(tmp_path / "apt", [archive.source]).update()


def test_what_cannot_be_installed_together_is_an_error(archive: Archive, tmp_path: Path) -> None:
    apt = Apt(tmp_path / "apt", [archive.source])
    apt.update()
    for names in (["one", "other"], ["nothing"]):
        with pytest.raises(CommandFailed):
            apt.closure(names)


def test_a_key_is_accepted_by_its_fingerprint_alone(archive: Archive, tmp_path: Path) -> None:
    uri = f"{archive.uri}/{repository.KEY}"
    assert keys.fetched(uri, archive.fingerprint, tmp_path).exists()
    with pytest.raises(ApplianceError, match=archive.fingerprint):
        keys.fetched(uri, "0" * 40, tmp_path)
    with pytest.raises(ApplianceError, match="cannot be fetched: 404"):
        keys.fetched(f"{archive.uri}/nothing.asc", archive.fingerprint, tmp_path)
