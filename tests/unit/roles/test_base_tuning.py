"""appliance-tuning on a tree in sysfs's format: what it sets, what it gives back, and what it leaves alone."""

import sys
from pathlib import Path

import pytest

from appliance.adapters.process import Completed, run
from appliance.probe.collectors.tuning import access_control, device_control
from tests.support import role_programs
from tests.support.pci import GPU, HCA, ROOT_PORT, SWITCH, pci_host

PROGRAM = role_programs.ROOT / "roles/base/files/usr/local/sbin/appliance-tuning"
SETPCI = f"""#!{sys.executable} -IS
# setpci -s DEVICE REGISTER.w[=VALUE:MASK], on the tree's configuration spaces (setpci(8)).
import struct, sys
device, asked = sys.argv[2:]
register, _, change = asked.partition("=")
path = "@SYS@/bus/pci/devices/" + device + "/config"
space = bytearray(open(path, "rb").read())
at, name = None, register.partition("+")[0]
if name == "CAP_EXP":
    at = space[0x34]
    while at and space[at] != 0x10:
        at = space[at + 1]
elif name == "ECAP_ACS":
    at = 0x100
    while at and struct.unpack_from("<H", space, at)[0] != 0x0D:
        at = struct.unpack_from("<I", space, at)[0] >> 20
if not at:
    sys.exit("setpci: " + device + ": capability not found")
at += int(register.partition("+")[2].partition(".")[0], 16)
now = struct.unpack_from("<H", space, at)[0]
if change:
    value, mask = (int(part, 16) for part in change.split(":"))
    struct.pack_into("<H", space, at, now & ~mask | value & mask)
    open(path, "wb").write(space)
else:
    print(format(now, "04x"))
"""


class Host:
    """A host whose /sys, /run and settings lie in a folder."""

    def __init__(self, at: Path) -> None:
        self.at, self.sys = at, at / "sys"
        pci_host(at)
        tools = at / "bin"
        tools.mkdir()
        (tools / "setpci").write_text(SETPCI.replace("@SYS@", str(self.sys)))
        (tools / "setpci").chmod(0o755)
        text = PROGRAM.read_text()
        for line, there in (
            ("settings=/etc/appliance/tuning\n", f"settings={at}/tuning\n"),
            ("run=/run/appliance-tuning\n", f"run={at}/run\n"),
            ("sys=/sys\n", f"sys={self.sys}\n"),
            (" PATH=", f" PATH={tools}:"),
        ):
            assert line in text
            text = text.replace(line, there)
        self.program = text

    def run(self, verb: str, **settings: str) -> Completed:
        if verb == "set":
            lines = "".join(f"{name} {value}\n" for name, value in settings.items())
            (self.at / "tuning").write_text(lines)
        return run(("sh", "-c", self.program, "appliance-tuning", verb), check=False)

    def read(self, path: str) -> str:
        return (self.sys / path).read_text().strip()

    def config(self, device: str) -> str:
        return str(self.sys / "bus/pci/devices" / device / "config")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


GOVERNOR = "devices/system/cpu/cpufreq/policy1/scaling_governor"
LATENCY = "devices/system/cpu/cpu1/power/pm_qos_resume_latency_us"
PAGES = "kernel/mm/transparent_hugepage/enabled"
WHOLE = {
    "governor": "performance",
    "huge_pages": "madvise",
    "idle_latency": "20",
    "read_request": "4096",
    "acs": "off",
}


def test_everything_is_set_once_and_given_back(host: Host) -> None:
    before = device_control(host.config(HCA))
    done = host.run("set", **WHOLE)
    assert (done.returncode, done.stderr) == (0, "")
    assert host.read(GOVERNOR) == "performance"
    assert host.read(LATENCY) == "20"
    assert host.read(PAGES) == "madvise"
    control = device_control(host.config(HCA))
    assert control is not None
    assert (control >> 12 & 7, control & 0x0FFF) == (5, (before or 0) & 0x0FFF)
    for bridge in (ROOT_PORT, SWITCH):
        assert access_control(host.config(bridge)) == 0x10, "upstream forwarding is left alone"
    # As a kernel shows what was written to it.
    (host.sys / PAGES).write_text("always [madvise] never\n")
    assert host.run("set", **WHOLE).stdout == ""
    back = host.run("restore")
    assert (back.returncode, back.stderr) == (0, "")
    assert (host.read(GOVERNOR), host.read(LATENCY)) == ("powersave", "0")
    assert host.read(PAGES) == "always"
    assert device_control(host.config(HCA)) == before
    assert access_control(host.config(SWITCH)) == 0x1D


def test_what_is_no_longer_asked_gets_back_what_was_found_first(host: Host) -> None:
    host.run("set", governor="performance", acs="off")
    (host.sys / GOVERNOR).write_text("ondemand\n")
    host.run("set", governor="performance", acs="off")
    assert host.read(GOVERNOR) == "performance"
    host.run("set", acs="off")
    assert host.read(GOVERNOR) == "powersave"
    assert access_control(host.config(SWITCH)) == 0x10


def test_a_gpu_keeps_its_read_requests(host: Host) -> None:
    before = device_control(host.config(GPU))
    host.run("set", read_request="4096")
    assert device_control(host.config(GPU)) == before


def test_a_machine_without_any_of_it_is_left_as_it_is(tmp_path: Path) -> None:
    host = Host(tmp_path / "other")
    for path in (*host.sys.glob("devices/system/cpu/*/*"), host.sys / PAGES):
        _remove(path)
    _remove(host.sys / "bus/pci/devices")
    done = host.run("set", **WHOLE)
    assert (done.returncode, done.stdout) == (0, "")
    assert host.run("restore").stdout == ""


def _remove(path: Path) -> None:
    run(("rm", "-rf", str(path)))


def test_an_unknown_word_says_how_it_is_used(host: Host) -> None:
    done = host.run("start")
    assert done.returncode == 2
    assert done.stderr == "usage: appliance-tuning set|restore\n"
