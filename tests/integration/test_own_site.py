"""The README's own site, word for word, on hosts as Debian's installer leaves them; every hardware class."""

import json
import os
import pwd
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from appliance.lab import rack
from appliance.lab.spec import RackSpec
from tests.integration.own_site import Integrator, Typed, readme_block
from tests.integration.rack import own_name, traces

pytestmark = [pytest.mark.rack, pytest.mark.slow]

MARK = "etc/appliance/simulated.json"
ORDINARY_USER = pwd.getpwnam("nobody").pw_uid
OWN_NAMES = {"head": "node-a17", "gpu-1": "node-b03"}
HPC = RackSpec(own_name("own-hpc"), 3, "hpc", plain="12")
BALANCED = RackSpec(own_name("own-bal"), 2, "balanced", plain="13")
COST = RackSpec(own_name("own-cost"), 2, "cost-efficient", plain="12")


@dataclass(frozen=True)
class OwnSite:
    """An integrator, and how the first typing of the README's block went."""

    integrator: Integrator
    block: str
    first: Typed

    @property
    def hosts(self) -> list[str]:
        return re.findall(r"- name: (\S+)", self.file.read_text())

    @property
    def file(self) -> Path:
        return self.integrator.folder / self.integrator.site / "site.yml"


def _made(spec: RackSpec, folder: Path, uid: int, names: dict[str, str]) -> Iterator[OwnSite]:
    rack.down(spec.name)
    try:
        raised = rack.up(spec, lambda _: None)
        integrator = Integrator(raised, folder, uid, names)
        integrator.prepare()
        block = readme_block().replace(
            "--count 4 --profile hpc",
            f"--count {spec.hosts} --profile {spec.profile}",
        )
        yield OwnSite(integrator, block, integrator.type(block))
    finally:
        rack.down(spec.name)
    assert traces(raised) == []


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((HPC, 0, {}), id="hpc-debian12-root"),
        pytest.param((BALANCED, ORDINARY_USER, OWN_NAMES), id="balanced-debian13-user"),
        pytest.param((COST, 0, {}), id="cost-efficient-debian12"),
    ],
)
def own(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OwnSite]:
    spec, uid, names = request.param
    folder = tmp_path_factory.mktemp("own site")
    for parent in (folder, *list(folder.parents)[:2]):
        parent.chmod(0o755)
    os.chown(folder, uid, uid)
    yield from _made(spec, folder, uid, names)


def test_the_readmes_block_ends_well(own: OwnSite) -> None:
    assert own.first.failed == [], own.first.text[-6000:]
    assert own.first.code == 0
    assert "\n  Deployed. " in own.first.text


def test_typed_again_there_is_nothing_to_do(own: OwnSite) -> None:
    again = own.integrator.type(own.block)
    assert again.code == 0
    assert [(code, line.split()[:2]) for code, line in again.failed] == [(2, ["appliance", "init"])]
    assert "mysite is not empty" in again.text


def test_a_relative_folder_says_the_same_from_another_one(own: OwnSite) -> None:
    inside = own.integrator.type("cd mysite && appliance plan --site . --detailed-exitcode\n")
    assert inside.code == 0, inside.text


def test_hosts_bear_the_sites_names_and_let_nobody_in_as_root(own: OwnSite) -> None:
    for host, name in zip(own.integrator.rack.hosts, own.hosts, strict=True):
        assert (host.root / "etc/hostname").read_text() == f"{name}\n"
        assert "PermitRootLogin no" in (host.root / "etc/ssh/sshd_config.d/local.conf").read_text()


def test_nothing_of_the_rack_is_in_a_hosts_own_files(own: OwnSite) -> None:
    """Not in the root it came with; what stands in for hardware lies in a layer of its own."""
    base = Path(own.integrator.rack.layers["base"])
    for name in (
        "etc/appliance",
        "var/lib/appliance",
        "var/lib/appliance-lab",
        "root/.ssh/authorized_keys",
    ):
        assert not (base / name).exists()
    assert not list((base / "var/cache/apt/archives").glob("*.deb"))


def test_hardware_nobody_marked_is_deployed_and_its_open_gates_are_named(own: OwnSite) -> None:
    """As on real hardware: deployed is good, accepted is another verdict."""
    found = own.integrator.rack
    marks = {host.root / MARK: (host.root / MARK).read_text() for host in found.hosts}
    try:
        for file, text in marks.items():
            file.write_text(json.dumps(json.loads(text) | {"areas": []}))
        done = own.integrator.program("deploy", "--site", "mysite", "--yes")
    finally:
        for file, text in marks.items():
            file.write_text(text)
    said = " ".join(done.stdout.split())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Deployed." in said
    assert "Accepted: not yet." in said
    assert "appliance validate --site mysite burnin" in said
    if found.spec.profile == "hpc":
        assert "gpt3.5b: appliance validate --site mysite gpt3-logs DIR --model 5b" in said
