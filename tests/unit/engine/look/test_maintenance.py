"""A host in maintenance is no failure and no pass; findings about other hosts stay."""

from datetime import UTC, datetime
from typing import Any

import pytest
from ansible_collections.appliance.host.plugins.module_utils.resources import (
    kubernetes_node,
    slurm_node,
)

from appliance.checks.check import View
from appliance.config.load import load_profile
from appliance.engine.look.gather import Round, Unanswered
from appliance.engine.look.judge import judge_all
from appliance.engine.look.maintenance import planned, set_aside
from appliance.models.drain import BY_SLURM, GIVEN_AWAY, HEALTH, MAINTENANCE, WHY, Maintenance
from appliance.models.result import CheckResult, Kind, Status, Verdict, overall
from appliance.report.findings import findings
from appliance.stages.kubernetes.site import KubernetesOptions
from appliance.stages.slurm import ids
from tests.support.facts import facts_of
from tests.support.sites import site_of

SITE = site_of("head", "gpu-1", "gpu-2")
WORK = Maintenance("new PSU", "ada@desk", datetime(2026, 12, 1, 9, 14, tzinfo=UTC))
REASON = f"{WORK} [root@2026-12-01T09:14:36]"


def view_with(*roles: str, **reasons: str) -> View:
    """gpu-1 and gpu-2 below a head; ``reasons`` of Slurm, by host."""
    nodes = [
        {"name": name, "state": "IDLE+DRAIN" if why else "IDLE", "reason": why}
        for name, why in (("gpu-1", reasons.get("gpu_1", "")), ("gpu-2", reasons.get("gpu_2", "")))
    ]
    head = facts_of("head", slurm={"controller": "up", "nodes": nodes})
    hosts = tuple(
        h.model_copy(update={"roles": (*h.roles, *roles)}) if h.name == "gpu-2" else h
        for h in SITE.hosts
    )
    site = SITE.model_copy(update={"hosts": hosts})
    return View(load_profile("hpc"), site, {"head": head})


def result(check: str, host: str | None, *names: str, **more: Any) -> CheckResult:
    made = {"status": Status.FAIL, "cause": "broken", **more}
    return CheckResult(id=check, target=host or "cluster", host=host, names=names, **made)


def test_the_reason_in_a_scheduler_is_read_back_with_and_without_slurms_own_words() -> None:
    assert str(WORK) == f"{MAINTENANCE}new PSU (by ada@desk, 2026-12-01 09:14 UTC)"
    assert Maintenance.read(str(WORK)) == Maintenance.read(REASON) == WORK
    assert WORK.text == "in maintenance since 2026-12-01 09:14 UTC by ada@desk: new PSU"


@pytest.mark.parametrize(
    "reason",
    [
        "",
        "test",
        f"{HEALTH}gpu.count 7",
        MAINTENANCE,
        f"{MAINTENANCE}x (by a@b, 2026-13-41 09:14 UTC)",
    ],
)
def test_no_other_reason_is_taken_for_maintenance(reason: str) -> None:
    assert Maintenance.read(reason) is None


@pytest.mark.parametrize("why", ["a]b", "a\nb", 'a"b', "a=b", "", "x" * 121, "ä"])
def test_a_reason_that_a_scheduler_or_a_log_reads_more_into_is_none(why: str) -> None:
    assert not WHY.fullmatch(why)


def test_the_hosts_own_modules_end_no_maintenance() -> None:
    assert kubernetes_node.MAINTENANCE == MAINTENANCE
    assert slurm_node.SLURMS == BY_SLURM
    assert slurm_node.OWNED == GIVEN_AWAY
    assert not slurm_node.is_ours(str(WORK), "root", "slurm")
    node = {"metadata": {"name": "gpu-1", "annotations": {"appliance/drained": str(WORK)}}}
    assert kubernetes_node.differences(node, {}, [], "kubernetes") == []


def test_planned_work_fails_nothing_and_passes_nothing() -> None:
    view = view_with(gpu_2=REASON)
    found = Round({"head": view.facts["head"]}, {"gpu-2": Unanswered("gpu-2", "no answer", "")})
    told = [r for r in judge_all(view, found, (ids.NODES,)) if r.host in {"gpu-2", None}]
    assert {r.status for r in told} == {Status.NOT_ASSESSED}
    assert overall(told) is Verdict.INCOMPLETE
    (finding,) = [f for f in findings(told) if f.result.host == "gpu-2"]
    assert finding.result.cause == f"{WORK.text}; not judged"
    assert finding.result.fix == "when the work is done: appliance node return gpu-2"
    assert [r.id for r in finding.explains] == ["host.reachable"]


def test_faults_of_other_hosts_and_what_does_not_follow_stay_failures() -> None:
    view = view_with(gpu_2=REASON)
    mine = result("gpu.count", "gpu-2")
    follows = result("observe.targets", "head", "gpu-2", explained_by=mine.name)
    kept = [
        result("gpu.count", "gpu-1"),
        result("fabric.sm", None),
        result("base.neighbours", "gpu-2", "gpu-1"),
    ]
    told = set_aside(view, [mine, follows, *kept])
    assert [r.status for r in told[:2]] == [Status.NOT_ASSESSED] * 2
    assert told[2:5] == kept
    assert told[5].kind is Kind.MAINTENANCE  # Told although no check of a scheduler ran.
    assert overall(told) is Verdict.FAILED


def test_a_host_that_also_serves_others_is_judged_as_always() -> None:
    broken = result("storage.exports", "gpu-2")
    assert broken in set_aside(view_with("storage", gpu_2=REASON), [broken])


def test_without_maintenance_nothing_changes() -> None:
    said = [result("gpu.count", "gpu-2")]
    assert set_aside(view_with(gpu_2="test [root@now]"), said) == said


def test_a_cordon_of_kubernetes_is_read_as_well() -> None:
    nodes = [{"name": "gpu-1", "ready": True, "cordoned": True, "cordoned_for": str(WORK)}]
    site = SITE.model_copy(update={"kubernetes": KubernetesOptions(version="1.35")})
    facts = {"head": facts_of("head", kubernetes={"api": "ok", "nodes": nodes})}
    assert planned(View(load_profile("hpc"), site, facts)) == {"gpu-1": WORK}
