"""What a person names is read to its end and not beyond; a device, a pipe, a socket or a folder is none of it."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.config.bounded_files import NoFile, TooLarge, read_bytes
from appliance.config.finding import InvalidConfig
from appliance.config.load import load_profile, load_site
from appliance.config.secrets import resolve
from tests.support.site_folder import SITE


def endless(file: Path) -> None:
    file.symlink_to("/dev/zero")


def waiting(file: Path) -> None:
    os.mkfifo(file)


def listening(file: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(file))


def folder(file: Path) -> None:
    file.mkdir()


def large(file: Path) -> None:
    file.write_bytes(b"#" * 1_000_001)
    file.chmod(0o600)


KINDS: dict[str, Callable[[Path], None]] = {
    made.__name__: made for made in (endless, waiting, listening, folder, large)
}
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
def test_a_site_or_profile_that_is_no_file_is_refused_and_not_waited_for(
    tmp_path: Path, kind: str
) -> None:
    file = tmp_path / "s.yml"
    KINDS[kind](file)
    for load in (load_profile, load_site):
        with pytest.raises(Exception, match=r"s\.yml|holds no site") as refused:
            load(file)
        assert type(refused.value).__module__ in ("appliance.config.finding", "appliance.errors")


@each_kind
@pytest.mark.parametrize(
    "name", ["secrets/munge_key", "secrets/bmc", "secrets/id_ed25519", "known_hosts", "images.lock"]
)
def test_a_file_the_site_names_is_read_only_where_it_is_one(
    site_folder: Path, kind: str, name: str
) -> None:
    file = site_folder / name
    file.unlink(missing_ok=True)
    KINDS[kind](file)
    if kind == "large" and name in (
        "secrets/id_ed25519",
        "known_hosts",
        "secrets/bmc",
        "secrets/munge_key",
    ):
        load_site(site_folder)
        return
    with pytest.raises(InvalidConfig):
        load_site(site_folder)


@each_kind
def test_a_vault_that_is_no_file_is_refused(site_folder: Path, kind: str) -> None:
    (site_folder / "site.yml").write_text(
        SITE.replace("{file: secrets/munge_key}", "{vault: vault.yml#munge_key}")
    )
    KINDS[kind](site_folder / "vault.yml")
    with pytest.raises(InvalidConfig, match=r"vault.yml|is not encrypted"):
        load_site(site_folder)


@each_kind
def test_a_secret_that_became_no_file_meanwhile_is_refused(site_folder: Path, kind: str) -> None:
    loaded = load_site(site_folder)
    (site_folder / "secrets/munge_key").unlink()
    KINDS[kind](site_folder / "secrets/munge_key")
    with pytest.raises(InvalidConfig, match="munge_key"):
        resolve(loaded.site, site_folder)


def test_as_much_is_read_as_was_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"12345")
    assert read_bytes(file, 5) == b"12345"
    with pytest.raises(TooLarge):
        read_bytes(file, 4)
    with pytest.raises(NoFile):
        read_bytes(tmp_path)
