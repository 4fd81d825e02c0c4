"""Programs that building images and media needs on this machine, and their packages."""

import shutil
from collections.abc import Callable, Iterable

from appliance.errors import ConfigError

PACKAGES = {
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "sfdisk": "fdisk",
    "mkfs.vfat": "dosfstools",
    "mcopy": "mtools",
    "zstd": "zstd",
    "xorriso": "xorriso",
}
MEDIA = ("mkfs.vfat", "mcopy", "xorriso")


def require(
    programs: Iterable[str] = PACKAGES, which: Callable[[str], str | None] = shutil.which
) -> None:
    """Raises ConfigError with one line on missing programs."""
    lacking = sorted({PACKAGES[program] for program in programs if not which(program)})
    if lacking:
        words = " ".join(lacking)
        raise ConfigError(f"not installed: {words}", f"apt-get install {words}")
