"""Sites in which every section is filled, in a folder with all files they name."""

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from pathlib import Path

from appliance.config.data import root
from appliance.config.new_secrets import write_secrets

SITES = Path(__file__).parents[1] / "data/full_sites"
VARIABLE = "ACME_SLURMDBD_PASSWORD"
PACKAGE = b"a package"
AUTHORITY = SITES / "ca.pem"
"""A certificate nobody has the key of."""


def write_full_site(folder: Path, kind: str) -> Path:
    """Site ``kind`` ("infiniband", "ethernet") with its files and the shipped profiles; the file of the site."""
    write_secrets(folder / "secrets")
    for name, text in (
        ("bmc", "bmc of this test\n"),
        ("notify", "https://192.0.2.9/events\n"),
        ("bmc.pem", AUTHORITY.read_text()),
        ("chat", "https://chat.example.com/hooks/full\n"),
        ("mail", "mail of this test\n"),
        ("tickets", "https://tickets.example.com/alerts/full\n"),
        ("id_ed25519", "a key\n"),
        ("vault.yml", "$ANSIBLE_VAULT;1.1;AES256\n00\n"),
    ):
        file = folder / "secrets" / name
        file.touch(mode=0o600)
        file.write_text(text)
    for file in (folder / "known_hosts", folder / "secrets/known_hosts"):
        file.write_text("")
    (folder / "enroot.deb").write_bytes(PACKAGE)
    (folder / "pyxis.tar.gz").write_bytes(source := _archive("pyxis-0.24.0"))
    shutil.copytree(root() / "profiles", folder / "profiles", dirs_exist_ok=True)
    digests = {"ENROOT": PACKAGE, "PYXIS": source}
    text = (SITES / f"{kind}.yml").read_text().replace("PROFILE", "balanced")
    text = text.replace("AUTHORITY", json.dumps(AUTHORITY.read_text()))
    for name, content in digests.items():
        text = text.replace(name, hashlib.sha256(content).hexdigest())
    file = folder / "site.yml"
    file.write_text(text)
    return file


def _archive(top: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as made:
        made.addfile(tarfile.TarInfo(f"{top}/Makefile"))
    return gzip.compress(packed.getvalue(), mtime=0)
