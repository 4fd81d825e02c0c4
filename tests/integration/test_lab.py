"""A whole rack: it comes up, breaks as told, recovers, and goes away without a trace."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters.process import Completed, run, spawn
from appliance.config.load import load_site
from appliance.lab import (
    cgroups,
    fabric,
    faults,
    kernel_log,
    mounts,
    rack,
    ssh,
    status,
)
from appliance.lab.spec import Rack, RackHost, RackSpec, racks
from tests.integration.rack import PROGRAM, own_name, traces

pytestmark = pytest.mark.rack

NAME = own_name("lab")
PORT = "/var/lib/appliance-lab/sys/class/infiniband/mlx5_2/ports/1"


def _on(found: Rack, host: RackHost, *argv: str) -> Completed:
    return ssh.on_host(found, host, argv)


@pytest.fixture(scope="module")
def up() -> Iterator[Rack]:
    raised = rack.up(RackSpec(NAME, hosts=2, driver=True), lambda _: None)
    yield raised
    rack.down(NAME)
    assert traces(raised) == []


@pytest.fixture(scope="module")
def gpu(up: Rack) -> RackHost:
    return up.host("gpu-1")


def _state(found: Rack, host: RackHost) -> str:
    return next(h.state for h in status.read(found).hosts if h.name == host.name)


def _began(found: Rack, host: RackHost) -> str:
    """When the host's first process began, in ticks since the machine's start: field 22 of proc(5)'s stat."""
    return _on(found, host, "cat", "/proc/1/stat").stdout.rpartition(")")[2].split()[19]


def test_a_shell_of_a_host_is_fed_and_its_exit_code_passed_on(up: Rack) -> None:
    argv = (PROGRAM, "lab", "shell", "--name", NAME, "gpu-1", "--", "cat; id -un; exit 7")
    done = run(argv, input="word\n", check=False)
    assert (done.returncode, done.stdout) == (7, "word\nroot\n"), done.stderr


def test_up_again_changes_nothing(up: Rack, gpu: RackHost) -> None:
    before = _began(up, gpu)
    assert rack.up(RackSpec(NAME, hosts=2, driver=True), lambda _: None) == up
    assert _began(up, gpu) == before
    assert status.read(up).all_up


def test_gpu_host_shows_its_simulated_gpus(up: Rack, gpu: RackHost) -> None:
    script = (
        "import ctypes as c; n = c.CDLL('libnvidia-ml.so.1'); k = c.c_uint(); n.nvmlInit_v2();"
        "n.nvmlDeviceGetCount_v2(c.byref(k)); print(k.value)"
    )
    assert _on(up, gpu, "python3", "-c", f'"{script}"').stdout == "8\n"
    assert len(_on(up, gpu, "ls", "/dev/nvidia[0-7]").stdout.split()) == 8


def _smi(found: Rack, host: RackHost, names: str) -> list[str]:
    asked = f"nvidia-smi --query-gpu={names} --format=csv,noheader 2>/dev/null"
    return _on(found, host, asked).stdout.splitlines()


def test_gpu_faults_show_in_nvidia_smi_sysfs_and_the_kernel_log(up: Rack, gpu: RackHost) -> None:
    assert "Xid" not in _on(up, gpu, "cat", f"/{kernel_log.FILE}").stdout
    healthy = _smi(up, gpu, "name,uuid,pcie.link.width.current")
    assert len(healthy) == 8
    faults.apply(up, gpu, "pcie-narrow", ("1",))
    faults.apply(up, gpu, "gpu-off-bus", ("7",))
    hurt = _smi(up, gpu, "name,uuid,pcie.link.width.current")
    assert hurt == [
        line.replace(", 16", ", 8") if n == 1 else line for n, line in enumerate(healthy[:7])
    ]
    assert _gpus_on_bus(up, gpu) == 7
    assert "): 79, " in _on(up, gpu, "cat", f"/{kernel_log.FILE}").stdout
    faults.apply(up, gpu, "gpu-off-bus", ("7",), clear=True)
    faults.apply(up, gpu, "pcie-narrow", ("1",), clear=True)
    assert _smi(up, gpu, "name,uuid,pcie.link.width.current") == healthy
    assert _gpus_on_bus(up, gpu) == 8


def _gpus_on_bus(found: Rack, host: RackHost) -> int:
    vendors = "grep -l 0x10de /var/lib/appliance-lab/sys/bus/pci/devices/*/vendor"
    return len(_on(found, host, vendors).stdout.split())


def test_matrix_products_do_not_use_the_slow_reference_library(up: Rack, gpu: RackHost) -> None:
    assert "openblas" in _on(up, gpu, "readlink -f /usr/lib/*/libblas.so.3").stdout


def test_network_settings_come_back_after_a_reboot(up: Rack, gpu: RackHost) -> None:
    key = "net.ipv4.tcp_mtu_probing"
    before = cgroups.init(gpu)
    _on(up, gpu, f"echo {key} = 2 > /etc/sysctl.d/60-test.conf")
    _on(up, gpu, "systemctl", "reboot")
    deadline = time.monotonic() + 60
    while cgroups.init(gpu) in {before, None} or not ssh.answers(gpu):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    _on(up, gpu, "systemctl", "is-system-running", "--wait")
    assert _on(up, gpu, "sysctl", "-n", key).stdout == "2\n"


def test_exit_code_of_a_command_is_passed_on(up: Rack, gpu: RackHost) -> None:
    assert _on(up, gpu, "exit", "7").returncode == 7


def test_frozen_host_is_told_from_a_stopped_one(up: Rack, gpu: RackHost) -> None:
    faults.apply(up, gpu, "freeze")
    assert _state(up, gpu) == "frozen"
    assert not ssh.answers(gpu)
    faults.apply(up, gpu, "freeze", clear=True)
    assert _state(up, gpu) == "running"
    faults.apply(up, gpu, "power-off")
    assert _state(up, gpu) == "stopped"
    faults.apply(up, gpu, "power-off", clear=True)
    assert _on(up, gpu, "true").returncode == 0


