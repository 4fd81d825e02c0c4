"""What the installer writes is what lies on a real block device, whatever was there before."""

import hashlib
import io
import random
import subprocess  # noqa: TID251 - the image is packed as it is built
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters.process import run
from appliance.provision.ramdisk import images
from appliance.provision.ramdisk.images import CHUNK, MIB

pytestmark = pytest.mark.machines

OLD = b"\xff"
DISK = 40 * MIB


@pytest.fixture(params=[512, 4096], ids=["sectors of 512", "sectors of 4096"])
def device(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A disk that is full of something else."""
    file = tmp_path / "disk"
    file.write_bytes(OLD * DISK)
    argv = ("losetup", "--find", "--show", "--sector-size", str(request.param), str(file))
    loop = run(argv).stdout.strip()
    try:
        yield Path(loop)
    finally:
        run(("losetup", "--detach", loop))


def test_the_image_and_nothing_of_the_old_system(device: Path) -> None:
    raw = random.Random(3).randbytes(3 * MIB) + bytes(4 * CHUNK) + b"end" + bytes(2 * MIB - 3)
    packed = subprocess.run(("zstd", "-q", "-c"), input=raw, capture_output=True, check=True).stdout
    digest = hashlib.sha256(packed).hexdigest()
    image = {"bytes": len(packed), "sha256": digest, "disk_bytes": len(raw)}
    with device.open("rb"):  # as udev looks at it meanwhile
        images.install(io.BytesIO(packed), image, str(device), lambda _: None)
    found = device.read_bytes()
    assert found[: len(raw)] == raw
    assert found[len(raw) : -MIB] == OLD * (DISK - len(raw) - MIB)
    assert not any(found[-MIB:])
