"""One place of storage: creates its model file, measures its own rate and every load, and removes the file."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from appliance.benchmarks.model_load.host import loaders, model, raw
from appliance.benchmarks.model_load.host.apart import Unable, apart
from appliance.benchmarks.model_load.host.cold import chill

S3 = "s3://"
MEMORY = 2.2
"""Memory as a multiple of the model's size: parameters, and a loader's buffers."""
SMALLER = "use a smaller --size"
OWN = ".appliance-model-load"
"""All users may write to the place. Root therefore works in a folder that is closed to them, so that no link of theirs is followed."""


class Place:
    """``at``: a folder, or s3://bucket. Times in seconds; ``ends`` on the monotonic clock."""

    def __init__(
        self, at: str, request: Mapping[str, Any], packages: Mapping[str, Any], ends: float
    ) -> None:
        self.at, self.request, self.packages, self.ends = at, request, packages, ends
        self.is_s3 = at.startswith(S3)
        self.model = model.fitting(request["size"])
        self.folder = Path(request["scratch"] if self.is_s3 else at)
        self.own = self.folder / OWN
        self.file = self.own / self.model.file_name
        self.tensors = self.file.with_name(f"{self.file.name}.tensors")
        self.url = f"{at.rstrip('/')}/{self.file.name}"
        self.digests: Mapping[str, str] = {}
        self.made: set[Path] = set()
        self.unwritten = ""
        self.record: dict[str, Any] = {"place": at, "raw": [], "loads": [], "missing": []}

    def measure(self) -> dict[str, Any]:
        """The record of all of it; trouble is part of it."""
        try:
            self._measure()
        except Unable as error:
            self.record.update(trouble=str(error), remedy=error.remedy)
        except OSError as error:
            self.record["trouble"] = f"{error.filename or self.at}: {error.strerror}"
        finally:
            self._clear()
        return self.record

    def _measure(self) -> None:
        self._need_room()
        self._close()
        plan = list(self._plan())
        self._make()
        for turn in range(self.request["repeats"]):
            # Other load on the storage affects all loaders equally.
            for readers in raw.READERS:
                self._raw(readers, turn)
            for loader, concurrency in plan:
                self._load(loader, concurrency, turn)

    def _need_room(self) -> None:
        if not self.folder.is_dir():
            raise Unable(f"{self.folder} is no folder", "name a folder of the storage")
        room = os.statvfs(self.folder)
        copies = 2 if "tensorizer" in self.request["loaders"] and not self.is_s3 else 1
        if room.f_bavail * room.f_frsize < copies * self.model.size * 1.05:
            raise Unable(f"{self.folder} has no room for {copies} x {self.model.size} B", SMALLER)
        free = memory_available()
        if free and free < MEMORY * self.model.size:
            needed = f"a load takes {MEMORY * self.model.size:.0f} B of memory"
            raise Unable(f"{needed}, and {free} B are free", SMALLER)

    def _close(self) -> None:
        """Returns this program's own folder; one that a user has created is refused. The server may map root to nobody."""
        seen = self.folder.stat()
        others = seen.st_mode & 0o002 or (seen.st_mode & 0o020 and seen.st_gid)
        if os.geteuid() == 0 and others and not seen.st_mode & stat.S_ISVTX:
            why = f"other users can replace files in {self.folder}, which has no sticky bit"
            raise Unable(
                why, f"chmod +t {self.folder}, or use a directory that only root can write to"
            )
        with suppress(FileExistsError):
            self.own.mkdir(0o700)
        with TemporaryDirectory(prefix=OWN, dir=self.folder) as made:
            mine, seen = os.lstat(made), os.lstat(self.own)
        if (seen.st_uid, seen.st_mode) != (mine.st_uid, mine.st_mode):
            raise Unable(
                f"{self.own} belongs to another user", f"check it, and remove it: {self.own}"
            )

    def _plan(self) -> Iterator[tuple[str, int]]:
        for loader in self.request["loaders"]:
            if self.is_s3 and loader not in loaders.WITH_S3:
                continue
            needs = loaders.PACKAGES[loader] + (loaders.S3_PACKAGES if self.is_s3 else ())
            if missing := [name for name in needs if name not in self.packages]:
                self.record["missing"].append({"loader": loader, "packages": missing})
            elif loader == "safetensors":
                yield loader, 1
            else:
                yield from ((loader, level) for level in self.request["concurrency"])

    def _make(self) -> None:
        if not self.file.exists():
            self.made |= {self.file, model.digests_of(self.file)}
        self.digests = model.make(self.file, self.model)
        kind, source = mounted_as(self.folder.resolve())
        if self.is_s3:
            kind, source = "s3", os.environ.get("AWS_ENDPOINT_URL", "AWS")
            if "boto3" in self.packages:
                self._in_process(self._store)
        elif "tensorizer" in self.packages and "tensorizer" in self.request["loaders"]:
            self.made.add(self.tensors)
            try:
                self._in_process(lambda: loaders.serialize(self.file, self.tensors))
            except Unable as error:
                self.unwritten = f"its own format was not written: {error}"
        sizes = {"bytes": self.model.size, "tensors": len(self.model.shapes)}
        self.record.update(sizes, sha256=self.digests[""], kind=kind, source=source)

    def _raw(self, readers: int, turn: int) -> None:
        if self.is_s3 and "boto3" not in self.packages:
            return
        entry = {"readers": readers, "turn": turn}
        work = (
            (lambda: raw.read_object(self.url, readers))
            if self.is_s3
            else (lambda: raw.read_file(self.file, readers))
        )
        self.record["raw"].append(self._tried(entry, self.file, work))

    def _load(self, loader: str, concurrency: int, turn: int) -> None:
        entry = {"loader": loader, "concurrency": concurrency, "turn": turn, "checked": turn == 0}
        if loader == "tensorizer" and self.unwritten:
            self.record["loads"].append({**entry, "trouble": self.unwritten})
            return
        file = self.tensors if loader == "tensorizer" else self.file
        source = self.url if self.is_s3 else str(file)
        # Every bit once: later loads of the same kind differ in nothing but their time.
        wanted = self.digests if turn == 0 else {}
        names = ("RUNAI_STREAMER_CONCURRENCY", "RUNAI_STREAMER_OBJ_CONCURRENCY")
        done = self._tried(
            entry,
            file,
            lambda: loaders.load(loader, source, concurrency, self.model, wanted),
            dict.fromkeys(names, str(concurrency)),
        )
        self.record["loads"].append(done)

    def _tried(
        self,
        entry: dict[str, Any],
        file: Path,
        work: Callable[[], dict[str, Any]],
        environment: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Returns ``entry`` with the result of the work, from the coldest possible cache."""
        evicted = [*([] if self.is_s3 else [file]), *map(Path, self.request["evict"])]
        try:
            entry["stayed"] = _largest([chill(each) for each in evicted])
            entry.update(self._in_process(work, environment))
        except Unable as error:
            entry["trouble"] = str(error)
        return entry

    def _in_process(
        self, work: Callable[[], dict[str, Any]], environment: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        left = self.ends - time.monotonic()
        if left < 1:
            raise Unable("the time for all loads is over")
        return apart(work, min(left, self.request["load_deadline"]), environment or {})

    def _store(self) -> dict[str, Any]:
        at = urlsplit(self.url)
        raw.client().upload_file(str(self.file), at.netloc, at.path.lstrip("/"))
        return {}

    def _unstore(self) -> dict[str, Any]:
        at = urlsplit(self.url)
        raw.client().delete_object(Bucket=at.netloc, Key=at.path.lstrip("/"))
        return {}

    def _clear(self) -> None:
        """Removes files of this run; an existing model file stays."""
        if self.request["keep"]:
            return
        for path in self.made:
            if path.exists():
                path.unlink()
        with suppress(OSError):
            self.own.rmdir()
        if self.is_s3 and "boto3" in self.packages and self.record.get("kind"):
            try:
                apart(self._unstore, 60, {})
            except Unable as error:
                self.record["left"] = f"{self.url}: {error}"


def _largest(shares: Sequence[float | None]) -> float | None:
    """Returns None if there is none, or if it is unknown."""
    known = [share for share in shares if share is not None]
    return max(known) if known and len(known) == len(shares) else None


def mounted_as(path: Path) -> tuple[str, str]:
    """Type and source of the file system a path is on; proc(5), mountinfo."""
    found, point = ("", ""), Path("/")
    for line in Path("/proc/self/mountinfo").read_bytes().split(b"\n"):
        before, _, after = line.partition(b" - ")
        head, tail = before.split(b" "), after.split(b" ")
        if len(head) < 6 or len(tail) < 2:
            continue
        at = Path(os.fsdecode(head[4].replace(b"\\040", b" ")))
        if (at == path or at in path.parents) and len(at.parts) >= len(point.parts):
            found, point = (tail[0].decode(), tail[1].decode("utf-8", "replace")), at
    return found


def memory_available() -> int:
    """Number of bytes; 0 if the kernel does not report it."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").split("\n")
        return next(int(x.split()[1]) * 1024 for x in lines if x.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return 0
