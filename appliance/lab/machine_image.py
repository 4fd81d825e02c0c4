"""The disk image that the rack's virtual machines are installed with: what ``appliance provision build`` makes, kept in the cache."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from appliance.config import data
from appliance.lab.spec import IMAGE_LAYER, cache_root, racks
from appliance.provision import build
from appliance.provision.building import Progress
from appliance.provision.recipe import Recipe
from appliance.provision.sources import CODENAME, machine_sources

RELEASE = "12"


@contextmanager
def kept(progress: Progress) -> Iterator[Path]:
    """The image that the present code builds, created if it does not exist; it is kept while this is held.

    Images of other versions of the code are removed, unless a rack uses them.
    """
    sources = machine_sources(progress, CODENAME)
    found = sorted((data.root() / "appliance/provision").rglob("*"))
    code = [file.read_bytes() for file in found if file.is_file() and file.suffix != ".pyc"]
    key = sha256(b"".join((*code, repr(sources).encode()))).hexdigest()[:16]
    top = cache_root() / "machines"
    top.mkdir(parents=True, exist_ok=True)
    with (top / "lock").open("w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another command that uses the machines' image")
            fcntl.flock(lock, fcntl.LOCK_EX)
        folder = top / key / "image"
        if not folder.exists():
            _clear(top)
            progress("building the machines' image, once: Debian 12 (five minutes and more)")
            build.build(Recipe(RELEASE, sources), folder, progress)
        yield folder


def purge() -> None:
    """Removes kept images that no rack and no other process uses."""
    top = cache_root() / "machines"
    if not top.exists():
        return
    with (top / "lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _clear(top)


def _clear(top: Path) -> None:
    used = {Path(rack.layers[IMAGE_LAYER]).parent for rack in racks() if IMAGE_LAYER in rack.layers}
    for old in top.glob("*/"):
        if old not in used:
            shutil.rmtree(old)
