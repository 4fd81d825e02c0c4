"""Writes an image to the disk: verified while it is written, bootable only afterwards."""

import ctypes
import errno
import fcntl
import hashlib
import mmap
import os
import queue
import struct
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from appliance.provision.ramdisk.shared import Refused, run

MIB = 1 << 20
CHUNK = 4 * MIB
READ = MIB
"""Bytes of the compressed image that are hashed at once."""
AHEAD = 4
"""Blocks that one step may be ahead of the next."""
REREADS = 30
HEAD = MIB
"""Bytes at a disk's start that are written last. They contain the partition table."""
TAIL = MIB
"""Bytes at a disk's end that contain the backup partition table."""
BLKZEROOUT = 0x127F
"""linux/fs.h: zeros written by the kernel, or by the drive if it supports that."""
LIBRARY = "libzstd.so.1"
NOTHING = bytes(CHUNK)
PROBED = 512
STEP_S = 0.5
Item = TypeVar("Item")


class Source(Protocol):
    """Where the compressed image comes from."""

    def read(self, size: int, /) -> bytes: ...


def install(
    source: Source, image: dict[str, Any], device: str, tell: Callable[[int], None]
) -> None:
    """Writes a compressed image to a disk. ``image``: bytes, sha256, disk_bytes. ``tell`` is called with the percentage.

    A disk whose writing is interrupted, or whose image has another digest, has no partition table: it does not boot,
    and does not look installed. Raises Refused.
    """
    size = int(image["disk_bytes"])
    counted = Counted(source, int(image["bytes"]), tell)
    with Disk(device) as disk:
        disk.zero(0, HEAD)
        disk.zero(disk.size - TAIL, TAIL)
        disk.settle()
        try:
            head = write(counted, disk, size)
        finally:
            # Also if it could not be unpacked: for a modified image that is only a consequence.
            counted.compare(str(image["sha256"]))
        # The data is on the disk before the partition table is.
        disk.settle()
        disk.write(0, head)
        disk.settle()


class Disk:
    """A disk that is written with direct I/O if possible: this saves a copy of each byte."""

    def __init__(self, device: str) -> None:
        try:
            self._file = os.open(device, os.O_RDWR | os.O_DIRECT)
        except OSError as error:
            if error.errno != errno.EINVAL:  # a file on a file system without direct I/O
                raise
            self._file = os.open(device, os.O_RDWR)
        self.size = os.lseek(self._file, 0, os.SEEK_END)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._file)

    def write(self, at: int, block: memoryview) -> None:
        """Writes a block; its memory and its offset are multiples of the disk's block size."""
        while block:
            done = os.pwrite(self._file, block, at)
            at, block = at + done, block[done:]

    def zero(self, at: int, length: int) -> None:
        """Writes zeros over the old content."""
        try:
            fcntl.ioctl(self._file, BLKZEROOUT, struct.pack("QQ", at, length))
        except OSError:
            # Not a block device, or one without support.
            self.write(at, memoryview(mmap.mmap(-1, length)))

    def settle(self) -> None:
        """Waits until everything is on the disk itself."""
        os.fsync(self._file)


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
        """Raises Refused if it was read to its end and has another digest."""
        found = self.sha256.hexdigest()
        if self.is_whole and found != wanted:
            raise Refused(
                f"the received image has digest {found[:12]}, not {wanted[:12]}",
                "it was modified, or a cable corrupts data: build or copy it again, then try again",
            )


def write(source: Source, disk: Disk, size: int) -> memoryview:
    """Unpacks an image of ``size`` bytes to a disk except for its start, which is returned. Raises Refused for another length.

    Reading with hashing, unpacking, and writing each have a thread: machines have several processors.
    """
    head = memoryview(mmap.mmap(-1, HEAD))
    at = 0
    with closing(ahead(unpacked(source))) as raw:
        for block in raw:
            if at + len(block) > size:
                raise Refused("the image is longer than in its manifest", "build it again")
            keep = min(len(block), max(0, HEAD - at))
            head[at : at + keep] = block[:keep]
            if rest := block[keep:]:
                if is_empty(rest):
                    disk.zero(at + keep, len(rest))
                else:
                    disk.write(at + keep, rest)
            at += len(block)
    if at != size:
        raise Refused(f"the image ended after {at} of {size} bytes", "try again")
    return head


