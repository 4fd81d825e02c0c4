"""An image on its way to the disk: whole and verified, or a disk that does not boot."""

import hashlib
import io
import random
import subprocess  # noqa: TID251 - the ramdisk's own programs, as it calls them
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.provision.ramdisk import images
from appliance.provision.ramdisk.images import CHUNK, HEAD, MIB, TAIL
from appliance.provision.ramdisk.shared import Refused

RAW = random.Random(7).randbytes(3 * MIB) + bytes(2 * MIB) + b"end" + bytes(MIB - 3)
OLD = b"\xff"


def pack(raw: bytes) -> bytes:
    return subprocess.run(("zstd", "-q", "-c"), input=raw, capture_output=True, check=True).stdout


@pytest.fixture(scope="module")
def packed() -> bytes:
    return pack(RAW)


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A disk of 10 MiB that an old system lies on."""
    file = tmp_path / "disk"
    file.write_bytes(OLD * (10 * MIB))
    return file


def described(packed: bytes, **more: Any) -> dict[str, Any]:
    digest = hashlib.sha256(packed).hexdigest()
    return {"bytes": len(packed), "sha256": digest, "disk_bytes": len(RAW), **more}


def install(packed: bytes, disk: Path, **more: Any) -> list[int]:
    told: list[int] = []
    images.install(io.BytesIO(packed), described(packed, **more), str(disk), told.append)
    return told


def boots(disk: Path) -> bool:
    """Whether anything lies where a partition table or a boot sector would."""
    found = disk.read_bytes()
    return any(found[:HEAD]) or any(found[-TAIL:])


def test_the_disk_is_the_image_and_the_old_table_at_its_end_is_gone(packed: bytes, disk: Path) -> None:  # fmt: skip
    told = install(packed, disk)
    found = disk.read_bytes()
    assert found[: len(RAW)] == RAW
    assert found[-TAIL:] == bytes(TAIL)
    assert found[len(RAW) : -TAIL] == OLD * (len(found) - len(RAW) - TAIL)
    assert told[-1] == 99


def test_where_the_image_is_empty_nothing_of_the_old_system_is_left(tmp_path: Path) -> None:
    raw = b"a" * MIB + bytes(4 * CHUNK) + b"z" * MIB
    file = tmp_path / "disk"
    file.write_bytes(OLD * (24 * MIB))
    packed = pack(raw)
    images.install(io.BytesIO(packed), described(packed, disk_bytes=len(raw)), str(file), lambda _: None)  # fmt: skip
    assert file.read_bytes()[: len(raw)] == raw


@pytest.mark.parametrize("blocks", [1, 2, images.AHEAD + 3])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_an_image_that_ends_where_a_block_does_is_whole(blocks: int, more: int) -> None:
    raw = random.Random(blocks).randbytes(MIB) * (blocks * CHUNK // MIB)
    raw = raw[:more] if more < 0 else raw + b"z" * more
    assert b"".join(bytes(block) for block in images.unpacked(io.BytesIO(pack(raw)))) == raw


def test_an_image_of_several_parts_is_one(disk: Path) -> None:
    packed = b"".join(pack(RAW[at : at + MIB]) for at in range(0, len(RAW), MIB))
    install(packed, disk)
    assert disk.read_bytes()[: len(RAW)] == RAW


def test_the_table_is_written_after_all_else_is_on_the_disk(packed: bytes, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    done: list[object] = []
    write, settle = images.Disk.write, images.Disk.settle

    def told(self: images.Disk, at: int, block: memoryview) -> None:
        done.append(at)
        write(self, at, block)

    def settled(self: images.Disk) -> None:
        done.append("settled")
        settle(self)

    monkeypatch.setattr(images.Disk, "write", told)
    monkeypatch.setattr(images.Disk, "settle", settled)
    install(packed, disk)
    first = done.index("settled")
    assert {0, 9 * MIB} <= set(done[:first])
    assert done[first + 1 :] == [HEAD, CHUNK, "settled", 0, "settled"]


def test_steps_are_ahead_of_each_other_by_some_blocks_and_end_with_who_takes_them() -> None:
    made: list[int] = []

    def make() -> Iterator[int]:
        for number in range(1000):
            made.append(number)
            yield number

    taken = images.ahead(make())
    assert [next(taken) for _ in range(3)] == [0, 1, 2]
    threads = threading.active_count()
    taken.close()
    assert threading.active_count() == threads - 1
    assert 3 <= len(made) <= 3 + images.AHEAD + 1


def test_another_image_than_the_named_one_leaves_a_disk_that_does_not_boot(packed: bytes, disk: Path) -> None:  # fmt: skip
    with pytest.raises(Refused, match=r"has digest .*, not 000000000000"):
        install(packed, disk, sha256="0" * 64)
    assert not boots(disk)


def test_a_changed_image_is_told_as_such_also_where_it_cannot_be_unpacked(packed: bytes, disk: Path) -> None:  # fmt: skip
    changed = bytearray(packed)
    changed[len(changed) // 3] ^= 1
    named = described(packed)
    with pytest.raises(Refused, match="the received image has digest"):
        images.install(io.BytesIO(changed), named, str(disk), lambda _: None)
    assert not boots(disk)


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.99])
def test_an_image_that_is_cut_leaves_a_disk_that_does_not_boot(packed: bytes, disk: Path, kept: float) -> None:  # fmt: skip
    part = packed[: int(kept * len(packed)) if kept < 1 else int(kept)]
    with pytest.raises(Refused):
        images.install(io.BytesIO(part), described(packed), str(disk), lambda _: None)
    assert not boots(disk)


@pytest.mark.parametrize("off", [-MIB, MIB])
def test_an_image_of_another_length_is_refused(packed: bytes, disk: Path, off: int) -> None:
    with pytest.raises(Refused):
        install(packed, disk, disk_bytes=len(RAW) + off)
    assert not boots(disk)


def test_what_is_no_image_is_refused(disk: Path) -> None:
    with pytest.raises(Refused, match="cannot be unpacked"):
        install(b"no zstd at all", disk)


def test_why_the_line_broke_is_what_is_told(packed: bytes, disk: Path) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise Refused("the line breaks", "mend it")

    with pytest.raises(Refused, match="the line breaks"):
        images.install(Broken(), described(packed), str(disk), lambda _: None)
    assert not boots(disk)


def test_a_kill_at_any_moment_leaves_a_disk_that_does_not_boot(packed: bytes, disk: Path) -> None:
    class Killed(Exception):
        pass

    for at in range(1, 100, 7):

        def tell(percent: int, at: int = at) -> None:
            if percent >= at:
                raise OSError("killed")

        with pytest.raises(OSError, match="killed"):
            images.install(io.BytesIO(packed), described(packed), str(disk), tell)
        assert not boots(disk)


@pytest.mark.parametrize(
    ("device", "named"),
    [("/dev/sda", "/dev/sda2"), ("/dev/nvme0n1", "/dev/nvme0n1p2"), ("/dev/vda", "/dev/vda2")],
)
def test_partitions_are_named_as_the_kernel_does(device: str, named: str) -> None:
    assert images.partition(device, 2) == named
