"""One control group per host, which separates its processes from all others and can freeze them."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import DeadlineExceeded
from appliance.lab import processes
from appliance.lab.spec import RackHost

PROC = Path("/proc")
PARENT = "appliance-lab"


@dataclass(frozen=True)
class Hierarchies:
    """Mount points of the control groups: ``freezer`` is None if version 2 freezes."""

    unified: Path | None
    freezer: Path | None
    systemd: Path | None
    others: tuple[Path, ...] = ()

    def all(self) -> tuple[Path, ...]:
        """The hierarchies a host's processes are put into."""
        return tuple(path for path in (self.freezer, self.systemd, self.unified) if path)

    def every(self) -> tuple[Path, ...]:
        """Includes the other controllers, for a host that creates groups for its own containers."""
        return (*self.all(), *self.others)


def hierarchies(mounts: str | None = None) -> Hierarchies:
    """Read the mount table (the text of /proc/self/mounts)."""
    text = Path("/proc/self/mounts").read_text(encoding="utf-8") if mounts is None else mounts
    found: dict[str, Path] = {}
    others: list[Path] = []
    for line in text.splitlines():
        _, where, kind, options = line.split()[:4]
        if kind == "cgroup2":
            found.setdefault("unified", Path(where))
        elif kind == "cgroup" and "freezer" in options.split(","):
            found.setdefault("freezer", Path(where))
        elif kind == "cgroup" and "name=systemd" in options.split(","):
            found.setdefault("systemd", Path(where))
        elif kind == "cgroup":
            others.append(Path(where))
    return Hierarchies(
        found.get("unified"),
        found.get("freezer"),
        found.get("systemd"),
        tuple(dict.fromkeys(others)),
    )


def create(host: RackHost, every: bool = False) -> tuple[Path, ...]:
    """Make the host's groups; returns the files a process writes itself into to join them."""
    found = hierarchies()
    made = []
    for top in found.every() if every else found.all():
        group = top / PARENT / host.machine
        group.mkdir(parents=True, exist_ok=True)
        _inherit(group.parent)
        _inherit(group)
        made.append(group / "cgroup.procs")
    return tuple(made)


def _inherit(group: Path) -> None:
    """Give a cpuset group the processors and memory of its parent: an empty one takes no process."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = group / name
        if file.exists() and not file.read_text(encoding="utf-8").strip():
            file.write_text((group.parent / name).read_text(encoding="utf-8"), encoding="utf-8")


def members(host: RackHost) -> tuple[int, ...]:
    """Every process of the host, the supervisor on the machine included."""
    found: set[int] = set()
    for top in hierarchies().all():
        for group in _groups(top / PARENT / host.machine):
            with suppress(OSError):
                procs = (group / "cgroup.procs").read_text(encoding="utf-8")
                # The kernel writes 0 for a process outside our PID namespace, and to kill 0 is to kill ourselves.
                found.update(int(pid) for pid in procs.split() if pid != "0")
    return tuple(sorted(found))


def _groups(top: Path) -> Iterator[Path]:
    """A group and all groups below it. The host's systemd may remove some during the walk, which os.walk tolerates."""
    return (Path(folder) for folder, _, _ in os.walk(top))


def init(host: RackHost) -> int | None:
    """The host's own process 1, by its number on this machine; its pods have one each, a namespace deeper."""
    for pid in members(host):
        with suppress(OSError):
            status = (PROC / str(pid) / "status").read_text(encoding="utf-8")
            numbers = status.partition("\nNSpid:")[2].partition("\n")[0].split()
            if len(numbers) == 2 and numbers[-1] == "1":
                return pid
    return None


def freeze(host: RackHost, frozen: bool) -> None:
    """Freeze every process of the host at once, or resume them."""
    with suppress(FileNotFoundError):
        _switch(host).write_text(_word(frozen), encoding="utf-8")


def is_frozen(host: RackHost) -> bool:
    """Whether the host was frozen."""
    try:
        return _switch(host).read_text(encoding="utf-8").strip() in {"FROZEN", "FREEZING", "1"}
    except FileNotFoundError:
        return False


def kill_all(host: RackHost, timeout: float = 20.0) -> None:
    """End every process of the host, frozen or hanging ones too. Raises DeadlineExceeded."""
    deadline = time.monotonic() + timeout
    while pids := members(host):
        # A frozen process dies only after it is thawed; freezing first prevents forks.
        freeze(host, True)
        for pid in pids:
            processes.kill(pid)
        freeze(host, False)
        if time.monotonic() > deadline:
            raise DeadlineExceeded(
                f"{host.machine}: {len(pids)} processes do not die", "they hang in the kernel"
            )
        time.sleep(0.05)


def remove(host: RackHost, timeout: float = 5.0) -> None:
    """Remove the host's groups, and the shared parent when it is empty; give up after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    for top in hierarchies().every():
        group = top / PARENT / host.machine
        while group.exists():
            for folder in sorted(_groups(group), reverse=True):
                with suppress(OSError):
                    folder.rmdir()
            if not group.exists() or time.monotonic() > deadline:
                break
            # The kernel keeps a group busy until its killed processes have ended, although it no longer lists them.
            kill_all(host)
            time.sleep(0.05)
        with suppress(OSError):
            group.parent.rmdir()


def _switch(host: RackHost) -> Path:
    found = hierarchies()
    if found.freezer:
        return found.freezer / PARENT / host.machine / "freezer.state"
    return (found.unified or Path("/sys/fs/cgroup")) / PARENT / host.machine / "cgroup.freeze"


def _word(frozen: bool) -> str:
    if hierarchies().freezer:
        return "FROZEN" if frozen else "THAWED"
    return "1" if frozen else "0"
