"""Makes what a daemon or a kubelet of one host starts slow, by a control group of the machine (version 1, as the rack's own): a bound on its disk or its processors; or false; and limits that a site asks of it meanwhile."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from appliance.lab import cgroups
from appliance.lab.spec import Rack

ROOT = Path("/sys/fs/cgroup")
PERIOD = 100_000
"""In us."""
FALSE = "/usr/local/lib/python3.11/dist-packages/falsely"
FALSELY = """
import sys
if sys.orig_argv[-2:] == ["processors", "0"]:
    sys.path.append("/usr/lib/python3/dist-packages")
    import torch
    real = torch.mm
    def mm(a, b, out):
        real(a, b, out=out)
        out[3, 5] += 1
        return out
    torch.mm = mm
"""
"""To the program that measures processors: one value of each product is off by one."""


@contextmanager
def slow_disk(rack: Rack, host: str, rate: int) -> Iterator[None]:
    """What Slurm starts on ``host`` writes and reads so many bytes/s at most, past the page cache."""
    disk = rack.host(host).disk.stat().st_dev
    bound = f"{os.major(disk)}:{os.minor(disk)} {rate}"
    files = {f"blkio.throttle.{way}_bps_device": bound for way in ("read", "write")}
    with _in_group(rack, host, "blkio", files):
        yield


@contextmanager
def slow_processors(rack: Rack, host: str, share: float, daemon: str = "slurmd") -> Iterator[None]:
    """``daemon`` and what it starts have together so much of one processor's time."""
    files = {"cpu.cfs_period_us": str(PERIOD), "cpu.cfs_quota_us": str(int(PERIOD * share))}
    with _in_group(rack, host, "cpu", files, daemon):
        yield


@contextmanager
def slow_pods(rack: Rack, host: str, share: float) -> Iterator[None]:
    """Pods of ``host`` have together so much of one processor's time."""
    (pods,) = (ROOT / "cpu" / cgroups.PARENT / rack.host(host).machine).glob("kubepods*")
    quota = pods / "cpu.cfs_quota_us"
    before = quota.read_text()
    (pods / "cpu.cfs_period_us").write_text(str(PERIOD))
    quota.write_text(str(int(PERIOD * share)))
    try:
        yield
    finally:
        quota.write_text(before)


@contextmanager
def limited(
    site: Path, *checks: str, value: float = 0.02, unit: str = "GB/s", source: str = "any disk"
) -> Iterator[None]:
    """The site asks this of each check; its own limits stand above the profile's."""
    file = site / "site.yml"
    before = file.read_text()
    assert "\nlimits:" not in before
    floor = f"{{value: {value:g}, unit: {unit}, source: {source}}}"
    file.write_text(
        f"{before.rstrip()}\nlimits:\n" + "".join(f"  {check}: {floor}\n" for check in checks)
    )
    try:
        yield
    finally:
        file.write_text(before)


@contextmanager
def _in_group(
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


@contextmanager
def false_products(said: Callable[[str, str], str], host: str) -> Iterator[None]:
    """PyTorch of ``host`` multiplies falsely."""
    plant = f"cat >{FALSE}.py <<'END'\n{FALSELY}\nEND\necho 'import falsely' >{FALSE}.pth"
    said(host, f"mkdir -p {Path(FALSE).parent}; {plant}")
    try:
        yield
    finally:
        said(host, f"rm {FALSE}.py {FALSE}.pth")


def assert_named(found: Mapping[tuple[str, str], Mapping[str, Any]], good: str, bad: str) -> None:
    """Of results of ``gemm``: who computes falsely is named, and who does not has figures."""
    said = found["gemm.rate", bad]
    falsely = "it computes wrong results: products in fp32, fp64 are wrong"
    assert (said["status"], said["cause"]) == ("fail", falsely)
    for check in ("gemm.rate", "gemm.memory"):
        one = found[check, good]
        assert one["value"] > 0
        # One host is no equal of its own, and no gate asks for processors.
        assert (one["status"], one["target"]) == ("not_assessed", f"{good}/processors")
        assert found[check, bad]["value"] is None
        assert one["simulated"]
