"""Bare machines get their system: virtual ones, by a Redfish controller of others, an image built here, and real firmware.

A module's story is told in order: an install takes minutes on emulated processors.
"""

import json
import subprocess  # noqa: TID251 - the program is killed at its work
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from appliance.adapters import signing
from appliance.adapters.process import run
from appliance.config import data
from appliance.lab.hall import PORT
from appliance.provision import dhcp, manifest
from tests.support.dhcp_server import plug, stranger
from tests.support.failing_controller import ALWAYS, Ill, ill
from tests.support.machine_hall import NETWORK, Machine, hall, shelf
from tests.support.machine_site import INSTALL_S, Hall, await_ssh, kept_image

pytestmark = pytest.mark.machines

PARTITION_TABLE = b"EFI PART"
WRITES = "writing percent="


class Bare(Hall):
    """``one`` is as it should be; ``two`` has two disks, ``small`` one that is too small; ``dead`` never starts; ``ill``'s controller is; ``cut`` is hurt."""

    def __init__(self, folder: Path, image: Path) -> None:
        self.one = Machine("one", 1, folder)
        self.two = Machine("two", 2, folder, disks=2)
        self.small = Machine("small", 3, folder, disk_gb=1)
        self.dead = Machine("dead", 4, folder)
        self.other = Machine("other", 5, folder)
        self.cut = Machine("cut", 6, folder, disks=2)
        self.ill = Machine("ill", 7, folder)
        bad = (self.two, self.small, self.dead, self.other, self.cut, self.ill)
        roles = dict.fromkeys(bad, "gpu")
        super().__init__(folder, image, {self.one: "control, storage, login", **roles})
        self.system_disks = {"cut": "a"}

    @contextmanager
    def behind(self, machine: Machine, times: int) -> Iterator[Ill]:
        """The site's controller of a machine is one that is ill for a while."""
        with ill(machine, self.pem, times) as server:
            known, port = f"{machine.controller}:{PORT}", server.server_address[1]
            there = f"{machine.controller}, port: "
            with (
                self.edited("site.yml", f"{there}{PORT}", f"{there}{port}"),
                self.edited("known_bmcs", f"{known} ", f"{machine.controller}:{port} "),
            ):
                yield server

    @contextmanager
    def cutting(self, machine: Machine) -> Iterator[None]:
        """Its power is cut as soon as it writes, once."""
        left = threading.Event()
        told = machine.console.count(WRITES)

        def work() -> None:
            while not left.wait(0.5):
                if machine.console.count(WRITES) > told + 1:
                    self.order(machine, "ForceOff")
                    return

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            left.set()
            thread.join()

    @contextmanager
    def installing(self, machine: Machine) -> Iterator["Installing"]:
        """The program, at the installation of one machine; it does not outlast the test that started it."""
        command = self.command("provision", "install", machine.name, "--yes", "--json")
        file = self.folder / f"{machine.name}.json"
        with file.open("wb") as said:
            running = subprocess.Popen(command, stdout=said, stderr=said)
        try:
            yield Installing(running, file)
        finally:
            running.kill()
            running.wait()


