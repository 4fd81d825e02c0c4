"""A disk image: a folder of files, and a manifest with the digest of each."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from appliance.adapters import signing
from appliance.config.bounded_files import TooLarge, opened, read_bytes
from appliance.errors import ConfigError
from appliance.models.base import Model

MANIFEST = "manifest.json"
SIGNATURE = f"{MANIFEST}.sig"
NAMESPACE = "appliance-image"
"""Binds a signature to this use."""
DISK, KERNEL, RAMDISK = "disk.raw.zst", "vmlinuz", "installer.img"
SHIM, LOADER = "shimx64.efi", "gcdx64.efi"
PACKAGES = "packages.txt"
FILES = (DISK, KERNEL, RAMDISK, SHIM, LOADER, PACKAGES)
BLOCK = 1 << 20
BUILD = "rebuild it: appliance provision build"

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ImageFile(Model):
    """One file of an image."""

    name: Literal[
        "disk.raw.zst", "vmlinuz", "installer.img", "shimx64.efi", "gcdx64.efi", "packages.txt"
    ]
    bytes: int = Field(ge=1)
    sha256: Sha256


class Manifest(Model):
    """The content of an image. The digest of this manifest is the image's identity."""

    version: Literal[1] = 1
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$")
    distribution: Literal["debian"] = "debian"
    release: str
    architecture: Literal["x86_64"] = "x86_64"
    kernel: str
    built: str = Field(description="Time of the newest file in it, UTC")
    disk_bytes: int = Field(ge=1, description="Size of the unpacked disk")
    root_uuid: str = Field(description="Identity of the root file system, changed on each host")
    files: tuple[ImageFile, ...]


@dataclass(frozen=True)
class Image:
    """An image with all of its files. ``digest``: of its manifest, which hosts report as their image."""

    folder: Path
    manifest: Manifest
    digest: str

    def file(self, name: str) -> ImageFile:
        """The entry of one file."""
        return next(file for file in self.manifest.files if file.name == name)

    def path(self, name: str) -> Path:
        """Its path."""
        return self.folder / name


def described(folder: Path, names: Iterable[str] = FILES) -> tuple[ImageFile, ...]:
    """Files of a folder with size and digest."""
    return tuple(
        ImageFile.model_validate(
            {
                "name": name,
                "bytes": (folder / name).stat().st_size,
                "sha256": digest_of(folder / name),
            }
        )
        for name in names
    )


def digest_of(file: Path) -> str:
    """SHA-256 of a file, hex."""
    with opened(file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write(folder: Path, manifest: Manifest) -> Image:
    """Writes the manifest; the same image always gives the same text."""
    text = json.dumps(manifest.model_dump(mode="json"), indent=1, sort_keys=True) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")
    return Image(folder, manifest, hashlib.sha256(text.encode()).hexdigest())


def read(folder: Path, signers: Path | None = None) -> Image:
    """An image that matches its manifest, file by file; with ``signers``, only if one of them signed it.

    Raises ConfigError.
    """
    file = folder / MANIFEST
    try:
        text = read_bytes(file)
    except TooLarge:
        raise ConfigError(
            f"{folder} is not a disk image: {MANIFEST} is larger than 1 MB", BUILD
        ) from None
    except OSError as error:
        why = error.strerror or "it cannot be read"
        raise ConfigError(f"{folder} is not a disk image: {MANIFEST}: {why}", BUILD) from None
    try:
        manifest = Manifest.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{file}: {at}: {first['msg']}", BUILD) from None
    if signers is not None:
        _signed(folder, text, signers)
    for entry in manifest.files:
        _as_described(folder / entry.name, entry)
    if missing := set(FILES) - {entry.name for entry in manifest.files}:
        raise ConfigError(f"{file} does not list {', '.join(sorted(missing))}", BUILD)
    return Image(folder, manifest, hashlib.sha256(text).hexdigest())


def _as_described(file: Path, entry: ImageFile) -> None:
    if not file.is_file():
        raise ConfigError(f"{file} is missing", BUILD)
    if file.stat().st_size != entry.bytes or digest_of(file) != entry.sha256:
        raise ConfigError(f"{file} does not match the manifest", BUILD)


def _signed(folder: Path, content: bytes, signers: Path) -> None:
    signature = folder / SIGNATURE
    if not signature.is_file():
        raise ConfigError(
            f"{folder} is not signed, but provision.signers requires it",
            "sign it: appliance provision build --sign KEY",
        )
    if not signing.signer_of(signature, content, signers, NAMESPACE):
        raise ConfigError(
            f"{signature} is not a signature of {MANIFEST} by any of {signers}",
            "verify who built the image; then sign it, or correct provision.signers in site.yml",
        )
