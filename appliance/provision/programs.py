"""Programs of this machine that images and media are made with, and the packages that bring them."""

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
    """Raises ConfigError with one line on those that are not here."""
    lacking = sorted({PACKAGES[program] for program in programs if not which(program)})
    if lacking:
        words = " ".join(lacking)
        raise ConfigError(f"not installed: {words}", f"apt-get install {words}")
