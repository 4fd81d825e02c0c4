"""Bare machines get their system: virtual ones, by a Redfish controller of others, an image built here, and real firmware.

A module's story is told in order: an install takes minutes on emulated processors.
"""

import json
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from appliance.adapters.process import Completed, run
from tests.machine_hall import CONTROLLER_PORT, NETWORK, Machine, hall, lacking
from tests.redfish_server import PASSWORD, USER, fingerprint

pytestmark = pytest.mark.machines

IMAGE_S, INSTALL_S = 1800.0, 2400.0
SITE = """version: 1
name: hall
profile: hpc
access: {{user: root, private_key: id_ed25519}}
networks:
  management: {{cidr: {network}.0/24}}
provision: {{image: {image}}}
hosts:
{hosts}secrets: {{munge_key: {{file: secrets/any}}, slurmdbd_password: {{file: secrets/any}}}}
"""
HOST = """  - name: {name}
    roles: [{roles}]
    address: {address}
    mac: "{mac}"
    bmc: {{address: {controller}, port: {port}, user: {user}, password: {{file: secrets/{secret}}}}}
"""


class Hall:
    """Machines, and the site that means them: ``one`` has a blank disk, ``two`` has two."""

    def __init__(self, folder: Path, image: Path) -> None:
        self.folder, self.image = folder, image
        self.one = Machine("one", 1, folder)
        self.two = Machine("two", 2, folder, disks=2)
        self.site = folder / "site"

    def write(self, pem: Path, secret: str = "bmc") -> None:
        """The site's folder."""
        (self.site / "secrets").mkdir(parents=True, exist_ok=True)
        for name, text in (("bmc", PASSWORD), ("wrong", "wrong"), ("any", "x" * 40)):
            file = self.site / "secrets" / name
            file.write_text(text)
            file.chmod(0o600)
        key = self.site / "id_ed25519"
        if not key.exists():
            run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)))
        machines = (self.one, self.two)
        shown = fingerprint(pem)
        lines = "".join(f"{m.controller}:{CONTROLLER_PORT} SHA256:{shown}\n" for m in machines)
        (self.site / "known_bmcs").write_text(lines)
        hosts = "".join(
            HOST.format(
                name=m.name,
                roles=roles,
                address=m.address,
                mac=m.mac,
                controller=m.controller,
                port=CONTROLLER_PORT,
                user=USER,
                secret=secret,
            )
            for m, roles in zip(machines, ("control, storage, login", "gpu"), strict=True)
        )
        text = SITE.format(network=NETWORK, image=self.image, hosts=hosts)
        (self.site / "site.yml").write_text(text)

    def appliance(self, *words: str) -> Completed:
        """The program, as an integrator calls it."""
        command = (shutil.which("appliance") or "appliance", *words, "--inventory", str(self.site))
        return run(command, check=False, timeout=INSTALL_S)

    def install(self, *words: str) -> dict[str, dict[str, object]]:
        """How it ended, by host."""
        done = self.appliance("provision", "install", *words, "--yes", "--json")
        assert done.stdout, done.stderr
        return {host["host"]: host for host in json.loads(done.stdout)["hosts"]}

    def ssh(self, machine: Machine, command: str) -> str:
        """A command there, over ssh that takes the pinned key alone."""
        known = f"UserKnownHostsFile={self.site}/known_hosts"
        options = ("-o", known, "-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes")
        way = ("ssh", *options, "-i", str(self.site / "id_ed25519"), f"root@{machine.address}")
        return run((*way, command), timeout=120).stdout.strip()


def await_ssh(machine: Machine) -> None:
    """Until something listens there."""
    ends = time.monotonic() + 600
    while time.monotonic() < ends:
        with suppress(OSError):
            socket.create_connection((machine.address, 22), timeout=5).close()
            return
        time.sleep(2)
    raise AssertionError(f"{machine.name} does not answer: {machine.console[-500:]}")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if packages := lacking():
        pytest.fail(f"not installed: apt-get install {packages}")
    folder = tmp_path_factory.mktemp("image") / "debian-12"
    run(("appliance", "provision", "build", "--output", str(folder)), timeout=IMAGE_S)
    return folder


@pytest.fixture(scope="module")
def raised(tmp_path_factory: pytest.TempPathFactory, image: Path) -> Iterator[Hall]:
    made = Hall(tmp_path_factory.mktemp("hall"), image)
    with hall(made.folder, (made.one, made.two)) as pem:
        made.write(pem)
        yield made


def test_a_wrong_password_switches_nothing(raised: Hall) -> None:
    text = (raised.site / "site.yml").read_text()
    (raised.site / "site.yml").write_text(text.replace("secrets/bmc}", "secrets/wrong}"))
    found = raised.install("one")["one"]
    (raised.site / "site.yml").write_text(text)
    assert found["state"] == "failed"
    assert "neither user" in str(found["cause"])
    assert raised.one.console == ""


def test_a_bare_machine_gets_its_system(raised: Hall) -> None:
    found = raised.install("one")["one"]
    assert (found["state"], found["cause"]) == ("installed", "")
    assert found["verified_medium"] is True
    assert raised.ssh(raised.one, "hostname; findmnt -no FSTYPE /; systemctl is-system-running --wait") == "one\next4\nrunning"  # fmt: skip
    grown = int(raised.ssh(raised.one, "findmnt -bno SIZE /"))
    assert grown > 6e9
    secure_boot = (
        "od -An -tu1 -j4 /sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    )
    assert raised.ssh(raised.one, secure_boot) == "1"
    assert raised.ssh(raised.one, "getent shadow root").split(":")[1] in ("*", "!")


def test_what_runs_the_image_is_left_alone(raised: Hall) -> None:
    before = raised.ssh(raised.one, "cat /proc/sys/kernel/random/boot_id")
    assert raised.install("one")["one"]["state"] == "runs this image"
    assert raised.ssh(raised.one, "cat /proc/sys/kernel/random/boot_id") == before


def test_two_disks_are_never_guessed_and_nothing_is_written(raised: Hall) -> None:
    before = raised.two.allocated
    found = raised.install("two")["two"]
    assert found["state"] == "failed"
    assert "2 disks could be the system's" in str(found["cause"])
    assert "hosts[].disk" in str(found["fix"])
    assert raised.two.allocated == before


def test_a_machine_that_is_on_and_does_not_answer_is_not_touched(raised: Hall) -> None:
    known = raised.site / "known_hosts"
    text = known.read_text()
    known.write_text("")
    done = raised.appliance("provision", "install", "one", "--yes")
    known.write_text(text)
    assert done.returncode == 2
    assert "it is on, and what runs there does not answer ssh" in done.stderr
    assert raised.ssh(raised.one, "hostname") == "one"


def test_a_disk_that_carries_a_system_is_not_written_to(raised: Hall) -> None:
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
