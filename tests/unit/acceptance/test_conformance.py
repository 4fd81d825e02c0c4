"""CNCF's AI conformance on clusters in memory: what is met, what is missing, and containers that see what is not theirs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from appliance.acceptance.conformance import REQUIREMENTS, Entry, Outcome, run
from appliance.acceptance.sandbox import MINE, Resource
from appliance.actions.trials.conformance import product, write
from appliance.checks.check import judged
from appliance.config.document import read
from appliance.models.result import CLUSTER, CheckResult, Status
from tests.support.clusters import ONE_HOST, node
from tests.support.conformance_cluster import QUICK, SERVED, Cluster


def tried(cluster: Cluster, **known: Any) -> dict[str, Entry]:
    return {e.requirement.id: e for e in run(cluster, cluster, QUICK, **known)}


def outcomes(entries: dict[str, Entry]) -> dict[str, str]:
    return {name: entry.shown.outcome.value for name, entry in entries.items()}


def verdict(name: str, status: Status) -> CheckResult:
    return judged(CLUSTER, status, cause="" if status is Status.PASS else "it failed").of(name)


def test_what_an_appliance_has_is_shown_and_what_it_lacks_is_named_with_a_remedy() -> None:
    cluster = Cluster(ONE_HOST)
    entries = tried(cluster, series=lambda _: True)
    assert outcomes(entries) == {
        "dra_support": "Partially Implemented",
        "driver_runtime_management": "Partially Implemented",
        "gpu_sharing": "Implemented",
        "virtualized_accelerator": "N/A",
        "ai_inference": "Not Implemented",
        "gang_scheduling": "Implemented",
        "cluster_autoscaling": "N/A",
        "pod_autoscaling": "Not Implemented",
        "accelerator_metrics": "Implemented",
        "ai_service_metrics": "Not Implemented",
        "secure_accelerator_access": "Implemented",
        "robust_controller": "Not Implemented",
    }
    results = {name: entry.result for name, entry in entries.items()}
    bad = [r for r in results.values() if r.status in {Status.FAIL, Status.NOT_ASSESSED}]
    assert all(r.cause and r.fix for r in bad), bad
    assert results["ai_inference"].status is Status.FAIL
    assert not cluster.find("v1", "Pod", MINE)
    assert not cluster.find("batch/v1", "Job", MINE)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("all to all", "a pod that requested no GPU sees /dev/nvidia0, /dev/nvidia1"),
        ("by variable", "set NVIDIA_VISIBLE_DEVICES=all sees /dev/nvidia0"),
        (
            "second container",
            "a container that requested no GPU, in a pod with one that requested a GPU sees /dev/nvidia",
        ),
        ("one for all", "two pods on one host see the same GPU (/dev/nvidia0)"),
    ],
)
def test_a_container_that_sees_what_is_not_its_own_fails_with_a_remedy(
    fault: str, said: str
) -> None:
    found = tried(Cluster(ONE_HOST, fault))["secure_accelerator_access"]
    assert found.shown.outcome is Outcome.MISSING
    assert said in found.shown.notes
    assert found.result.status is Status.FAIL
    assert found.result.fix
    assert found.shown.evidence["devices seen"]


@pytest.mark.parametrize(
    ("nodes", "fault", "said"),
    [
        (ONE_HOST, "silent image", "printed nothing"),
        (ONE_HOST, "no devices", "has a device /dev/nvidiaN"),
        (ONE_HOST, "no image", "does not run 30 s after its creation"),
        ((node("n1", 2), node("n2", 2)), "", "needs a host with 3 GPUs"),
        ((node("n1", 2),), "", "needs 3 GPUs, the cluster has 2"),
    ],
)
def test_what_nobody_could_see_is_left_open(
    nodes: tuple[Resource, ...], fault: str, said: str
) -> None:
    found = tried(Cluster(nodes, fault))["secure_accelerator_access"]
    assert found.shown.outcome is Outcome.OPEN
    assert said in found.shown.notes
    assert found.result.status is Status.NOT_ASSESSED


def test_gangs_in_parts_and_gpus_nobody_shares_are_missing() -> None:
    entries = tried(Cluster(ONE_HOST, "gangs in parts", "shares none"))
    assert entries["gang_scheduling"].shown.outcome is Outcome.MISSING
    assert "although not all could be" in entries["gang_scheduling"].shown.notes
    assert entries["gpu_sharing"].shown.outcome is Outcome.MISSING
    assert entries["gpu_sharing"].result.status is Status.WARN


def test_gpus_that_others_hold_leave_open_what_needs_them() -> None:
    cluster = Cluster(ONE_HOST)
    cluster.stranger(1)
    entries = tried(cluster)
    for name in ("gang_scheduling", "secure_accelerator_access"):
        assert entries[name].shown.outcome is Outcome.OPEN, name
        assert "pod of others holds GPUs" in entries[name].shown.notes


def test_metrics_are_open_without_a_prometheus_and_missing_where_a_gpu_is() -> None:
    assert tried(Cluster(ONE_HOST))["accelerator_metrics"].shown.outcome is Outcome.OPEN
    asked: list[str] = []

    def series(query: str) -> bool:
        asked.append(query)
        return "FB_USED" not in query

    found = tried(Cluster(ONE_HOST), series=series)["accelerator_metrics"]
    assert found.shown.outcome is Outcome.MISSING
    assert found.shown.notes == "Prometheus has no memory of each of the 8 GPUs"
    assert all(query.endswith(">= 8") for query in asked)


def test_what_else_is_installed_counts_and_what_was_not_tried_is_said_to_be_in_part() -> None:
    class Richer(Cluster):
        groups: ClassVar[dict[str, tuple[str, ...]]] = {
            **SERVED,
            "gateway.networking.k8s.io": ("v1",),
            "custom.metrics.k8s.io": ("v1beta2",),
        }

        def _all(self, api_version: str, kind: str) -> Iterator[Resource]:
            yes = {"type": "Accepted", "status": "True"}
            more: dict[str, Resource] = {
                "ResourceSlice": {},
                "GatewayClass": {"status": {"conditions": [yes]}},
                "ClusterPolicy": {"status": {"state": "ready"}},
            }
            if kind in more:
                yield {"metadata": {"name": "one"}, **more[kind]}
            elif kind == "CustomResourceDefinition":
                yield {"metadata": {"name": "podmonitors.monitoring.coreos.com"}}
                yield from super()._all(api_version, kind)
            else:
                yield from super()._all(api_version, kind)

    host = node("n1", 8)
    host["metadata"]["labels"]["nvidia.com/cuda.driver-version.full"] = "580.82.07"
    workloads = [
        verdict("workloads.trainer", Status.PASS),
        verdict("workloads.mlflow", Status.FAIL),
    ]
    found = outcomes(tried(Richer((host,)), workloads=lambda: workloads))
    in_part = ("dra_support", "ai_inference", "pod_autoscaling", "ai_service_metrics")
    assert {found[name] for name in in_part} == {"Partially Implemented"}
    assert found["driver_runtime_management"] == "Implemented"
    assert found["robust_controller"] == "Implemented"


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(Status.FAIL, Outcome.MISSING), (Status.NOT_ASSESSED, Outcome.OPEN)],
)
def test_an_operator_whose_work_failed_is_not_shown(status: Status, outcome: Outcome) -> None:
    workloads = [verdict("workloads.kuberay", status)]
    found = tried(Cluster(ONE_HOST), workloads=lambda: workloads)["robust_controller"]
    assert found.shown.outcome is outcome
    assert "workloads.kuberay" in found.shown.notes


def test_an_old_server_serves_no_claims() -> None:
    class Old(Cluster):
        groups: ClassVar[dict[str, tuple[str, ...]]] = {"resource.k8s.io": ("v1beta1",)}

    found = tried(Old(ONE_HOST))["dra_support"]
    assert found.shown.outcome is Outcome.MISSING
    assert "resource.k8s.io/v1" in found.shown.notes


def test_the_folder_holds_the_checklist_and_what_was_seen(tmp_path: Path) -> None:
    entries = list(run(cluster := Cluster(ONE_HOST), cluster, QUICK))
    (tmp_path / "evidence").mkdir()
    write(tmp_path, "v1.35.4", entries)
    data: Any = read(tmp_path / "PRODUCT.yaml").data
    assert data == product("v1.35.4", entries)
    assert data["metadata"]["kubernetesVersion"] == "v1.35.4"
    assert data["metadata"]["k8sConformanceUrl"] == ""
    lines = [line for area in data["spec"].values() for line in area]
    assert [line["id"] for line in lines] == [r.id for r in REQUIREMENTS]
    for line in lines:
        for file in line["evidence"]:
            assert json.loads((tmp_path / file).read_text())
    seen = json.loads((tmp_path / "evidence/secure_accelerator_access.json").read_text())
    assert seen["devices seen"]["none/work"] == []
    assert len(seen["devices seen"]["one/work"]) == 1
