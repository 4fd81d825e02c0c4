"""Roles whose promises need a kernel of their own, each on a virtual machine as it was installed: ``make molecule-vm``.

The scenario is the role's ``molecule/machine``: applied twice, its outcomes looked at, the machine started anew in between.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.adapters.process import run
from appliance.config import data
from tests.support.machine_hall import hall
from tests.support.machine_site import Hall, install_pair, kept_image, pair
from tests.support.molecule_runs import ENVIRONMENT, tail

pytestmark = pytest.mark.machines

ROLES = sorted(path.parents[2] for path in data.root().glob("roles/*/molecule/machine/verify.yml"))
DEADLINE_S = 5400.0
DISKS = 4
INVENTORY = """all:
  vars:
    ansible_user: root
    ansible_ssh_private_key_file: {site}/id_ed25519
    ansible_ssh_common_args: -o UserKnownHostsFile={site}/known_hosts -o StrictHostKeyChecking=yes
  hosts:
    {name}:
      ansible_host: {address}
"""


@pytest.fixture(scope="module")
def image() -> Iterator[Path]:
    with kept_image() as folder:
        yield folder


@pytest.fixture
def machines(tmp_path: Path, image: Path) -> Iterator[Path]:
    """The inventory of one machine as it was installed, with blank disks beside its system's."""
    head, gpu = pair(tmp_path)
    machine = replace(gpu, disks=DISKS)
    made = Hall(tmp_path, image, {head: "control, storage, login", machine: "gpu"})
    if not made.take():
        install_pair(tmp_path / "first", image)
        assert made.take()
    with hall(tmp_path, tuple(made.machines)) as raised:
        made.write(raised)
        made.start(machine.name)
        inventory = tmp_path / "machines.yml"
        text = INVENTORY.format(site=made.site, name=machine.name, address=machine.address)
        inventory.write_text(text)
        yield inventory


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_the_role_keeps_its_word_on_a_machine(role: Path, machines: Path, tmp_path: Path) -> None:
    log = tmp_path / "molecule.log"
    environment = {
        **ENVIRONMENT,
        "MOLECULE_MACHINES": str(machines),
        "MOLECULE_EPHEMERAL_DIRECTORY": str(tmp_path / "molecule"),
    }
    argv = ("sh", "-c", 'exec molecule test -s machine >"$0" 2>&1', str(log))
    began = time.monotonic()
    done = run(argv, env=environment, cwd=role, timeout=DEADLINE_S, check=False)
    print(f"{role.name}: {time.monotonic() - began:.0f} s")  # noqa: T201
    if done.returncode:
        pytest.fail(f"molecule test ended with {done.returncode}\n{tail(log)}", pytrace=False)
