"""An image on its way to the disk: verified while it is written, bootable only once it was."""

import hashlib
import subprocess  # noqa: TID251 - the ramdisk has nothing of this program
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from appliance.provision.ramdisk.shared import Refused, run

MIB = 1 << 20
CHUNK = 4 * MIB
REREADS = 30
HEAD = MIB
"""Bytes at a disk's start that are written last. The partition table lies there."""
TAIL = MIB
"""Bytes at a disk's end where the second copy of the table lies."""


class Source(Protocol):
    """Where the compressed image comes from."""

    def read(self, size: int, /) -> bytes: ...


def install(
    source: Source, image: dict[str, Any], device: str, tell: Callable[[int], None]
) -> None:
    """Writes a compressed image to a disk. ``image``: bytes, sha256, disk_bytes. ``tell`` hears the percentage.

    A disk whose writing is cut short, or whose image is not the one that was named, has no partition table: it does not
    boot, and does not look installed. Raises Refused.
    """
    size = int(image["disk_bytes"])
    counted = Counted(source, int(image["bytes"]), tell)
    with Path(device).open("r+b", buffering=0) as disk:
        end = disk.seek(0, 2)
        for at, length in ((0, HEAD), (end - TAIL, TAIL)):
            disk.seek(at)
            disk.write(bytes(length))
        try:
            head = write(unpacked(counted), disk, size)
        finally:
            # Also where it could not be unpacked: of an image that was changed that is no more than a consequence.
            counted.compare(str(image["sha256"]))
        disk.seek(0)
        disk.write(head)


class Counted:
    """A source that is hashed and counted while it is read."""

    def __init__(self, source: Source, total: int, tell: Callable[[int], None]) -> None:
        self._source, self._total, self._tell = source, total, tell
        self.sha256 = hashlib.sha256()
        self.count = 0
        self.is_whole = False

    def read(self, size: int, /) -> bytes:
        """The next bytes, b"" at the end."""
        block = self._source.read(size)
        self.sha256.update(block)
        self.count += len(block)
        self.is_whole = not block
        self._tell(min(99, 100 * self.count // self._total))
        return block

    def compare(self, wanted: str) -> None:
        """Raises Refused where it was read to its end and is not what was named."""
        found = self.sha256.hexdigest()
        if self.is_whole and found != wanted:
            raise Refused(
                f"the image that came has digest {found[:12]}, not {wanted[:12]}",
                "somebody changed it, or a cable does: build or copy it anew, then try again",
            )


def write(raw: Iterator[bytes], disk: Any, size: int) -> bytes:
    """Writes a raw image of ``size`` bytes but for its head, which is returned. Raises Refused for another length."""
    head = bytearray()
    at = 0
    for block in raw:
        if at + len(block) > size:
            raise Refused("the image is longer than its manifest says", "build it anew")
        keep = min(len(block), max(0, HEAD - at))
        head += block[:keep]
        if rest := memoryview(block)[keep:]:
            disk.seek(at + keep)
            disk.write(rest)
        at += len(block)
    if at != size:
        raise Refused(f"the image ended after {at} of {size} bytes", "try again")
    return bytes(head)


def unpacked(source: Source) -> Iterator[bytes]:
    """What zstd makes of a stream, in blocks. Raises Refused where it is none, and what reading the source raises."""
    command = ("zstd", "--decompress", "--stdout", "--quiet")
    failed: list[BaseException] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        pipe = process.stdin

        def feed() -> None:
            try:
                with suppress(BrokenPipeError), pipe:
                    while block := source.read(CHUNK):
                        pipe.write(block)
            except (OSError, Refused) as error:
                failed.append(error)
                process.kill()

        feeder = threading.Thread(target=feed, daemon=True)
        feeder.start()
        while block := process.stdout.read(CHUNK):
            yield block
        feeder.join()
    if failed:
        raise failed[0]
    if process.returncode:
        # zstd may have given up long before the end.
        while source.read(CHUNK):
            pass
        raise Refused("the image cannot be unpacked", "build it anew: appliance provision build")


def grow(device: str, root: str) -> None:
    """Lets the last partition, the root file system, take the whole disk."""
    number = root.removeprefix(device).removeprefix("p")
    run("sfdisk", "--quiet", "--no-reread", "-N", number, device, given=", +\n")
    reread(device)
    run("e2fsck", "-f", "-p", root)
    run("resize2fs", root)


def reread(device: str) -> None:
    """Lets the kernel read the partition table anew; udev looks into a disk that was just written, and holds it."""
    for attempt in range(REREADS):
        run("udevadm", "settle")
        try:
            run("blockdev", "--rereadpt", device)
        except Refused:
            if attempt == REREADS - 1:
                raise
            time.sleep(1)
        else:
            break
    run("udevadm", "settle")


def partition(device: str, number: int) -> str:
    """/dev/sda and 2: /dev/sda2; /dev/nvme0n1 and 2: /dev/nvme0n1p2."""
    return f"{device}p{number}" if device[-1].isdigit() else f"{device}{number}"
