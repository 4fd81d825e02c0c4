"""Kinds of faults as conditions of a node: true while the fault is there, unknown where it could not be judged."""

from collections.abc import Mapping

import pytest

from appliance.stages.base import ids as base_ids
from appliance.stages.fabric import ids as fabric_ids
from appliance.stages.gpu import ids as gpu_ids
from appliance.watch import rules
from appliance.watch.conditions import KINDS, OTHER, conditions
from appliance.watch.facts import AREAS
from appliance.watch.verdict import Cause

HUNG = {"gpus": "no answer within 20 s"}


def by_type(*causes: Cause, blind: Mapping[str, str] | None = None) -> dict[str, tuple[str, str]]:
    found = conditions(causes, dict(blind or {}))
    return {one["type"]: (one["status"], one["reason"]) for one in found}


@pytest.mark.parametrize(
    ("check", "kind", "reason"),
    [
        (gpu_ids.COUNT, "GPUMissing", "GpuCount"),
        (gpu_ids.XID, "XIDErrors", "GpuXid"),
        (gpu_ids.ECC, "GPUMemoryErrors", "GpuEcc"),
        (gpu_ids.NVLINK, "NVLinkStatusInactive", "GpuNvlink"),
        (gpu_ids.PCIE, "PCIeLinkDegraded", "GpuPcie"),
        (fabric_ids.STATE, "FabricLinkDown", "FabricState"),
        (base_ids.DISK, "FilesystemUnusable", "BaseDisk"),
        (base_ids.NVME, "DriveFailed", "BaseNvme"),
        (base_ids.CLOCK, OTHER, "BaseClock"),
        ("kubernetes.watch", OTHER, "KubernetesWatch"),
    ],
)
def test_a_fault_is_true_in_its_kind_alone(check: str, kind: str, reason: str) -> None:
    found = by_type(Cause(check, "broken"))
    assert found.pop(kind) == ("True", reason)
    assert set(found.values()) == {("False", "NoFault")}


def test_a_message_has_the_evidence_and_a_bounded_length() -> None:
    found = conditions([Cause(gpu_ids.XID, "Xid 79, " + "x" * 999, "GPU 2", 3.0)], {})
    (said,) = (one["message"] for one in found if one["type"] == "XIDErrors")
    assert said.startswith("gpu.xid GPU 2: Xid 79, ")
    assert len(said) == 400


def test_what_was_not_read_is_unknown_unless_a_fault_is_known() -> None:
    found = by_type(Cause(gpu_ids.ERROR, "lost"), blind=HUNG)
    assert found["GPUMissing"] == ("True", "GpuError")
    assert found["GPUMemoryErrors"] == found["NVLinkStatusInactive"] == ("Unknown", "NotJudged")
    assert found["XIDErrors"] == found["FabricLinkDown"] == ("False", "NoFault")


def test_each_area_that_a_kind_needs_is_one_that_the_program_reads() -> None:
    needed = {area for _, areas in KINDS.values() for area in areas}
    assert needed <= {*AREAS, "ports", "units"}


def test_a_fault_stays_while_its_sensor_does_not_answer_and_no_longer() -> None:
    lost = {"check": gpu_ids.ERROR, "part": "GPU 3", "cause": "lost", "key": "gpu.error GPU 3"}
    disk = {"check": base_ids.DISK, "part": "", "cause": "full", "key": "base.disk "}
    before = {"causes": [lost, disk]}
    (kept,) = rules.kept({"errors": HUNG}, [], before)
    assert (str(kept), kept.key) == ("gpu.error GPU 3: lost", "gpu.error GPU 3")
    assert not list(rules.kept({"errors": HUNG}, [kept], before))
    assert not list(rules.kept({"errors": {}}, [], before))