def test_full_disk_is_full_on_that_host_only(up: Rack, gpu: RackHost) -> None:
    write = ("dd", "if=/dev/zero", "of=/var/tmp/file", "bs=64k", "count=1")
    faults.apply(up, gpu, "full-disk")
    assert "No space left" in _on(up, gpu, *write).stderr
    assert _on(up, up.host("head"), *write).returncode == 0
    faults.apply(up, gpu, "full-disk", clear=True)
    assert _on(up, gpu, *write).returncode == 0


def test_changed_host_key_is_refused(up: Rack, gpu: RackHost) -> None:
    faults.apply(up, gpu, "host-key")
    assert "HOST IDENTIFICATION HAS CHANGED" in _on(up, gpu, "true").stderr
    faults.apply(up, gpu, "host-key", clear=True)
    assert _on(up, gpu, "true").returncode == 0


def test_sysfs_follows_the_fabric(up: Rack, gpu: RackHost) -> None:
    assert _settles(up, gpu, "2: INIT")
    faults.apply(up, gpu, "port-down", ("mlx5_2",))
    assert _settles(up, gpu, "1: DOWN")
    faults.apply(up, gpu, "port-down", ("mlx5_2",), clear=True)
    assert _settles(up, gpu, "2: INIT")
    faults.apply(up, gpu, "port-errors", ("mlx5_2", "700"))
    assert _on(up, gpu, "cat", f"{PORT}/counters/symbol_error").stdout == "700\n"
    assert fabric.is_running(up)


def _settles(found: Rack, host: RackHost, state: str) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if _on(found, host, "cat", f"{PORT}/state").stdout.strip() == state:
            return True
        time.sleep(0.3)
    return False


@pytest.mark.parametrize(
    ("profile", "part", "name", "rate"),
    [
        ("cost-efficient", "", "NVIDIA A100 80GB PCIe", "25 Gb/sec (1X EDR)"),
        ("balanced", "h100-pcie", "NVIDIA H100 PCIe", "100 Gb/sec (4X EDR)"),
    ],
)
def test_cards_stand_with_ethernet_and_without_a_subnet(
    profile: str, part: str, name: str, rate: str
) -> None:
    raised = rack.up(RackSpec(f"{NAME}-cards", 2, profile, part, driver=True), lambda _: None)
    try:
        host = raised.host("gpu-1")
        assert _smi(raised, host, "name") == [name] * 4
        assert len(_on(raised, host, "ls", "/dev/nvidia[0-7]").stdout.split()) == 4
        ports = "cat /var/lib/appliance-lab/sys/class/infiniband/*/ports/1/"
        assert _on(raised, host, f"{ports}rate").stdout.splitlines() == [rate] * 2
        assert _on(raised, host, f"{ports}state").stdout.splitlines() == ["4: ACTIVE"] * 2
        assert _on(raised, host, "ls /usr/local/sbin/opensm").returncode
        assert not fabric.is_running(raised)
        assert status.read(raised).all_up
        assert load_site(raised.site_dir).profile.name == profile
    finally:
        rack.down(raised.name)
    assert traces(raised) == []


def test_hosts_in_a_plain_chroot_may_make_user_namespaces(tmp_path: Path) -> None:
    """Units with PrivateUsers= need them, and the kernel refuses them to whatever runs under chroot(2)."""
    view = str(tmp_path)
    script = f'mount --make-rprivate / && mount --bind / {view} && mount -t proc proc {view}/proc && exec "$@"'
    inside = ("unshare", "--mount", "sh", "-c", script, "sh", "chroot", view)
    assert run((*inside, "unshare", "--user", "true"), check=False).returncode
    enter = 'mount --bind / /mnt && mount -t proc proc /mnt/proc && exec "$@"'
    entered = (sys.executable, "-ISB", str(mounts.ENTER), "/mnt", "unshare", "--user", "ls", "/")
    done = run((*inside, "sh", "-c", enter, "sh", *entered))
    assert "etc" in done.stdout.split()


def test_a_disk_of_which_another_namespace_has_a_copy_goes_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "rack"
    image, disk = folder / "disk.img", folder / "disk"
    disk.mkdir(parents=True)
    image.touch()
    os.truncate(image, 1 << 20)
    run(("mke2fs", "-q", "-F", str(image)))
    run(("mount", "-o", "loop", str(image), str(disk)))
    pid = spawn(("unshare", "--mount", "sleep", "100"), log=tmp_path / "log")
    try:
        while Path(f"/proc/{pid}/comm").read_text() != "sleep\n":
            time.sleep(0.01)
        assert mounts.attached(folder) == (image,)
        mounts.remove(folder)
        assert mounts.attached(folder) == ()
        assert not folder.exists()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.mark.parametrize("patience", [0.0, 0.3, 0.8, 1.5])
def test_killed_up_leaves_nothing_behind_after_down(patience: float, tmp_path: Path) -> None:
    """Kill it so many seconds after the rack was written down, which is before anything is made."""
    name = f"{NAME}-killed"
    code = f"from appliance.lab import rack; rack.up(rack.RackSpec({name!r}, 2), print)"
    pid = spawn((sys.executable, "-c", code), log=tmp_path / "log")
    deadline = time.monotonic() + 300
    while not (found := rack.load(name)):
        assert time.monotonic() < deadline, (tmp_path / "log").read_text()
        time.sleep(0.01)
    time.sleep(patience)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert rack.down(name)
    assert traces(found) == []
    assert not rack.down(name)
    assert found not in racks()
