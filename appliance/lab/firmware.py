"""Substitutes for hardware that a virtual machine lacks, passed by its firmware.

QEMU's firmware configuration contains one credential, ``tmpfiles.extra``. systemd writes its files before anything else
starts, on a machine of any image, and keeps existing ones. So a machine has its GPUs from its first start, like
a server that was delivered with them, and images need no change.
"""

import os
from base64 import b64encode
from pathlib import Path

from appliance.errors import ApplianceError

LARGEST = 1_000_000
"""Bytes: systemd 252 takes a mebibyte of credentials for one unit."""


def lines(root: Path) -> str:
    """Lines with which systemd-tmpfiles writes the files and links below ``root``, with their modes and owned by root.

    Raises ApplianceError if they exceed the size that firmware can pass.
    """
    found = []
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted([*names, *(f for f in folders if Path(folder, f).is_symlink())]):
            found.append(_line(root, Path(folder, name)))
    text = "".join(f"{line}\n" for line in found)
    if len(text) > LARGEST:
        raise ApplianceError(f"{len(text)} bytes of hardware are more than firmware hands over")
    return text


def _line(root: Path, file: Path) -> str:
    at = f"/{file.relative_to(root)}"
    if file.is_symlink():
        return f"L {at} - - - - {file.readlink()}"
    content = file.read_bytes()
    mode = file.stat().st_mode & 0o7777
    if not content:
        return f"f {at} {mode:04o} root root -"
    return f"f~ {at} {mode:04o} root root - {b64encode(content).decode()}"
