"""Debian packages made on the spot: a tree of files, a control file, dpkg-deb."""

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from appliance.adapters.process import run

PROGRAM = 0o755


@dataclass(frozen=True)
class File:
    """One file of a package."""

    content: str | bytes
    mode: int = 0o644

    @property
    def data(self) -> bytes:
        return self.content.encode() if isinstance(self.content, str) else self.content


@dataclass(frozen=True)
class Package:
    """A package of any architecture; ``files`` and ``links`` by path below the root, ``relations`` as Debian names them."""

    name: str
    version: str
    summary: str
    files: Mapping[str, File] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    relations: Mapping[str, str] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """The version in file names of archives: without epoch."""
        return f"{self.name}_{self.version.rpartition(':')[2]}_all.deb"

    @property
    def control(self) -> str:
        """The control file, a paragraph ending with a line end."""
        fields = {
            "Package": self.name,
            "Version": self.version,
            "Architecture": "all",
            "Maintainer": "appliance lab <root@localhost>",
            "Section": "misc",
            "Priority": "optional",
            **self.relations,
            "Description": self.summary,
        }
        return "".join(f"{key}: {value}\n" for key, value in fields.items())


def build(package: Package, folder: Path) -> Path:
    """Make the package's file in ``folder``."""
    tree = folder / f".{package.name}"
    shutil.rmtree(tree, ignore_errors=True)
    for path, file in package.files.items():
        place = tree / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.data)
        place.chmod(file.mode)
    for path, target in package.links.items():
        place = tree / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
    control = tree / "DEBIAN/control"
    control.parent.mkdir(parents=True, mode=0o755)
    control.write_text(package.control, encoding="utf-8")
    made = folder / package.file_name
    run(("dpkg-deb", "-Znone", "--root-owner-group", "--build", str(tree), str(made)))
    shutil.rmtree(tree)
    return made


def index(package: Package, file: Path) -> str:
    """The package's paragraph in an archive's list; the file is next to the list."""
    data = file.read_bytes()
    return (
        f"{package.control}Filename: ./{file.name}\nSize: {len(data)}\n"
        f"SHA256: {hashlib.sha256(data).hexdigest()}\n"
    )
