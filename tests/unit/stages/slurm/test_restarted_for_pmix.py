"""A slurmd that started before the library of PMIx was there is restarted, and the plan says so."""

from appliance.stages.slurm.restarts import RESTARTS
from tests.support.facts import facts_of
from tests.support.sites import site_of

SLURMD = next(one for one in RESTARTS if one.unit == "slurmd")
HOST = site_of("head", "gpu-1").host("gpu-1")
RECEIPT = {
    **{"stage": "slurm", "fingerprint": "f", "written": "2026-11-01T00:00:00Z", "run": "r"},
    **{"appliance": "0.1.0", "resources": 1},
}


def restarts(*packages: str) -> bool:
    versions = dict.fromkeys(packages, "1")
    facts = facts_of("gpu-1", receipts={"slurm": {**RECEIPT, "versions": versions}})
    return SLURMD.when(HOST, facts, {})


def test_only_a_slurmd_without_the_library_is_restarted_for_it() -> None:
    assert restarts("munge", "slurmd")
    assert not restarts("munge", "slurmd", "libpmix-dev")
    assert not restarts("munge", "slurm-slurmd")
    assert not SLURMD.when(HOST, None, {})
    assert not SLURMD.when(HOST, facts_of("gpu-1"), {})
