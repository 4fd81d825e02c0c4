"""One backup: a compressed archive with a manifest, encrypted for the site's recipient."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess  # noqa: TID251 - this program runs on hosts and has its own door
import tarfile
import threading
import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.backup.trouble import ARCHIVE, TOOL, Trouble

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO, Any

MANIFEST = "manifest.json"
MOST_MANIFEST = 1 << 20
MOST_HEADER = 1 << 16
EXTENDED = frozenset(
    {
        *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
        *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    }
)
"""Types of entries whose content belongs to the next one."""
VERSION = 1


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            found.update(block)
    return found.hexdigest()


def described(folder: Path, names: Sequence[str]) -> list[dict[str, Any]]:
    """Name, size and digest of each part."""
    return [
        {"name": name, "bytes": (folder / name).stat().st_size, "sha256": digest(folder / name)}
        for name in names
    ]


def pack(folder: Path, manifest: dict[str, Any], recipient: str, target: Path) -> None:
    """Writes the archive of the manifest's parts. Raises Trouble."""
    with Age("-r", recipient, "-o", str(target), stdin=subprocess.PIPE) as age:
        assert age.stdin is not None
        try:
            with tarfile.open(fileobj=age.stdin, mode="w|gz") as archive:
                content = json.dumps(manifest).encode()
                entry = tarfile.TarInfo(MANIFEST)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
                for part in manifest["parts"]:
                    # Owners and times of the files do not belong in it.
                    entry = tarfile.TarInfo(part["name"])
                    entry.size = part["bytes"]
                    with (folder / part["name"]).open("rb") as file:
                        archive.addfile(entry, file)
            age.stdin.close()
        except BrokenPipeError:
            pass
        _ended(age)


def unpack(archive: Path, identity: bytes, into: Path, room: int) -> dict[str, Any]:
    """Decrypts the archive into a folder, and returns its manifest. Raises Trouble unless all parts have their digests.

    ``room``: bytes of all parts at most. ``identity``: the private key as written by age-keygen; it is passed on through standard input.
    """
    words = ("-d", "-i", "-", str(archive))
    with Age(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as age:
        assert age.stdin is not None
        assert age.stdout is not None
        try:
            age.stdin.write(identity)
            age.stdin.close()
        except BrokenPipeError:
            pass
        try:
            found = _unpacked(age.stdout, into, room)
        except (
            *(tarfile.TarError, EOFError, OSError, ValueError, KeyError, TypeError),
            *(RecursionError, zlib.error),
        ) as error:
            age.stdout.close()
            _ended(age)
            raise Trouble(ARCHIVE, f"the archive cannot be read: {error}") from None
        while age.stdout.read(1 << 20):
            pass
        _ended(age)
    return found


class _Entry(tarfile.TarInfo):
    """An entry whose header is as small as one of ``pack``: tarfile keeps a long name in memory, whatever its size."""

    @classmethod
    def frombuf(cls, *given: Any, **more: Any) -> _Entry:
        """Raises ReadError for a header with more than a name."""
        found = super().frombuf(*given, **more)
        if found.type in EXTENDED and found.size > MOST_HEADER:
            raise tarfile.ReadError(f"a header of {found.size} bytes")
        return found


def _unpacked(source: IO[bytes], into: Path, room: int) -> dict[str, Any]:
    manifest: dict[str, Any] = {}
    wanted: dict[str, str] = {}
    left = room
    with tarfile.open(fileobj=source, mode="r|gz", tarinfo=_Entry) as archive:
        for entry in archive:
            content = archive.extractfile(entry) if entry.isreg() else None
            if content is None:
                raise ValueError(f"{entry.name} is not a file")
            if not manifest:
                manifest = _manifest(entry, content.read(MOST_MANIFEST))
                wanted = {part["name"]: part["sha256"] for part in manifest["parts"]}
                continue
            if entry.name not in wanted:
                raise ValueError(f"{entry.name} is not in its manifest")
            if entry.size > left:
                raise ValueError(f"{entry.name} needs {entry.size} bytes, and {left} are free")
            left -= entry.size
            found = _written(content, into / entry.name)
            if found != wanted.pop(entry.name):
                raise ValueError(f"the digest of {entry.name} differs from the manifest")
    if not manifest or wanted:
        raise ValueError(f"{', '.join(wanted) or MANIFEST} is missing")
    return manifest


def _manifest(entry: tarfile.TarInfo, content: bytes) -> dict[str, Any]:
    if entry.name != MANIFEST:
        raise ValueError(f"it begins with {entry.name}")
    manifest: dict[str, Any] = json.loads(content)
    for part in manifest["parts"]:
        path = Path(part["name"])
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(f"{part['name']} is outside of the archive")
    return manifest


def _written(content: IO[bytes], path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    found = hashlib.sha256()
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb"
    ) as sink:
        for block in iter(lambda: content.read(1 << 20), b""):
            found.update(block)
            sink.write(block)
    return found.hexdigest()


class Age:
    """The program age, whose errors are read while it works."""

    def __init__(self, *words: str, stdin: int, stdout: int | None = None) -> None:
        try:
            self._process = subprocess.Popen(
                ["age", *words], stdin=stdin, stdout=stdout, stderr=subprocess.PIPE
            )
        except FileNotFoundError:
            raise Trouble(TOOL, "age is not installed") from None
        self.stdin, self.stdout = self._process.stdin, self._process.stdout
        self.said = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        self.said = self._process.stderr.read()

    def __enter__(self) -> Age:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self.wait()
        for pipe in (self.stdin, self.stdout, self._process.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()

    def wait(self) -> int:
        """Its exit status."""
        code = self._process.wait()
        self._reader.join(5)
        return code


def _ended(age: Age) -> None:
    if age.wait():
        lines = [line for line in age.said.decode("utf-8", "replace").splitlines() if line.strip()]
        said = lines[0] if lines else "no reason given"
        raise Trouble(ARCHIVE, said.replace("age: error: ", "age: ")[:300])
