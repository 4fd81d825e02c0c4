"""A kernel of its own with emulated NVMe drives behind PCIe ports that count errors: the probe asks the real driver, and reads real counters.

The machine runs from the installer's ramdisk, where Python and the kernel's modules lie, and its last line is what the probe found.
"""

import json
import socket
import subprocess  # noqa: TID251 - the machine is spoken to while it works
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from appliance.checks.check import View
from appliance.models.facts import HostFacts
from appliance.models.result import Status
from appliance.probe import bundle
from appliance.provision.manifest import KERNEL, RAMDISK
from appliance.watch import rules
from tests.support.judging import said_by
from tests.support.machine_site import kept_image
from tests.support.profiles import profile_of
from tests.support.sites import site_of

pytestmark = pytest.mark.machines

READY, BEGIN = "appliance: ready", "appliance: facts "
PATIENCE_S = 300.0
SPENT = 0x09
"""What the second drive warns of: spare blocks below its threshold, and read-only."""
LOST = 3
"""Transfers that a port counts as lost: QEMU of before 8.0 passes corrected errors to nobody."""
LOOK = f"""import json, sys
sys.path.insert(0, "/opt/probe.zip")
from appliance.probe.__main__ import answer
print("{BEGIN}" + json.dumps(answer(b'{{"areas": ["edac", "aer", "nvme", "disks"]}}')))
"""
SCRIPT = f"""mountroot() {{
	wait_for_udev 30
	mount -t devtmpfs dev /dev 2>/dev/null
	echo "{READY}" > /dev/console
	sleep 10
	python3 -I -S /opt/look.py > /dev/console 2>&1
	sleep 1
	echo o > /proc/sysrq-trigger
	sleep 60
}}
mount_top() {{ :; }}
mount_premount() {{ :; }}
mount_bottom() {{ :; }}
"""


def archived(files: dict[str, bytes]) -> bytes:
    """Files as a cpio archive that the kernel adds to its ramdisk."""
    found = b""
    for name, content in {**files, "TRAILER!!!": b""}.items():
        fields = (0, 0o100755, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + name.encode() + b"\0"
        found += head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4)
    return found


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostFacts]:
    folder = tmp_path_factory.mktemp("board")
    with kept_image() as image:
        ramdisk = (image / RAMDISK).read_bytes()
        own = {
            "scripts/board": SCRIPT.encode(),
            "opt/look.py": LOOK.encode(),
            "opt/probe.zip": bundle.program(),
        }
        (folder / "ramdisk").write_bytes(ramdisk + bytes(-len(ramdisk) % 512) + archived(own))
        yield _run(folder, image / KERNEL)


def _run(folder: Path, kernel: Path) -> HostFacts:
    devices = []
    for index, warning in enumerate((0, SPENT)):
        (folder / f"drive{index}").write_bytes(bytes(1 << 20))
        drive = f"file={folder}/drive{index},format=raw,if=none,id=drive{index}"
        devices += ["-device", f"pcie-root-port,id=port{index},bus=pcie.0,chassis={index + 1}"]
        devices += ["-drive", drive, "-device"]
        devices += [
            f"nvme,drive=drive{index},serial=board{index},bus=port{index},smart_critical_warning={warning}"
        ]
    words = "console=ttyS0 boot=board quiet panic=1"
    monitor, console = folder / "monitor", folder / "console"
    machine = subprocess.Popen(
        [
            *("qemu-system-x86_64", "-machine", "q35", "-m", "1024", "-display", "none"),
            *("-no-reboot", "-nic", "none", "-serial", f"file:{console}"),
            *("-monitor", f"unix:{monitor},server=on,wait=off"),
            *("-kernel", str(kernel), "-initrd", str(folder / "ramdisk"), "-append", words),
            *devices,
        ]
    )
    try:
        until(console, READY)
        for _ in range(LOST):
            ask(monitor, "pcie_aer_inject_error port0 COMP_TIME")
            time.sleep(1)
        machine.wait(PATIENCE_S)
    finally:
        machine.kill()
        machine.wait()
    print(text(console)[-4000:])  # noqa: T201
    line = next(part for part in text(console).splitlines() if BEGIN in part)
    return HostFacts.model_validate(json.loads(line.partition(BEGIN)[2]))


def text(console: Path) -> str:
    return console.read_text(errors="replace") if console.exists() else ""


def until(console: Path, word: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while word not in text(console):
        assert time.monotonic() < deadline, text(console)[-2000:]
        time.sleep(0.2)


def ask(monitor: Path, command: str) -> None:
    """QEMU's own console, which answers with a prompt."""
    with socket.socket(socket.AF_UNIX) as way:
        way.settimeout(10)
        way.connect(str(monitor))
        way.sendall(f"{command}\n".encode())
        time.sleep(0.3)
        way.recv(65536)


def test_real_drivers_give_the_health_page_of_each_drive(said: HostFacts) -> None:
    assert said.nvme is not None
    assert said.errors.get("nvme") is None
    assert (said.nvme.drives, said.nvme.unasked) == (2, ())
    (drive,) = said.nvme.notable
    assert drive.warning == SPENT
    assert {disk.serial for disk in said.disks} >= {"board0", "board1"}
    view = View(profile_of(), site_of("head", "gpu-1"), {"gpu-1": said})
    (told,) = said_by("base.nvme", view, "gpu-1")
    assert (told.status, told.target) == (Status.FAIL, f"gpu-1/{drive.name}")
    assert "the drive is read-only" in told.cause
    facts = {"nvme": said.model_dump(mode="json")["nvme"]}
    nothing = {
        "gpus": 0,
        "ports": 0,
        "xids": "",
        "xid_hours": 1,
        "devices": [],
        "fabric_manager": False,
    }
    assert [cause.check for cause in rules.causes(facts, nothing)] == ["base.nvme"]


def test_a_port_counts_what_is_lost_on_its_link(said: HostFacts) -> None:
    assert said.pcie_errors is not None
    (port,) = said.pcie_errors.errors
    assert port.device.startswith("bridge above nvme")
    assert (port.fatal, port.nonfatal, port.correctable) == (0, LOST, 0)
    # A minute before there were none.
    then = datetime.fromisoformat(said.taken) - timedelta(minutes=5)
    none = said.pcie_errors.model_copy(update={"errors": ()})
    changes = {"taken": then.isoformat(), "pcie_errors": none}
    before = {"gpu-1": said.model_copy(update=changes)}
    view = View(profile_of(), site_of("head", "gpu-1"), {"gpu-1": said}, before=before)
    told = [r for r in said_by("base.pcie_errors", view, "gpu-1") if r.status is Status.WARN]
    assert [r.target for r in told] == [f"gpu-1/{port.at}"]


def test_a_virtual_machine_without_a_driver_for_its_memory_is_not_called_good(
    said: HostFacts,
) -> None:
    assert said.memory_errors is not None
    assert said.memory_errors.controllers == 0
    view = View(profile_of(), site_of("head", "gpu-1"), {"gpu-1": said})
    (told,) = said_by("base.memory_errors", view, "gpu-1")
    assert (told.status, told.required) == (Status.NOT_ASSESSED, False)
