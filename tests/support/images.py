"""Images, as several test modules use it."""

from pathlib import Path

from appliance.provision import manifest
from appliance.provision.manifest import FILES, Image, Manifest


def image(folder: Path) -> Image:
    """An image of short files; nothing of it boots."""
    folder.mkdir()
    for name in FILES:
        (folder / name).write_bytes(name.encode() * 100)
    return manifest.write(
        folder,
        Manifest(
            name="debian-12",
            release="12",
            kernel="6.1.0-1-amd64",
            built="2026-11-16T10:17:40Z",
            disk_bytes=1 << 30,
            root_uuid="2923dfa1-6122-554f-bbe4-a5a1d3ddaf0c",
            files=manifest.described(folder),
        ),
    )
