"""Each check has a fault whose printed remedy is typed, or belongs to a list that says why it has none."""

from pathlib import Path

from appliance.lab.faults import FAULTS as OF_PARTS
from appliance.stages.base import ids as base_ids
from appliance.stages.catalog import CHECKS
from appliance.stages.scheduler import ids as scheduler_ids
from tests.integration.test_cluster_smoke import BREAKAGES, OBSTACLES
from tests.integration.test_night import DRIFT, FAULTS, is_typed

HERE = Path(__file__).parents[1] / "integration"
EVERY = {check.id for check in CHECKS}
TYPED = EVERY & (
    {fault.check for fault in FAULTS.values() if is_typed(fault)}
    | {one.check for one in BREAKAGES.values()}
    | ({base_ids.DRIFT} if DRIFT else set())
    | ({scheduler_ids.MEMBERS} if OBSTACLES else set())
)
"""Checks with a row whose remedy is typed and ends in PASSED."""
CLEARED = EVERY & ({one.check for one in FAULTS.values()} | {one.check for one in OF_PARTS}) - TYPED
"""Checks whose rows plant a fault of a part, which the rack exchanges or clears."""
PARTS = {
    "base.cpu": "a processor",
    "base.memory_size": "a memory module",
    "base.numa": "a setting of the firmware",
    "base.pcie_firmware": "a setting of the firmware or the boot loader",
    "gpu.model": "a GPU",
    "storage.scratch_size": "a disk",
    "fabric.links": "a cable between switches",
    "fabric.topology": "a cable",
}
"""Checks without a row whose remedy is work on a part."""
ELSEWHERE = {
    "base.facts": "test_hostile_host",
    "base.weekly": "test_planted_changes",
    "kubernetes.backup": "test_kubernetes",
    "kubernetes.dns": "test_kubernetes",
    "kubernetes.gpus": "test_cluster_gpus",
    "kubernetes.return": "test_cluster_smoke",
    "observe.alerts": "test_faults",
    "observe.silences": "test_told",
    "scheduler.trees": "test_cluster_trees",
    "slurm.pyxis": "test_slurm_containers",
    "slurm.return": "test_watch",
    "slurm.watch": "test_watch",
}
"""Checks whose faults another module plants on a rack of its own; not all of them type the remedy."""
STAND_INS = {
    "runai.certificate": "tests/unit/stages/runai/test_checks.py",
    "runai.connected": "tests/unit/stages/runai/test_checks.py",
    "runai.releases": "tests/unit/stages/runai/test_checks.py",
}
"""Checks of a program that no rack can run: their faults are planted in a stand-in, or in facts; no remedy was typed."""
MOST_OPEN = 38
"""Checks without any planted fault: lower this when one gets a row."""


def test_every_check_is_in_one_list_alone() -> None:
    lists = (TYPED, CLEARED, set(PARTS), set(ELSEWHERE), set(STAND_INS))
    assert all(one <= EVERY for one in lists)
    assert sum(map(len, lists)) == len(set().union(*lists))


def test_checks_without_a_planted_fault_become_no_more() -> None:
    unplanted = EVERY - TYPED - CLEARED - set(PARTS) - set(ELSEWHERE) - set(STAND_INS)
    assert len(unplanted) == MOST_OPEN, sorted(unplanted)


def test_at_most_two_checks_in_five_are_work_on_parts() -> None:
    assert len(CLEARED | set(PARTS)) <= 0.4 * len(EVERY)


def test_a_module_that_plants_the_fault_names_the_check() -> None:
    texts = {name: (HERE / f"{name}.py").read_text() for name in ELSEWHERE.values()}
    assert [one for one, name in ELSEWHERE.items() if one not in texts[name]] == []
    root = HERE.parents[1]
    parts = {one: one.removeprefix("runai.") for one in STAND_INS}
    assert all(f'"{part}"' in (root / STAND_INS[one]).read_text() for one, part in parts.items())
