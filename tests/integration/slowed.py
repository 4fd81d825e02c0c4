"""Makes what a daemon of one host starts slow, by a control group of the machine (version 1, as the rack's own): a bound on its disk or its processors."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from appliance.lab import cgroups
from appliance.lab.spec import Rack

ROOT = Path("/sys/fs/cgroup")
PERIOD = 100_000
"""In us."""


@contextmanager
def slow_disk(rack: Rack, host: str, rate: int) -> Iterator[None]:
    """What Slurm starts on ``host`` writes and reads so many bytes/s at most, past the page cache."""
    disk = rack.host(host).disk.stat().st_dev
    bound = f"{os.major(disk)}:{os.minor(disk)} {rate}"
    files = {f"blkio.throttle.{way}_bps_device": bound for way in ("read", "write")}
    with _limited(rack, host, "blkio", files):
        yield


@contextmanager
def slow_processors(rack: Rack, host: str, share: float, daemon: str = "slurmd") -> Iterator[None]:
    """``daemon`` and what it starts have together so much of one processor's time."""
    files = {"cpu.cfs_period_us": str(PERIOD), "cpu.cfs_quota_us": str(int(PERIOD * share))}
    with _limited(rack, host, "cpu", files, daemon):
        yield


@contextmanager
def _limited(
    rack: Rack, host: str, controller: str, files: dict[str, str], daemon: str = "slurmd"
) -> Iterator[None]:
    top = ROOT / controller
    group = top / f"slowed-{rack.tag}-{host}"
    daemons = [pid for pid in cgroups.members(rack.host(host)) if _name(pid) == daemon]
    assert daemons, f"{daemon} does not run on {host}"
    group.mkdir()
    try:
        for name, value in files.items():
            (group / name).write_text(value)
        for pid in daemons:
            (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for member in (group / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                (top / "cgroup.procs").write_text(member)
        group.rmdir()


def _name(pid: int) -> str:
    """Empty once it is gone: programs of the host come and go."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""
