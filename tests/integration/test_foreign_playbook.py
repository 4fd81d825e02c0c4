"""Roles in somebody else's playbook, outside the checkout: run twice, in check mode, and killed at ten moments."""

import hashlib
import os
import re
import shutil
import signal
import stat
import subprocess  # noqa: TID251 - a run that is to be killed must be held by its handle
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from appliance.config import data
from appliance.lab import machine, rack
from appliance.lab import ssh as lab_ssh
from appliance.lab.spec import Rack, RackHost, RackSpec
from tests.integration.rack import own_name

pytestmark = [pytest.mark.rack, pytest.mark.slow]

SECONDS = 600.0
CONFIG = """\
[defaults]
inventory = hosts.ini
roles_path = {root}/roles
collections_path = {root}/playbooks/collections

[ssh_connection]
ssh_args = -o ControlPath=none -o UserKnownHostsFile={site}/known_hosts -o StrictHostKeyChecking=yes
"""
INVENTORY = "{name} ansible_host={address} ansible_user=root ansible_ssh_private_key_file={site}/id_ed25519\n"
PLAYBOOKS = {
    "base": """\
- hosts: all
  roles:
    - role: base
      vars:
        base_hostname: "{{ inventory_hostname }}"
        base_hosts: [{name: "{{ inventory_hostname }}", address: "{{ ansible_host }}"}]
        base_networks: ["{{ ansible_host }}/24"]
        base_admins: [{name: ada, keys: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFakeKeyOfNobodyAtAllForTheScenarioOnly0 ada]}]
        base_sysctl: {net.core.somaxconn: 4096}
        base_container: true
""",
    "observe": """\
- hosts: all
  roles:
    - role: observe
      vars:
        observe_address: "{{ ansible_host }}"
        observe_instance: "{{ inventory_hostname }}"
        observe_site: theirs
""",
}
BOTH = "both"
RECAP = re.compile(r"changed=(\d+) +unreachable=(\d+) +failed=(\d+)")
MOMENTS = (
    "",
    "root/.ansible",
    "home/ada",
    "etc/ssh/sshd_config.d/00-appliance.conf",
    "etc/sysctl.d/99-zz-appliance-base.conf",
    "etc/systemd/system/sysinit.target.wants/appliance-firewall.service",
    "var/lib/dpkg/info/prometheus-node-exporter.list",
    "etc/nftables.d/appliance-observe.nft",
    "etc/systemd/system/prometheus-node-exporter.service.d/appliance.conf",
    "etc/systemd/system/sysinit.target.wants/appliance-observe.service",
)
"""What a run of both roles is killed at: the first of them at its start, the others when the host has the file."""
PASSING = re.compile(
    r"^(tmp|run|root/\.ansible|etc/[^/]+-|etc/(machine-id|ssh/ssh_host.+)"
    r"|var/(cache|log|tmp|lib/(apt|chrony|private|prometheus|systemd)|lib/dpkg/.+-old))(/|$)"
)
"""Below the root: what differs from one host, or from one minute, to the next."""
UNITS = "appliance-firewall appliance-observe appliance-weekly.timer chrony prometheus-node-exporter ssh"
IN_FORCE = (
    f"systemctl show --property=Id,ActiveState,SubState,UnitFileState {UNITS};"
    "systemctl list-units --failed --no-legend --plain; nft --stateless list ruleset; hostname"
)

State = dict[str, str]


