"""An image is what its manifest says, and signed by whom the site names; else it goes to no machine."""

import subprocess  # noqa: TID251 - ssh-keygen makes the keys
from pathlib import Path

import pytest

from appliance.adapters import signing
from appliance.errors import ConfigError
from appliance.provision import manifest
from appliance.provision.manifest import FILES, MANIFEST, Image
from tests.support.images import image


@pytest.fixture
def made(tmp_path: Path) -> Image:
    return image(tmp_path / "image")


def signed(made: Image, folder: Path, namespace: str = manifest.NAMESPACE) -> Path:
    """Signs it; returns who may."""
    key = folder / "key"
    subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key), check=True)
    signing.sign(signing.key_of(key), made.folder / MANIFEST, namespace)
    signers = folder / "signers"
    signers.write_text(f"builder {(folder / 'key.pub').read_text()}")
    return signers


def test_an_image_is_read_as_it_was_written(made: Image) -> None:
    assert manifest.read(made.folder) == made


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_changed_is_named(made: Image, name: str) -> None:
    file = made.path(name)
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    with pytest.raises(ConfigError, match=f"{name} does not match the manifest"):
        manifest.read(made.folder)
    file.unlink()
    with pytest.raises(ConfigError, match=f"{name} is missing"):
        manifest.read(made.folder)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "Invalid JSON"),
        ("{}", "name: Field required"),
        ('{"version": 2}', "version: Input should be 1"),
    ],
)
def test_a_manifest_that_is_none_is_told(made: Image, text: str, told: str) -> None:
    (made.folder / MANIFEST).write_text(text)
    with pytest.raises(ConfigError, match=told):
        manifest.read(made.folder)


def test_a_manifest_that_names_files_elsewhere_is_refused(made: Image) -> None:
    file = made.folder / MANIFEST
    file.write_text(file.read_text().replace('"vmlinuz"', '"../../etc/passwd"'))
    with pytest.raises(ConfigError, match="name: Input should be"):
        manifest.read(made.folder)


def test_a_file_that_the_manifest_leaves_out_is_told(made: Image) -> None:
    kept = made.manifest.files[1:]
    manifest.write(made.folder, made.manifest.model_copy(update={"files": kept}))
    with pytest.raises(ConfigError, match=f"does not list {FILES[0]}"):
        manifest.read(made.folder)


def test_no_folder_is_no_image(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is not a disk image: manifest\.json: No such file"):
        manifest.read(tmp_path)


def test_a_signed_image_is_taken(made: Image, tmp_path: Path) -> None:
    assert manifest.read(made.folder, signed(made, tmp_path)).digest == made.digest


def test_an_unsigned_image_is_refused_where_signers_are_named(made: Image, tmp_path: Path) -> None:
    signers = signed(made, tmp_path)
    (made.folder / manifest.SIGNATURE).unlink()
    with pytest.raises(ConfigError, match="is not signed"):
        manifest.read(made.folder, signers)


def test_a_strangers_signature_is_refused(made: Image, tmp_path: Path) -> None:
    signers = signed(made, tmp_path)
    other = tmp_path / "other"
    subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other), check=True)
    signers.write_text(f"builder {(tmp_path / 'other.pub').read_text()}")
    with pytest.raises(ConfigError, match=r"is not a signature of manifest\.json by any of"):
        manifest.read(made.folder, signers)


def test_a_signature_of_another_use_is_refused(made: Image, tmp_path: Path) -> None:
    signers = signed(made, tmp_path, signing.NAMESPACE)
    with pytest.raises(ConfigError, match="is not a signature"):
        manifest.read(made.folder, signers)


def test_a_signature_of_another_image_is_refused(made: Image, tmp_path: Path) -> None:
    signers = signed(made, tmp_path)
    (made.folder / MANIFEST).write_text((made.folder / MANIFEST).read_text() + "\n")
    with pytest.raises(ConfigError, match="is not a signature"):
        manifest.read(made.folder, signers)
