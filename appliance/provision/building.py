"""Shows the progress of an image build, from the content of its folder."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

Progress = Callable[[str], None]

INTERVAL = 8.0
STATUS = re.compile(r"^Package: (.+)\nStatus: (.+)$", re.MULTILINE)
ARCHIVES = "var/cache/apt/archives"


@contextmanager
def reported_progress(
    progress: Progress, title: str, how_far: Callable[[], str], interval: float = INTERVAL
) -> Iterator[None]:
    """Prints what begins, the progress every ``interval`` seconds, and the duration at the end."""
    began = time.monotonic()
    done = threading.Event()

    def tell() -> None:
        while not done.wait(interval):
            progress(f"  {span(time.monotonic() - began)}  {how_far() or 'at work'}")

    progress(title)
    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()
    progress(f"  {span(time.monotonic() - began)}  done")


def system(root: Path) -> str:
    """The progress of a system being installed below ``root``."""
    fetched = len(_archives(root))
    unpacked = len(list((root / "var/lib/dpkg/info").glob("*.list")))
    if not fetched:
        return "reading the package lists"
    if unpacked < fetched:
        return f"{fetched} packages downloaded, {unpacked} unpacked"
    return f"{_set_up(root / 'var/lib/dpkg')} of {unpacked} packages set up"


def downloads(root: Path) -> str:
    """The number of packages downloaded below ``root``, and their size in MB."""
    found = _archives(root)
    return f"{len(found)} packages downloaded, {sum(found) / 1e6:.0f} MB"


def span(seconds: float) -> str:
    """Minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def _set_up(database: Path) -> int:
    """Installed packages: dpkg records each change in a numbered file, and merges these from time to time."""
    ready: dict[str, bool] = {}
    for file in (database / "status", *sorted((database / "updates").glob("[0-9]*"))):
        with suppress(OSError):
            for name, status in STATUS.findall(file.read_text(errors="replace", encoding="utf-8")):
                ready[name] = status == "install ok installed"
    return sum(ready.values())


def _archives(root: Path) -> list[int]:
    """The size of each fetched package; files may vanish meanwhile."""
    sizes = []
    for file in (root / ARCHIVES).glob("*.deb"):
        with suppress(OSError):
            sizes.append(file.stat().st_size)
    return sizes