def is_empty(block: memoryview) -> bool:
    """Whether a block is all zeros. Memoryviews would be compared byte by byte, and block the other steps meanwhile."""
    return not any(block[:PROBED]) and block.tobytes() == NOTHING[: len(block)]


class _Span(ctypes.Structure):
    """ZSTD_inBuffer and ZSTD_outBuffer: memory, its length, and the position in it."""

    _fields_ = (("at", ctypes.c_void_p), ("size", ctypes.c_size_t), ("used", ctypes.c_size_t))


def unpacked(source: Source) -> Generator[memoryview]:
    """The unpacked stream, in blocks of one length except the last; each is valid until AHEAD more were produced.

    Raises Refused for invalid data, and what reading the source raises.
    """
    zstd = ctypes.CDLL(LIBRARY)
    zstd.ZSTD_createDStream.restype = ctypes.c_void_p
    zstd.ZSTD_decompressStream.restype = ctypes.c_size_t
    zstd.ZSTD_decompressStream.argtypes = [ctypes.c_void_p, *[ctypes.POINTER(_Span)] * 2]
    stream = ctypes.c_void_p(zstd.ZSTD_createDStream())
    # One is being filled, one is being written, the others wait.
    rooms = [mmap.mmap(-1, CHUNK) for _ in range(AHEAD + 2)]
    places = [ctypes.addressof(ctypes.c_char.from_buffer(room)) for room in rooms]
    turn, left = 0, 1
    out = _Span(places[turn], CHUNK, 0)
    with closing(ahead(iter(lambda: source.read(READ), b""))) as packed:
        for block in packed:
            given = _Span(ctypes.cast(ctypes.c_char_p(block), ctypes.c_void_p), len(block), 0)
            # Calling it once more after the image's end would start another frame.
            while given.used < given.size or (left and out.used == CHUNK):
                if out.used == CHUNK:
                    yield memoryview(rooms[turn])
                    turn = (turn + 1) % len(rooms)
                    out = _Span(places[turn], CHUNK, 0)
                left = zstd.ZSTD_decompressStream(stream, ctypes.byref(out), ctypes.byref(given))
                if zstd.ZSTD_isError(ctypes.c_size_t(left)):
                    for _ in packed:  # its digest is a stricter test
                        pass
                    raise _broken()
    if left:
        raise _broken()
    if out.used:
        yield memoryview(rooms[turn])[: out.used]


def _broken() -> Refused:
    return Refused("the image cannot be unpacked", "build it again: appliance provision build")


def ahead(made: Iterator[Item]) -> Generator[Item]:
    """The same items, produced by a separate thread at most AHEAD of the consumer; exceptions are raised here."""
    ready: queue.Queue[tuple[Item] | BaseException | None] = queue.Queue(AHEAD)
    left = threading.Event()

    def put(what: tuple[Item] | BaseException | None) -> None:
        while not left.is_set():
            with suppress(queue.Full):
                ready.put(what, timeout=STEP_S)
                break

    def work() -> None:
        try:
            for one in made:
                put((one,))
                if left.is_set():
                    return
            put(None)
        except BaseException as error:  # noqa: BLE001 - it is another thread's
            put(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while (found := ready.get()) is not None:
            if isinstance(found, BaseException):
                raise found
            yield found[0]
    finally:
        # It may wait for a connection that never ends.
        left.set()
        thread.join(STEP_S)


def grow(device: str, root: str) -> None:
    """Grows the last partition, the root file system, to the whole disk."""
    number = root.removeprefix(device).removeprefix("p")
    run("sfdisk", "--quiet", "--no-reread", "-N", number, device, given=", +\n")
    reread(device)
    run("e2fsck", "-f", "-p", root)
    run("resize2fs", root)


def reread(device: str) -> None:
    """Makes the kernel read the partition table again; udev keeps a freshly written disk open meanwhile."""
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
