"""A site of two classes, from ``init`` to Deployed, on hosts as Debian's installer leaves them: each is judged by its own."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from appliance.lab import faults, rack, ssh
from appliance.lab.spec import RackSpec
from tests.integration.own_site import Integrator, Typed, readme_block
from tests.integration.rack import own_name, traces

pytestmark = [pytest.mark.rack, pytest.mark.slow]

SPEC = RackSpec(own_name("classes"), 3, "balanced", plain="12", classes="balanced=1,hpc=1")
BUILD, TRAIN = "gpu-1", "gpu-2"


@dataclass(frozen=True)
class Site:
    """Who made it, and how that went."""

    integrator: Integrator
    first: Typed

    def health(self) -> dict[str, list[dict[str, Any]]]:
        """What ``health`` says, by check."""
        said = self.integrator.program("health", "--site", "mysite", "--json")
        found: dict[str, list[dict[str, Any]]] = {}
        for result in json.loads(said.stdout)["results"]:
            found.setdefault(result["id"], []).append(result)
        return found

    def on_head(self, *argv: str) -> str:
        """What a program prints on the control host."""
        found = self.integrator.rack
        return str(ssh.on_host(found, found.hosts[0], ("sudo", *argv)).stdout)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    rack.down(SPEC.name)
    try:
        raised = rack.up(SPEC, lambda _: None)
        integrator = Integrator(raised, tmp_path_factory.mktemp("classes"))
        integrator.prepare()
        block = readme_block().replace(
            "--count 4 --profile hpc", "--gpu-hosts balanced=1 --gpu-hosts hpc=1"
        )
        assert "--gpu-hosts" in block
        yield Site(integrator, integrator.type(block))
    finally:
        rack.down(SPEC.name)
    assert traces(raised) == []


def test_it_is_deployed_from_init_on(site: Site) -> None:
    assert site.first.failed == [], site.first.text[-6000:]
    assert "\n  Deployed. " in site.first.text
    assert f"balanced: {BUILD}, hpc: {TRAIN}" in site.first.text
    written = (site.integrator.folder / "mysite/site.yml").read_text()
    assert (written.count("profile: "), written.count('    class: "hpc"')) == (1, 1)


def test_each_host_is_good_by_its_own_class(site: Site) -> None:
    found = {result["host"]: result for result in site.health()["gpu.count"]}
    assert {name: (one["status"], one["value"], one["limit"]) for name, one in found.items()} == {
        BUILD: ("pass", 4, 4),
        TRAIN: ("pass", 8, 8),
    }
    ports = {r["host"]: (r["status"], r["limit"]) for r in site.health()["fabric.ports"]}
    assert ports == {BUILD: ("pass", 2), TRAIN: ("pass", 8)}


def test_a_host_that_lacks_a_gpu_fails_by_its_own_class_alone(site: Site) -> None:
    found = site.integrator.rack
    train = found.hosts[2]
    faults.apply(found, train, "gpu-off-bus", ("7",))
    try:
        told = site.health()["gpu.count"]
    finally:
        faults.apply(found, train, "gpu-off-bus", ("7",), clear=True)
    failed = [result for result in told if result["status"] == "fail"]
    assert {(r["host"], r["limit"], r["limit_source"]) for r in failed} == {
        (TRAIN, 8, "profile hpc")
    }
    assert [r["status"] for r in told if r["host"] == BUILD] == ["pass"]


def test_slurm_has_a_partition_for_each_class_and_their_gpus(site: Site) -> None:
    # The host's shell splits words at blanks.
    lines = site.on_head("sinfo", "--noheader", "--Node", "--format=%P,%n,%G").split()
    rows = [line.split(",", 2) for line in lines]
    shown = {(partition, host): gres for partition, host, gres in rows}
    assert {key: gres.partition("(")[0] for key, gres in shown.items()} == {
        ("gpu*", BUILD): "gpu:a100:4",
        ("gpu*", TRAIN): "gpu:a100:8",
        ("balanced", BUILD): "gpu:a100:4",
        ("hpc", TRAIN): "gpu:a100:8",
    }


def test_only_the_class_with_switches_has_a_fabric_manager(site: Site) -> None:
    told = site.health()["gpu.fabric_manager"]
    absent = {result["host"]: result["limit"] == "absent" for result in told}
    assert absent == {BUILD: True, TRAIN: False}
    assert {result["status"] for result in told} == {"pass"}


def test_deployed_again_there_is_nothing_to_do(site: Site) -> None:
    again = site.integrator.program("plan", "--site", "mysite", "--detailed-exitcode", "--json")
    assert again.returncode == 0, again.stdout + again.stderr
    assert json.loads(again.stdout)["classes"] == {BUILD: "balanced", TRAIN: "hpc"}
