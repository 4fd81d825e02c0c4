"""Each fault the rack can inflict on its fabric is told by exactly one check; recorded on a rack of three hosts."""

import json
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import pytest

from appliance.checks.causes import explain
from appliance.checks.check import HostCheck, View
from appliance.config import data
from appliance.config.load import load_profile
from appliance.lab.fabric_faults import FABRIC_FAULTS
from appliance.lab.fault import Fault
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult, Status
from appliance.stages.catalog import CAUSES
from appliance.stages.fabric.checks import CHECKS
from appliance.stages.fabric.site import FabricOptions
from appliance.stages.fabric.stage import STAGE
from tests.support.fabric_facts import facts, site
from tests.support.judging import said_by

RECORDED = data.root() / "tests/data/fabric"

each_fault = pytest.mark.parametrize("fault", FABRIC_FAULTS, ids=lambda fault: fault.kind)


def recorded(name: str, minute: int = 0) -> dict[str, HostFacts]:
    """The fabric's part of what the probe found on head, gpu-1 and gpu-2."""
    said: dict[str, dict[str, Any]] = json.loads((RECORDED / f"{name}.json").read_text())
    taken = f"2026-11-21T12:{minute:02}:00Z"
    return {host: facts(host, **areas, taken=taken) for host, areas in said.items()}


def failures(name: str) -> list[CheckResult]:
    """What is said to be wrong, ten minutes after all was well."""
    rail_optimised = site().model_copy(update={"fabric": FabricOptions(cabling="rail-optimised")})
    seen = View(load_profile("hpc"), rail_optimised, recorded(name, 10), recorded("healthy"))
    results = [
        result
        for check in CHECKS
        for result in (
            (
                r
                for h in ("gpu-1", "gpu-2")
                for r in check.results(seen, seen.site.host(h), seen.facts[h])
            )
            if isinstance(check, HostCheck)
            else check.results(seen)
        )
    ]
    bad = {Status.FAIL, Status.ERROR, Status.WARN}
    return [r for r in explain(results, CAUSES) if r.status in bad and not r.explained_by]


def test_the_healthy_fabric_has_no_finding() -> None:
    assert failures("healthy") == []


@each_fault
def test_a_fault_is_told_once_by_the_check_its_row_names(fault: Fault) -> None:
    (result,) = failures(fault.kind)
    assert (result.id, result.target) == (fault.check, fault.target.replace("HOST", "gpu-1"))
    assert result.fix


@each_fault
def test_no_fault_of_cables_or_adapters_makes_the_stage_run_again(fault: Fault) -> None:
    assert fault.check in STAGE.symptoms


REMEDIES = {
    "port-down": "cable of mlx5_2",
    "port-rate": "the cable of mlx5_3, which ends in port 2 of leaf-4",
    "port-errors": "cable of mlx5_4 at both ends",
    "port-flapping": "cable of mlx5_5 at both ends",
    "cables-swapped": "mlx5_1 of gpu-1 goes to port 2 of leaf-2, mlx5_6 of gpu-1 to port 2 of leaf-7",
    "cable-doubled": "from port 33 of leaf-6 to a free port of leaf-3",
    "hca-missing": "lspci",
    "firmware": "firmware of board MT_0000000223",
    "switch-link-missing": "ports of leaf-4 towards spine-2",
}


@each_fault
def test_cause_and_remedy_name_ports_and_switches(fault: Fault) -> None:
    (result,) = failures(fault.kind)
    assert fnmatchcase(result.cause, fault.says)
    assert REMEDIES[fault.kind] in result.fix


def test_without_discovery_no_fault_of_cables_is_a_pass() -> None:
    known = recorded("cables-swapped")
    known["head"] = known["head"].model_copy(update={"topology": None})
    seen = View(load_profile("hpc"), site(), known)
    seen = replace(
        seen, site=site().model_copy(update={"fabric": FabricOptions(cabling="rail-optimised")})
    )
    assert [r.status for r in said_by("fabric.cabling", seen)] == [Status.NOT_ASSESSED]
