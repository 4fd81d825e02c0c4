"""Look-alikes of enroot's package and of Pyxis' source, in the form in which a site has the real ones next to its site.yml."""

import gzip
import hashlib
import io
import shutil
import tarfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from appliance.lab.deb import PROGRAM, File, Package
from appliance.lab.driver.packages import SIMULATED
from appliance.lab.repository import archive_of

ENROOT, PYXIS = "4.1.2", "0.24.0"
"""Releases whose numbers they bear."""
FOLDER = "containers"
"""Below the site's folder."""


@dataclass(frozen=True)
class Pinned:
    """A file below the site's folder, and its digest."""

    file: str
    sha256: str


def write(site: Path) -> dict[str, Pinned]:
    """Puts both into the site's folder, the same bytes each time."""
    folder = site / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    package = archive_of(enroot())
    shutil.copyfile(package, folder / package.name)
    source = folder / f"pyxis-{PYXIS}.tar.gz"
    source.write_bytes(pyxis())
    return {"enroot": _pinned(folder / package.name), "pyxis": _pinned(source)}


def enroot() -> Package:
    """The package; its dependencies are really installed."""
    return Package(
        "enroot",
        f"{ENROOT}-1",
        f"enroot ({SIMULATED})",
        {"usr/bin/enroot": File(_read("enroot").replace("@VERSION@", ENROOT), PROGRAM)},
        relations={"Depends": "bash, squashfs-tools"},
    )


def pyxis() -> bytes:
    """The source archive: a plugin that is compiled and loaded by the real Slurm."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in ("Makefile", "pyxis.c"):
            data = _read(name).encode()
            member = tarfile.TarInfo(f"pyxis-{PYXIS}/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(packed.getvalue(), mtime=0)


def _pinned(file: Path) -> Pinned:
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return Pinned(f"{FOLDER}/{file.name}", digest)


def _read(name: str) -> str:
    return files("appliance.lab").joinpath("container_source", name).read_text(encoding="utf-8")
