"""A fresh Debian 12 with git and make, and nothing else: `make deploy` in a clone ends well, and soon enough.

What it deploys is looked at by the commands that it prints itself. Then the variant without Kubernetes, and the README's
commands for a site of one's own, on plain hosts of that machine, typed twice.

It takes up to an hour, so it has a target of its own: make fresh.
"""

import os
import re
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from appliance.adapters.process import Completed, run
from appliance.config import data
from appliance.lab import cgroups, mounts, network, spec
from appliance.provision.sources import CODENAME, CONFINED, Sources, machine_sources

pytestmark = [pytest.mark.fresh, pytest.mark.rack, pytest.mark.slow]

MACHINE = Path("/var/tmp/appliance-fresh-machine")
PACKAGES = ("ca-certificates", "git", "make")
PIP_SETTINGS = (Path("/etc/pip.conf"), Path.home() / ".config/pip/pip.conf")
PROXIES = {"http_proxy", "https_proxy", "no_proxy"}
CPUS = 2
COLD_MINUTES, WARM_MINUTES, AGAIN_SECONDS = 18, 5, 10
LIMIT_SECONDS = 5400.0

INSIDE = """
step() {
  name=$1; shift
  began=$(date +%s)
  "$@" && code=0 || code=$?
  echo "STEP $name $code $(($(date +%s) - began))"
}
mount -t proc proc /proc
cd /root
git clone -q file:///mnt appliance
cd appliance
step cold make deploy
step down make down
step warm make deploy
step again make deploy
step look .venv/bin/python -m tests.integration.complete_rack
step gone make down
step quick .venv/bin/appliance deploy --profile hpc --without kubernetes --yes
step over make down
step plain .venv/bin/appliance lab up --plain --count 4
step own .venv/bin/python -m tests.integration.own_site rack /root/own
step cleared make down
"""


@dataclass(frozen=True)
class Step:
    """One command on the machine: its exit code and the seconds it took."""

    code: int
    seconds: int


@pytest.fixture
def machine() -> Iterator[Path]:
    """The root of a minimal system; what an interrupted test left is cleared away first."""
    _clear()
    sources = machine_sources(lambda _: None)
    _bootstrap(sources)
    for name, text in sources.certificates.items():
        _write(f"usr/local/share/ca-certificates/{name}", text)
    run(("chroot", str(MACHINE), "update-ca-certificates"), timeout=120)
    _write("etc/apt/sources.list", "\n".join(sources.lines) + "\n")
    _write("etc/apt/apt.conf.d/90carried", sources.apt_conf)
    _write("etc/resolv.conf", network.resolver())
    for file in (file for file in PIP_SETTINGS if file.exists()):
        _write(str(file).lstrip("/"), file.read_text())
    yield MACHINE
    _clear()


def _bootstrap(sources: Sources) -> None:
    settings = (f"--aptopt={line}" for line in sources.apt_conf.splitlines())
    wanted = f"--include={','.join(PACKAGES)}"
    target = (wanted, CODENAME, str(MACHINE), "-")
    run(
        (*CONFINED, "mmdebstrap", "--mode=root", "--variant=minbase", *settings, *target),
        input="\n".join(sources.lines) + "\n",
        timeout=600,
    )


def _write(path: str, text: str) -> None:
    (MACHINE / path).parent.mkdir(parents=True, exist_ok=True)
    (MACHINE / path).write_text(text)


def _clear() -> None:
    """What stays of a machine that was killed: its rack's bridge, rules and control groups, and its tree."""
    if rack := spec.read(MACHINE / "var/lib/appliance/lab/rack/rack.json"):
        network.lower_bridge(rack)
        for host in rack.hosts:
            cgroups.remove(host)
    mounts.remove(MACHINE)


def _environment() -> list[str]:
    """A login's variables, and what this machine needs to reach package registries."""
    carried = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("PIP_") or name.lower() in PROXIES or name == "SSL_CERT_FILE"
        if not value.startswith("/") or (MACHINE / value.lstrip("/")).exists()
    }
    own = {"HOME": "/root", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    return [f"{name}={value}" for name, value in (carried | own).items()]


def _live_on(machine: Path, log: Path) -> Completed:
    """Clone and deploy in the machine's own namespaces: whatever happens, nothing of it runs or is mounted after."""
    place = shlex.quote(str(machine))
    enter = shlex.join(("chroot", str(machine), "env", "-i", *_environment(), "sh", "-euc", INSIDE))
    outside = f"""
exec > {shlex.quote(str(log))} 2>&1
mount --make-rprivate /
mount --rbind /sys {place}/sys
mount --rbind /dev {place}/dev
mount --bind -o ro {shlex.quote(str(data.root()))} {place}/mnt
{enter}
"""
    cpus = sorted(os.sched_getaffinity(0))[:CPUS]
    pinned = ("taskset", "--cpu-list", ",".join(str(cpu) for cpu in cpus))
    return run(
        (*pinned, *CONFINED, "--mount", "sh", "-euc", outside), timeout=LIMIT_SECONDS, check=False
    )


def _steps(said: str) -> dict[str, Step]:
    found = re.findall(r"^STEP (\w+) (\d+) (\d+)$", said, re.MULTILINE)
    return {name: Step(int(code), int(seconds)) for name, code, seconds in found}


def test_deploys_from_nothing_and_again(
    machine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "machine.log"
    before = os.getloadavg()[0]
    began = time.monotonic()
    with capsys.disabled():
        print(f"\nfresh machine in {machine}, log {log}")  # noqa: T201 - it takes minutes
    done = _live_on(machine, log)
    steps = _steps(log.read_text(errors="replace"))
    with capsys.disabled():
        for name, step in steps.items():
            print(f"  {name:<7} exit {step.code}  {step.seconds / 60:.1f} min")  # noqa: T201
        load = f"load {before:.1f} before, {os.getloadavg()[2]:.1f} over the last 15 min"
        print(f"  {CPUS} CPUs, {load}, {(time.monotonic() - began) / 60:.1f} min in all")  # noqa: T201
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-60:])
    assert done.returncode == 0, tail
    assert {name: step.code for name, step in steps.items()} == {
        "cold": 0,
        "down": 0,
        "warm": 0,
        "again": 0,
        "look": 0,
        "gone": 0,
        "quick": 0,
        "over": 0,
        "plain": 0,
        "own": 0,
        "cleared": 0,
    }, tail
    # Once, or the first run was not cold or the second not warm.
    assert log.read_text(errors="replace").count("building the image") == 1
    assert steps["cold"].seconds <= COLD_MINUTES * 60
    assert steps["warm"].seconds <= WARM_MINUTES * 60
    assert steps["quick"].seconds <= WARM_MINUTES * 60
    assert steps["again"].seconds <= AGAIN_SECONDS
