"""Backups on the target: written and verified, listed, read back."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.backup import archive, retention
from appliance.backup.trouble import ARCHIVE, Trouble

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from appliance.backup.store import Folder, Sftp

NAME = re.compile(r"\d{8}T\d{6}Z")
CONTENT, MANIFEST = ".age", ".json"
CONTROL_MACHINE = "_control"
"""In place of a host's name, which has no "_"."""
NEWEST = "latest"
SIGNATURE = "signature"
"""Key of a manifest: HMAC-SHA-256 of the others."""
LARGEST = 1 << 45
"""Of a number in a manifest: 32 TiB, or a time that the calendar library supports."""


class Backups:
    """Those of one host of a site. ``work``: a private folder on this machine for copies of encrypted files.

    ``key``: a secret that the target's server does not have, b"" without one; it signs manifests.
    """

    def __init__(
        self, store: Folder | Sftp, site: str, host: str, work: Path, key: bytes = b""
    ) -> None:
        self._store, self._base, self._work = store, f"{site}/{host}", work
        self._key = hashlib.sha256(b"appliance backup manifest\0" + key.strip()).digest()
        self._signs = bool(key.strip())

    def write(self, packed: Path, manifest: dict[str, Any], days: int) -> dict[str, Any]:
        """Stores an archive, reads it back, and only then removes old ones. Returns its complete manifest. Raises Trouble."""
        name = retention.stamp(manifest["written"])
        found = {
            **{**manifest, "name": name, "bytes": packed.stat().st_size},
            "sha256": archive.digest(packed),
        }
        if self._signs:
            found[SIGNATURE] = self._signature(found)
        content = f"{self._base}/{name}{CONTENT}"
        # sftp gives the copy the same mode.
        packed.chmod(0o600)
        self._store.put(packed, content)
        with tempfile.TemporaryDirectory(dir=self._work) as folder:
            back = Path(folder) / "back"
            self._store.get(content + ".part", back, found["bytes"])
            self._require(back, found)
            self._store.finish(content)
            told = Path(folder) / "manifest"
            told.touch(mode=0o600)
            told.write_text(json.dumps(found), encoding="utf-8")
            # Last: without its manifest, an archive is no backup.
            self._store.put(told, f"{self._base}/{name}{MANIFEST}")
            self._store.finish(f"{self._base}/{name}{MANIFEST}")
        self._prune(name, days)
        return found

    def _prune(self, newest: str, days: int) -> None:
        files = self._store.names(self._base)
        old = retention.surplus(self._complete(files), newest, days)
        # The manifest first: what is half removed is no backup.
        self._store.remove([f"{self._base}/{n}{e}" for n in old for e in (MANIFEST, CONTENT)])

    @staticmethod
    def _complete(files: Sequence[str]) -> list[str]:
        names = {file[: -len(MANIFEST)] for file in files if file.endswith(MANIFEST)}
        return sorted(n for n in names if NAME.fullmatch(n) and n + CONTENT in files)

    def listed(self) -> list[dict[str, Any]]:
        """Manifests, oldest first, and whether each is authentic; one that cannot be read names its problem."""
        found = []
        for name in self._complete(self._store.names(self._base)):
            try:
                read = self.manifest(name)
                found.append({**read, "authentic": self.is_authentic(read)})
            except Trouble as error:
                found.append({"name": name, "problem": str(error)})
        return found

    def newest(self) -> dict[str, Any] | None:
        """The manifest of the newest backup, None if there is none. Raises Trouble."""
        names = self._complete(self._store.names(self._base))
        return self.manifest(names[-1]) if names else None

    def manifest(self, name: str) -> dict[str, Any]:
        """The manifest of a backup, or of the newest. Raises Trouble."""
        if name == NEWEST:
            found = self.newest()
            if found is None:
                raise Trouble(ARCHIVE, f"the target has no backup of {self._base}")
            return found
        if not NAME.fullmatch(name):
            raise Trouble(ARCHIVE, f"{name} is not the name of a backup")
        with tempfile.TemporaryDirectory(dir=self._work) as folder:
            file = Path(folder) / "manifest"
            self._store.get(f"{self._base}/{name}{MANIFEST}", file, archive.MOST_MANIFEST)
            try:
                read: dict[str, Any] = json.loads(file.read_bytes())
                if read["version"] != archive.VERSION or read["name"] != name:
                    raise ValueError
                _require_shape(read)
                return read
            except (ValueError, KeyError, TypeError, RecursionError):
                raise Trouble(ARCHIVE, f"the manifest of {name} cannot be read") from None

    def _signature(self, manifest: dict[str, Any]) -> str:
        """Of the manifest, and so of its archive, whose digest it has; bound to site and host by the place."""
        signed = {key: value for key, value in manifest.items() if key != SIGNATURE}
        text = json.dumps([self._base, signed], sort_keys=True).encode()
        return hmac.new(self._key, text, "sha256").hexdigest()

    def is_authentic(self, manifest: dict[str, Any]) -> bool | None:
        """Whether this site wrote it; None if the site has no key for that."""
        if not self._signs:
            return None
        said = manifest.get(SIGNATURE)
        return isinstance(said, str) and hmac.compare_digest(
            said.encode(), self._signature(manifest).encode()
        )

    def read(self, manifest: dict[str, Any], into: Path) -> None:
        """Copies the archive here. Raises Trouble unless it has the digest of its manifest."""
        self._store.get(f"{self._base}/{manifest['name']}{CONTENT}", into, manifest["bytes"])
        self._require(into, manifest)

    @staticmethod
    def _require(file: Path, manifest: dict[str, Any]) -> None:
        if archive.digest(file) != manifest["sha256"]:
            raise Trouble(
                ARCHIVE, f"{manifest['name']} on the target differs from what was written"
            )


def _require_shape(manifest: dict[str, Any]) -> None:
    """Whoever can write to the target chooses what a manifest says. Raises ValueError, KeyError or TypeError."""
    parts = manifest["parts"]
    _require_fields(manifest, {"site": str, "host": str, "written": int, "bytes": int})
    _require_fields(manifest, {"sha256": str, "parts": list})
    if retention.moment(manifest["name"]) != manifest["written"]:
        raise ValueError("the name is of another moment")
    for part in parts:
        _require_fields(part, {"name": str, "bytes": int, "sha256": str})
    if saved := manifest.get("slurm"):
        numbers = dict.fromkeys(("jobs", "changed", "associations"), int)
        _require_fields(
            {"began": 0, **saved}, {"cluster": str, "release": str, "began": int, **numbers}
        )


def _require_fields(found: dict[str, Any], kinds: dict[str, type]) -> None:
    for key, kind in kinds.items():
        value = found[key]
        if type(value) is not kind or (isinstance(value, int) and not 0 <= value <= LARGEST):
            raise ValueError(key)