@dataclass(frozen=True)
class Installing:
    """The program at work, and the file of what it says."""

    running: "subprocess.Popen[bytes]"
    file: Path

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Waits while it works."""
        ends = time.monotonic() + INSTALL_S
        while not holds():
            assert self.running.poll() is None, f"it ended before: {what}: {self.file.read_text()}"
            assert time.monotonic() < ends, f"not within {INSTALL_S:g} s: {what}"
            time.sleep(0.5)


def copied(image: Path, folder: Path) -> Path:
    """Another folder of the same files, of which one may be replaced."""
    copy = folder / "image"
    copy.mkdir()
    for file in image.iterdir():
        (copy / file.name).symlink_to(file)
    return copy


def start_of(machine: Machine) -> bytes:
    """The first MiB of its disk, where the partition table lies."""
    head = machine.folder / "head"
    disk = str(machine.disk)
    run(("qemu-img", "dd", "-U", "-f", "qcow2", "-O", "raw", "bs=1M", "count=1", f"if={disk}", f"of={head}"))  # fmt: skip
    return head.read_bytes()


@pytest.fixture(scope="module")
def image() -> Iterator[Path]:
    with kept_image() as folder:
        yield folder


@pytest.fixture(scope="module")
def raised(tmp_path_factory: pytest.TempPathFactory, image: Path) -> Iterator[Bare]:
    made = Bare(tmp_path_factory.mktemp("hall"), image)
    with hall(made.folder, tuple(made.machines)) as found:
        made.write(found)
        yield made


def test_a_wrong_password_switches_nothing(raised: Bare) -> None:
    with raised.edited("site.yml", "secrets/bmc}", "secrets/wrong}"):
        found = raised.install("one")["one"]
    assert found["state"] == "failed"
    assert "rejected user" in str(found["cause"])
    assert raised.one.console == ""


def test_an_image_signed_by_a_stranger_goes_to_no_machine(raised: Bare, tmp_path: Path) -> None:
    folder = copied(raised.image, tmp_path)
    for name in ("stranger", "builder"):
        run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)))
    key = signing.key_of(tmp_path / "stranger")
    signing.sign(key, folder / manifest.MANIFEST, manifest.NAMESPACE)
    (raised.site / "signers").write_text(f"builder {(tmp_path / 'builder.pub').read_text()}")
    named = f"image: {folder}, signers: signers}}"
    with raised.edited("site.yml", f"image: {raised.image}}}", named):
        done = raised.appliance("provision", "install", "one", "--yes")
    assert done.returncode == 2
    assert "is not a signature of manifest.json by any of" in done.stderr
    assert raised.one.orders == 0


def test_each_fails_by_itself_and_the_bare_machine_gets_its_system(raised: Bare) -> None:
    """Of ``cut`` the power is lost while its disk is written; the program lives on."""
    before = {machine: machine.allocated for machine in (raised.two, raised.small)}
    raised.dead.disk.unlink()
    known = raised.site / "known_bmcs"
    pin = known.read_text().splitlines()[0].split("SHA256:")[1]
    of_other = f"{raised.other.controller}:{PORT} SHA256:"
    with (
        raised.edited("known_bmcs", f"{of_other}{pin}", f"{of_other}{'0' * 64}"),
        raised.behind(raised.one, times=2) as recovers,
        raised.behind(raised.ill, times=ALWAYS),
        raised.cutting(raised.cut),
    ):
        found = raised.install("one", "two", "small", "dead", "other", "ill", "cut")

    assert (found["one"]["state"], found["one"]["cause"]) == ("installed", "")
    assert found["one"]["verified_medium"] is True
    assert "dhcp=none" in raised.one.console
    assert found["one"]["foreign_dhcp"] == []

    told = {name: (str(found[name]["cause"]), str(found[name]["fix"])) for name in found}
    assert "2 disks could be the system disk" in told["two"][0]
    assert "hosts[].disk" in told["two"][1]
    assert "of 1 GB" in told["small"][0]
    assert "is smaller than the image" in told["small"][0]
    assert "differs from the pinned one" in told["other"][0]
    assert told["other"][1].endswith(f"appliance trust --site {raised.site} --bmc")
    assert raised.other.orders == 0
    assert set(recovers.failed.values()) == {2}
    assert "answers 500: out of memory" in told["ill"][0]
    assert "restart the BMC" in told["ill"][1]
    assert raised.ill.console == ""
    assert told["dead"][0]
    assert told["dead"][1]
    assert raised.dead.console == ""
    assert "its last message was: writing the image" in told["cut"][0]
    assert PARTITION_TABLE not in start_of(raised.cut)
    assert {machine: machine.allocated for machine in before} == before
    assert all("\n" not in cause + fix for cause, fix in told.values())


def test_it_is_a_system_of_its_own(raised: Bare) -> None:
    assert raised.ssh(raised.one, "hostname; findmnt -no FSTYPE /; systemctl is-system-running --wait") == "one\next4\nrunning"  # fmt: skip
    grown = int(raised.ssh(raised.one, "findmnt -bno SIZE /"))
    assert grown > 6e9
    secure_boot = (
        "od -An -tu1 -j4 /sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    )
    assert raised.ssh(raised.one, secure_boot) == "1"
    assert raised.ssh(raised.one, "getent shadow root").split(":")[1] in ("*", "!")


def test_what_runs_the_image_is_left_alone(raised: Bare) -> None:
    before, orders = raised.boot(raised.one), raised.one.orders
    assert raised.install("one")["one"]["state"] == "runs this image"
    assert raised.boot(raised.one) == before
    assert raised.one.orders == orders


def test_another_image_than_the_named_one_leaves_a_disk_that_does_not_boot(raised: Bare, tmp_path: Path) -> None:  # fmt: skip
    folder = copied(raised.image, tmp_path)
    site = raised.edited("site.yml", str(raised.image), str(folder))
    before = len(raised.cut.console)
    with site, raised.installing(raised.cut) as program:
        # The command has compared it, and the machine does so once more.
        program.until(lambda: len(raised.cut.console) > before, "it starts")
        changed = bytearray((folder / manifest.DISK).read_bytes())
        changed[len(changed) // 2] ^= 1
        (tmp_path / "changed").write_bytes(changed)
        (tmp_path / "changed").replace(folder / manifest.DISK)
        assert program.running.wait(INSTALL_S) == 1
        assert "the received image has digest" in program.file.read_text()
    assert PARTITION_TABLE not in start_of(raised.cut)


def test_the_control_host_is_lost_while_it_writes(raised: Bare) -> None:
    told = raised.cut.console.count(WRITES)
    with raised.installing(raised.cut) as program:
        program.until(lambda: raised.cut.console.count(WRITES) > told + 1, "it writes")
    assert PARTITION_TABLE not in start_of(raised.cut)
    done = raised.appliance("provision", "install", "cut", "--yes")
    assert done.returncode == 2
    assert "it is on, but does not answer SSH" in done.stderr
    off = raised.appliance("power", "off", "cut", "--hard", "--force", "--yes")
    assert off.returncode == 0, off.stderr
    assert PARTITION_TABLE not in start_of(raised.cut)


def test_it_is_installed_afterwards_beside_a_dhcp_server_that_nobody_named(raised: Bare, tmp_path: Path) -> None:  # fmt: skip
    with (
        stranger(tmp_path, "meant", str(NETWORK[201]), str(NETWORK[210])) as meant,
        stranger(tmp_path, "strange", str(NETWORK[202]), raised.dead.address) as strange,
        raised.edited("site.yml", "gateway: ", f"dhcp: [{meant.address}], gateway: "),
    ):
        for server in (meant, strange):
            plug(shelf(raised.folder).bridge, server)
        done = raised.appliance("provision", "install", "cut", "--yes", "--json")
        said = {server: server.said.read_text() for server in (meant, strange)}
    (host,) = json.loads(done.stdout)["hosts"]
    assert (host["state"], host["cause"]) == ("installed", "")
    told = (
        "another DHCP server that is not listed in the site answers in network management: "
        f"{strange.address}, MAC address {strange.mac}; it offers {strange.offers}, the address of dead"
    )
    assert host["foreign_dhcp"] == [told]
    assert done.stderr.splitlines() == [f"warning: cut: {told}: {dhcp.REMEDY}"]
    for server, words in said.items():
        assert f"{server.address} {server.mac} {server.offers}" in raised.cut.console
        assert f"DHCPDISCOVER(eth0) {raised.cut.mac}" in words
        assert "DHCPOFFER" in words
        assert "DHCPREQUEST" not in words
    assert PARTITION_TABLE in start_of(raised.cut)
    addresses = "ip -4 -o address show scope global | awk '{print $4}'; hostname"
    assert raised.ssh(raised.cut, addresses) == f"{raised.cut.address}/24\ncut"


def test_a_machine_that_starts_from_its_old_disk_is_told(raised: Bare) -> None:
    """Its firmware knows of the first disk alone; the system is written to the second."""
    raised.ssh(raised.cut, "touch /root/theirs; sync")
    key = raised.ssh(raised.cut, "cat /etc/ssh/ssh_host_ed25519_key.pub")
    known = raised.site / "known_hosts"
    text = known.read_text()
    with raised.edited("site.yml", "serial: cut-a", "serial: cut-b"):
        found = raised.install("--reinstall", "cut", "--force")["cut"]
    assert found["state"] == "failed"
    assert "differs from the key that its installer created" in str(found["cause"])
    assert "boot order" in str(found["fix"])
    known.write_text(text)
    assert raised.ssh(raised.cut, "ls /root/theirs; cat /etc/ssh/ssh_host_ed25519_key.pub") == f"/root/theirs\n{key}"  # fmt: skip


def test_a_machine_that_is_on_and_does_not_answer_is_not_touched(raised: Bare) -> None:
    known = raised.site / "known_hosts"
    text = known.read_text()
    known.write_text("")
    done = raised.appliance("provision", "install", "one", "--yes")
    known.write_text(text)
    assert done.returncode == 2
    assert "it is on, but does not answer SSH" in done.stderr
    assert raised.ssh(raised.one, "hostname") == "one"


def test_a_disk_that_carries_a_system_is_not_written_to(raised: Bare) -> None:
    key = raised.ssh(raised.one, "cat /etc/ssh/ssh_host_ed25519_key.pub")
    raised.ssh(raised.one, "touch /root/theirs; sync")
    known = raised.site / "known_hosts"
    text = known.read_text()
    known.write_text("")
    off = raised.appliance("power", "off", "one", "--hard", "--force", "--yes")
    assert off.returncode == 0
    found = raised.install("one")["one"]
    known.write_text(text)
    assert found["state"] == "failed"
    assert "carries a partition table (gpt)" in str(found["cause"])
    assert raised.appliance("power", "on", "one", "--yes").returncode == 0
    await_ssh(raised.one)
    assert raised.ssh(raised.one, "ls /root/theirs; cat /etc/ssh/ssh_host_ed25519_key.pub") == f"/root/theirs\n{key}"  # fmt: skip


def test_bios_settings_are_set_by_a_start_and_the_machine_is_off_again(raised: Bare) -> None:
    """The controller is the emulator's own, which keeps settings in the machine's definition; firmware reads none of them."""
    starts = raised.two.orders
    shown = raised.appliance("bios", "show", "two")
    assert shown.returncode == 0, shown.stderr
    assert "  bios:\n" in shown.stdout
    assert "ProcTurboMode: Enabled" in shown.stdout
    profile = raised.site / "mine.yml"
    wanted = 'servers: [{model: "*", bios: {ProcTurboMode: Disabled, QuietBoot: "true"}}]'
    standard = (data.root() / "profiles/hpc.yml").read_text()
    assert "servers: []" in standard
    profile.write_text(standard.replace("servers: []", wanted))
    mine = ("--profile", str(profile))
    before = raised.appliance("bios", "status", "two", *mine)
    assert before.returncode == 1
    assert "ProcTurboMode: Enabled -> Disabled" in before.stdout
    done = raised.appliance("bios", "apply", "two", "--yes", *mine)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "matches the profile, 2 settings" in done.stdout
    assert raised.two.orders > starts
    assert "Off" in raised.appliance("power", "status", "two").stdout
    starts = raised.two.orders
    assert raised.appliance("bios", "apply", "two", "--yes", *mine).returncode == 0
    assert raised.two.orders == starts
