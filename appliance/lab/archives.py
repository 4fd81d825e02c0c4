"""Container images and package lists made from plain folders, the same bytes for the same content."""

import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path

from appliance.adapters.process import run

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
EPOCH = "1970-01-01T00:00:00Z"


def image(tree: Path, name: str, command: Sequence[str], target: Path) -> None:
    """Write a folder as a docker archive with one image of one layer, and its digest next to it."""
    layer = _layer(tree)
    config = {
        "architecture": "amd64",
        "os": "linux",
        "created": EPOCH,
        "config": {"Env": [f"PATH={SEARCH_PATH}"], "Entrypoint": list(command)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [{"created": EPOCH, "created_by": "appliance lab"}],
    }
    text = json.dumps(config, sort_keys=True).encode()
    config_name = f"{hashlib.sha256(text).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(target, "w") as archive:
        for member, data in (
            ("layer.tar", layer),
            (config_name, text),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            entry = tarfile.TarInfo(member)
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    with_digest(target)


def with_digest(file: Path) -> None:
    """Write the file's SHA-256 next to it, in the format of sha256sum."""
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    file.with_name(f"{file.name}.sha256").write_text(f"{found}  {file.name}\n", encoding="utf-8")


def package(root: Path, control: dict[str, str], target: Path) -> Path:
    """Make a Debian package of a tree."""
    folder = root / "DEBIAN"
    folder.mkdir(parents=True)
    (folder / "control").write_text(
        "".join(f"{key}: {value}\n" for key, value in control.items()), encoding="utf-8"
    )
    file = target / f"{control['Package']}_{control['Version']}_{control['Architecture']}.deb"
    argv = ("dpkg-deb", "--root-owner-group", "-Znone", "--build", str(root), str(file))
    run(argv, timeout=300)
    return file


def package_list(folder: Path) -> str:
    """The text of an apt repository's file Packages."""
    entries = []
    for file in sorted(folder.glob("*.deb")):
        control = run(("dpkg-deb", "--field", str(file))).stdout.rstrip("\n")
        found = hashlib.sha256(file.read_bytes()).hexdigest()
        entries.append(
            f"{control}\nFilename: ./{file.name}\nSize: {file.stat().st_size}\nSHA256: {found}\n"
        )
    return "\n".join(entries)


def _layer(tree: Path) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in sorted(tree.rglob("*")):
            entry = archive.gettarinfo(str(path), str(path.relative_to(tree)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            entry.mtime = 0
            if entry.isreg():
                with path.open("rb") as file:
                    archive.addfile(entry, file)
            else:
                archive.addfile(entry)
    return packed.getvalue()
