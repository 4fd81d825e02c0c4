"""Debian's own driver for real: the role's packages in a fresh Debian 12, and the kernel module they build.

It takes about ten minutes and half a gigabyte of packages, so it has a target of its own: make driver.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters.process import run
from appliance.config import data, document
from appliance.lab import mounts, network
from appliance.provision.sources import CODENAME, CONFINED, Sources, machine_sources

pytestmark = [pytest.mark.build, pytest.mark.slow]

ROOT = Path("/var/tmp/appliance-driver-build")
COMPONENTS = "main contrib non-free non-free-firmware"
HEADERS = "linux-headers-cloud-amd64"
LIMIT_SECONDS = 2400.0

INSIDE = """
set -e
mount -t proc proc /proc
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
install="apt-get -qq -y --no-install-recommends -o DPkg::Options::=--force-unsafe-io install"
apt-get -qq update
$install $HEADERS kmod $DRIVER
kernel=$(ls /lib/modules | grep cloud | tail -n 1)
dkms autoinstall -k "$kernel"
echo "KERNEL $kernel"
dkms status
echo "VERSION $(modinfo -k "$kernel" -F version nvidia-current)"
echo "MAGIC $(modinfo -k "$kernel" -F vermagic nvidia-current)"
echo "PACKAGE $(dpkg-query -W -f '${Version}' nvidia-kernel-dkms)"
"""


@pytest.fixture
def machine() -> Iterator[Path]:
    """A minimal Debian 12 with all components."""
    mounts.remove(ROOT)
    sources = machine_sources(lambda _: None)
    run(
        (*CONFINED, "mmdebstrap", "--mode=root", "--variant=minbase", *_settings(sources), CODENAME, str(ROOT), "-"),
        input="\n".join(_lines(sources)) + "\n",
        timeout=LIMIT_SECONDS,
    )  # fmt: skip
    (ROOT / "etc/apt/apt.conf.d/90carried").write_text(sources.apt_conf)
    (ROOT / "etc/resolv.conf").write_text(network.resolver())
    for name, text in sources.certificates.items():
        place = ROOT / "usr/local/share/ca-certificates" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    run(("chroot", str(ROOT), "update-ca-certificates"), timeout=120)
    yield ROOT
    mounts.unmount(ROOT)
    shutil.rmtree(ROOT)


def _settings(sources: Sources) -> Iterator[str]:
    yield "--include=ca-certificates"
    for line in sources.apt_conf.splitlines():
        yield f"--aptopt={line}"


def _lines(sources: Sources) -> list[str]:
    """The machine's archives with the components the driver is in."""
    return list(dict.fromkeys(f"{line.rpartition(' ')[0]} {COMPONENTS}" for line in sources.lines))


def _driver_packages() -> list[str]:
    """What the role installs from Debian's own packages."""
    content = document.read(data.root() / "roles/gpu/vars/Debian.yml").data
    assert isinstance(content, dict)
    found = content["__gpu_driver_entries"]["distribution"]["proprietary"]
    return [str(name) for name in found]


def test_the_roles_packages_build_the_module_for_debians_kernel(machine: Path) -> None:
    words = {"HEADERS": HEADERS, "DRIVER": " ".join(_driver_packages())}
    done = run(
        (*CONFINED, "--mount", "chroot", str(machine), "sh", "-c", INSIDE),
        env=words,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line[:1].isupper() and " " in line)  # fmt: skip
    print(done.stdout[-1500:])  # noqa: T201 - the figures are what this target is for
    assert said["PACKAGE"].startswith(f"{said['VERSION']}-")
    assert said["MAGIC"].startswith(f"{said['KERNEL']} ")