@dataclass
class Theirs:
    """A folder with a configuration, an inventory and playbooks, and the one host they are for."""

    folder: Path
    rack: Rack

    @property
    def host(self) -> RackHost:
        return self.rack.hosts[0]

    def begin(self) -> None:
        """A host on which nobody has done anything yet."""
        for host in self.rack.hosts:
            machine.discard(host)
            shutil.rmtree(host.folder)
        self.rack = rack.up(self.rack.spec, lambda _: None)

    def start(self, name: str, *flags: str) -> "subprocess.Popen[str]":
        """ansible-playbook on a playbook, in a session of its own."""
        program = str(Path(sys.executable).parent / "ansible-playbook")
        ours = ("ANSIBLE_", "PYTHONPATH", "APPLIANCE_")
        theirs = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
        return subprocess.Popen(
            (program, f"{name}.yml", *flags),
            cwd=self.folder,
            env={**theirs, "ANSIBLE_HOME": str(self.folder / "home"), "ANSIBLE_NOCOLOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def changes(self, name: str, *flags: str) -> int:
        """How many tasks changed something in a run that ends well."""
        with self.start(name, *flags) as process:
            try:
                said, _ = process.communicate(timeout=SECONDS)
            finally:
                process.kill()
        assert process.returncode == 0, said[-6000:]
        ((changed, unreachable, failed),) = RECAP.findall(said)
        assert (unreachable, failed) == ("0", "0"), said[-6000:]
        return int(changed)

    def kill(self, name: str, moment: str) -> None:
        """A run that is killed as soon as the host has this file."""
        awaited = self.host.root / moment
        with self.start(name) as process:
            try:
                end = time.monotonic() + SECONDS
                while not os.path.lexists(awaited):
                    assert process.poll() is None, f"it ended before there was {moment}"
                    assert time.monotonic() < end, f"there never was {moment}"
                    time.sleep(0.01)
            finally:
                os.killpg(process.pid, signal.SIGKILL)
            assert process.wait(SECONDS) == -signal.SIGKILL

    def state(self) -> State:
        """All that is on the host and was not in its image, and what is in force."""
        upper = self.host.disk / "upper"
        found = {str(path.relative_to(upper)): path for path in sorted(upper.rglob("*"))}
        kept = {name: _described(path) for name, path in found.items() if not PASSING.match(name)}
        said = lab_ssh.on_host(self.rack, self.host, (IN_FORCE,))
        # nft lists the elements of a set in another order each time it is loaded.
        return {**kept, "in force": "\n".join(sorted((said.stdout + said.stderr).splitlines()))}


def _described(path: Path) -> str:
    about = path.lstat()
    content = ""
    if stat.S_ISREG(about.st_mode):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
    elif stat.S_ISLNK(about.st_mode):
        content = str(path.readlink())
    return f"{stat.filemode(about.st_mode)} {about.st_uid}:{about.st_gid} {content}"


def differences(before: State, after: State) -> dict[str, tuple[str, str]]:
    """What differs, by its name."""
    names = sorted(before.keys() | after.keys())
    pairs = {name: (before.get(name, "absent"), after.get(name, "absent")) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theirs]:
    spec = RackSpec(own_name("foreign"), 1)
    folder = tmp_path_factory.mktemp("theirs")
    rack.down(spec.name)
    try:
        found = Theirs(folder, rack.up(spec, lambda _: None))
        site, host = found.rack.site_dir, found.host
        (folder / "ansible.cfg").write_text(CONFIG.format(root=data.root(), site=site))
        (folder / "hosts.ini").write_text(
            INVENTORY.format(name=host.name, address=host.address, site=site)
        )
        for name, text in {**PLAYBOOKS, BOTH: "".join(PLAYBOOKS.values())}.items():
            (folder / f"{name}.yml").write_text(text)
        yield found
    finally:
        rack.down(spec.name)


@pytest.mark.parametrize("role", PLAYBOOKS)
def test_a_playbook_with_a_role_has_ten_lines(role: str) -> None:
    assert len(PLAYBOOKS[role].splitlines()) <= 10


def test_check_mode_on_a_fresh_host_says_what_it_would_change_and_changes_nothing(theirs: Theirs) -> None:  # fmt: skip
    before = theirs.state()
    assert all(theirs.changes(role, "--check", "--diff") for role in PLAYBOOKS)
    assert differences(before, theirs.state()) == {}


@pytest.fixture(scope="module")
def undisturbed(theirs: Theirs) -> State:
    """The state after each role was run once, alone."""
    theirs.begin()
    assert all(theirs.changes(role) for role in PLAYBOOKS)
    return theirs.state()


@pytest.mark.parametrize("role", PLAYBOOKS)
def test_a_second_run_changes_nothing_and_check_mode_says_so(theirs: Theirs, undisturbed: State, role: str) -> None:  # fmt: skip
    assert (theirs.changes(role), theirs.changes(role, "--check", "--diff")) == (0, 0)
    assert differences(undisturbed, theirs.state()) == {}


@pytest.mark.parametrize("moment", MOMENTS)
def test_after_a_run_that_was_killed_the_next_one_ends_well(theirs: Theirs, undisturbed: State, moment: str) -> None:  # fmt: skip
    theirs.begin()
    theirs.kill(BOTH, moment)
    theirs.changes(BOTH)
    assert differences(undisturbed, theirs.state()) == {}
