"""Pods of the cluster itself: each way in which one cannot run is named with its host, its reason and a remedy."""

import json
from pathlib import Path
from typing import Any

import pytest

from appliance.checks.check import View
from appliance.config.load import load_profile
from appliance.models.result import CheckResult, Status
from appliance.models.site import Role, Site
from appliance.probe.ask import Ask
from appliance.stages.kubernetes import ids
from appliance.stages.kubernetes.collect import platform
from appliance.stages.kubernetes.collect.cluster import IMAGES, images_gone
from appliance.stages.kubernetes.facts import Kubernetes, KubernetesNode, Workload
from tests.support.judging import said_by
from tests.support.kubernetes_facts import SITE, facts

COREDNS = "kube-system/coredns"
IMAGE = "registry.k8s.io/coredns/coredns:v1.13.1"
OFFLINE = SITE.model_copy(
    update={"kubernetes": SITE.kubernetes.model_copy(update={"source": "/opt/source"})}  # type: ignore[union-attr]
)


def workload(*pods: dict[str, Any], **given: Any) -> Workload:
    """CoreDNS with two pods, of which these are not ready."""
    good = {"name": "coredns", "namespace": "kube-system", "kind": "Deployment", "wanted": 2}
    ready = 2 - len(pods)
    hosts = ("head", "gpu-1")[:ready]
    return Workload.model_validate({**good, "ready": ready, "hosts": hosts, "pods": pods, **given})


def ill(kind: str, host: str = "gpu-1", **given: Any) -> dict[str, Any]:
    """A pod that is not ready for ten minutes."""
    return {"name": "coredns-a", "host": host, "kind": kind, "image": IMAGE, "age_s": 600, **given}


def judged(*workloads: Workload, site: Site = SITE, **given: Any) -> list[CheckResult]:
    """What the check reports of a cluster."""
    nodes = [KubernetesNode(name=name, ready=True) for name in ("head", "gpu-1", "gpu-2")]
    known = Kubernetes.model_validate(
        {"api": "ok", "nodes": nodes, "workloads": workloads, **given}
    )
    return said_by(ids.PODS, View(load_profile("hpc"), site, {"head": facts("head", known)}))


def test_a_cluster_whose_pods_are_ready_passes() -> None:
    (result,) = judged(workload())
    assert (result.status, result.evidence) == (Status.PASS, "2 pods of kube-system")


@pytest.mark.parametrize(
    ("kind", "said", "cause", "fix"),
    [
        ("ImagePullBackOff", "", f"image {IMAGE} is missing", "crictl pull"),
        ("ErrImageNeverPull", "", f"image {IMAGE} is missing", "crictl pull"),
        ("CrashLoopBackOff", "it ended with 1", "it ended with 1", "--previous"),
        ("OOMKilled", "", "OOMKilled", "memory limit"),
        ("CreateContainerConfigError", 'secret "x" not found', 'secret "x"', "addon coredns"),
        ("FailedMount", 'secret "x" not found', 'secret "x"', "--full --hosts head"),
        ("FailedCreatePodSandBox", "no CNI", "no CNI", "appliance deploy --hosts gpu-1"),
        ("RunContainerError", "no", "RunContainerError: no", "describe pod coredns-a"),
    ],
)
def test_a_pod_that_cannot_run_is_named_with_its_host_and_reason(
    kind: str, said: str, cause: str, fix: str
) -> None:
    (result,) = judged(workload(ill(kind, said=said)))
    assert (result.status, result.target) == (Status.FAIL, f"gpu-1/{COREDNS}")
    assert cause in result.cause
    assert fix in result.fix


def test_what_kubeadm_did_not_create_is_created_by_hand_or_by_the_stage() -> None:
    pod = ill("FailedMount", said='secret "x" not found')
    (result,) = judged(workload(pod, name="kube-router", wanted=1, ready=0, hosts=()))
    assert "create the Secret" in result.fix
    assert "addon" not in result.fix


@pytest.mark.parametrize(("name", "named"), [("etcd-head", ("gpu-1",)), ("etcd-head-x", ())])
def test_a_pod_of_the_control_plane_names_the_control_hosts_that_are_silent(
    name: str, named: tuple[str, ...]
) -> None:
    hosts = [
        host.model_copy(update={"roles": frozenset({Role.CONTROL})})
        if host.name == "gpu-1"
        else host
        for host in SITE.hosts
    ]
    site = SITE.model_copy(update={"hosts": tuple(hosts)})
    pod = ill("Unhealthy", "head") | {"name": name}
    (result,) = judged(workload(pod, name=name, wanted=1, ready=0, hosts=()), site=site)
    assert (result.status, result.names) == (Status.FAIL, named)


def test_an_image_of_the_offline_source_comes_back_with_a_deployment() -> None:
    (result,) = judged(workload(ill("ImagePullBackOff")), site=OFFLINE)
    assert result.fix.startswith("appliance deploy --hosts gpu-1 imports it")


def test_pods_of_one_host_with_one_reason_are_one_finding() -> None:
    two = (ill("ImagePullBackOff"), ill("ImagePullBackOff", name="coredns-b"))
    assert len(judged(workload(*two))) == 1
    assert len(judged(workload(two[0], ill("OOMKilled", host="gpu-2")))) == 2


def test_a_pod_without_a_place_is_a_failure_unless_a_host_is_closed_and_another_serves() -> None:
    waits = ill("Unschedulable", host="", said="0/3 nodes are available: 3 had taints")
    (result,) = judged(workload(waits))
    assert (result.status, result.target) == (Status.FAIL, f"cluster/{COREDNS}")
    assert "0/3 nodes are available" in result.cause
    assert "uncordon a host" in result.fix
    tainted = [
        KubernetesNode(name=name, ready=True, taints=("a=b:NoSchedule",))
        for name in ("head", "gpu-1")
    ]
    (result,) = judged(workload(waits, waits), nodes=tainted)
    assert "kubectl taint nodes head gpu-1 a=b:NoSchedule-;" in result.fix
    slurm = SITE.model_copy(update={"hosts": (SITE.host("head"), SITE.host("gpu-2"))})
    (alone,) = judged(workload(waits), site=slurm)
    assert alone.fix.startswith("appliance deploy lets all pods of CoreDNS run on one host")
    cordoned = [KubernetesNode(name="head", ready=True, cordoned=True)]
    (result,) = judged(workload(waits), nodes=cordoned)
    assert result.status is Status.WARN
    (result,) = judged(workload(waits, waits), nodes=cordoned)
    assert result.status is Status.FAIL


def test_a_young_pod_may_still_start() -> None:
    young = ill("ContainerCreating", age_s=20)
    (result,) = judged(workload(young))
    assert result.status is Status.PASS
    (result,) = judged(workload(young, young))
    assert result.status is Status.NOT_ASSESSED
    (result,) = judged(workload({**young, "age_s": None}))
    assert result.status is Status.FAIL
    (result,) = judged(workload(ill("ImagePullBackOff", age_s=20)))
    assert result.status is Status.FAIL


def test_pods_that_are_not_made_are_named_with_the_reason() -> None:
    refused = "pods is forbidden: exceeded quota: site, requested: pods=1, used: pods=1"
    (result,) = judged(workload(ready=1, wanted=2, why=refused))
    assert result.status is Status.FAIL
    assert result.cause == f"kube-system/coredns has 1 of 2 pods: {refused}"
    assert "kubectl -n kube-system delete resourcequota site;" in result.fix
    assert result.fix.endswith("kubectl -n kube-system rollout restart deployment coredns")
    (result,) = judged(workload(ready=1, wanted=2, why="FailedCreate: no such priority class"))
    assert result.fix == "kubectl -n kube-system describe deployment coredns"
    (result,) = judged(workload(ready=0, wanted=0, hosts=()))
    assert result.status is Status.FAIL
    assert "scale deployment coredns" in result.fix


def test_the_loss_of_the_host_of_all_pods_is_named_before_and_after() -> None:
    (result,) = judged(workload(hosts=("head",)))
    assert result.status is Status.WARN
    assert "all 2 pods of kube-system/coredns run on head" in result.cause
    lost = [KubernetesNode(name="gpu-1", ready=False), KubernetesNode(name="head", ready=True)]
    gone = ill("NotReady", host="gpu-1")
    (result,) = judged(workload(gone, gone), nodes=lost)
    assert (result.status, result.names) == (Status.FAIL, ("gpu-1",))
    # With another pod that serves, the lost host is the finding of kubernetes.nodes alone.
    (result,) = judged(workload(gone), nodes=lost)
    assert result.status is Status.PASS


def test_pods_that_nobody_knows_are_not_assessed() -> None:
    for given in ({"workloads": None}, {"workloads": ()}):
        (result,) = judged(**given)
        assert result.status is Status.NOT_ASSESSED
    (result,) = said_by(ids.PODS, View(load_profile("hpc"), SITE, {}))
    assert result.status is Status.NOT_ASSESSED


def stored(gone: tuple[str, ...] | None, site: Site = OFFLINE) -> list[CheckResult]:
    """What the check of imported images reports of a GPU host."""
    hosts = {h.name: facts(h.name, Kubernetes(images_gone=gone)) for h in site.hosts}
    found = said_by(ids.STORED_IMAGES, View(load_profile("hpc"), site, hosts))
    return [result for result in found if result.host == "gpu-1"]


def test_an_imported_image_that_is_gone_is_named() -> None:
    (result,) = stored((IMAGE,))
    assert result.status is Status.FAIL
    assert IMAGE in result.cause
    assert result.fix == "appliance deploy --hosts gpu-1"
    assert [r.status for r in stored(())] == [Status.PASS]
    assert [r.status for r in stored(None)] == [Status.NOT_ASSESSED]
    assert stored((IMAGE,), SITE) == []


def owned(kind: str, name: str) -> list[dict[str, str]]:
    """Who makes a pod."""
    return [{"kind": kind, "name": name}]


def pod(name: str = "coredns-7d-x", owner: str = "ReplicaSet/coredns-7d", **status: Any) -> Any:
    """A pod as the API has it."""
    kind, _, of = owner.partition("/")
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "kube-system",
            "ownerReferences": owned(kind, of),
            "creationTimestamp": "2026-11-29T10:00:00Z",
        },
        "spec": {
            "nodeName": "gpu-1",
            "containers": [{"name": "coredns", "image": IMAGE}],
        },
        "status": {"phase": "Pending", "conditions": [], **status},
    }


def deployment(replicas: int = 1, **status: Any) -> Any:
    """CoreDNS as the API has it."""
    meta = {"name": "coredns", "namespace": "kube-system"}
    return {
        "kind": "Deployment",
        "metadata": meta,
        "spec": {"replicas": replicas},
        "status": status,
    }


READY = [{"type": "Ready", "status": "True"}]


def waiting(reason: str, message: str = "", **more: Any) -> dict[str, Any]:
    """The status of a pod whose container waits."""
    state = {"waiting": {"reason": reason, "message": message}}
    return {"containerStatuses": [{"name": "coredns", "state": state, **more}]}


@pytest.mark.parametrize(
    ("status", "warning", "kind", "said"),
    [
        (waiting("ImagePullBackOff", "Back-off"), "", "ImagePullBackOff", "Back-off"),
        (
            waiting(
                "CrashLoopBackOff",
                "back-off",
                lastState={"terminated": {"reason": "OOMKilled", "exitCode": 137}},
            ),
            "",
            "OOMKilled",
            "its container ended with 137",
        ),
        (
            waiting(
                "CrashLoopBackOff", lastState={"terminated": {"reason": "Error", "exitCode": 2}}
            ),
            "",
            "CrashLoopBackOff",
            "its container ended with 2",
        ),
        (
            waiting("ContainerCreating"),
            'FailedMount: secret "x" not found',
            "FailedMount",
            'secret "x" not found',
        ),
        (waiting("ContainerCreating"), "", "ContainerCreating", ""),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no node"}]},
            "FailedScheduling: old",
            "Unschedulable",
            "no node",
        ),
        (
            {"containerStatuses": [{"name": "coredns", "state": {"running": {}}}]},
            "Unhealthy: probe failed",
            "Unhealthy",
            "probe failed",
        ),
        ({}, "", "NotReady", ""),
    ],
)
def test_the_reason_of_a_pod_is_read_where_it_stands(
    status: dict[str, Any], warning: str, kind: str, said: str
) -> None:
    warnings = {"Pod/coredns-7d-x": warning} if warning else {}
    (found,) = platform.judge([deployment(), pod(**status)], warnings)
    (one,) = found["pods"]
    assert (one["kind"], one["said"], one["host"]) == (kind, said, "gpu-1")
    Workload.model_validate(found)


def test_ready_pods_are_counted_with_their_hosts_and_pods_that_go_are_not() -> None:
    leaving = pod("coredns-7d-y")
    leaving["metadata"]["deletionTimestamp"] = "2026-11-29T10:00:00Z"
    static = pod("kube-apiserver-head", "Node/head", conditions=READY)
    items = [deployment(), pod(conditions=READY), leaving, pod("x", phase="Succeeded"), static]
    found = {one["name"]: one for one in platform.judge(items, {})}
    assert (found["coredns"]["ready"], found["coredns"]["hosts"]) == (1, ["gpu-1"])
    assert found["coredns"]["pods"] == []
    assert found["kube-apiserver-head"]["ready"] == 1


def test_the_reason_why_no_pod_is_made_is_read_of_the_workload_or_its_events() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}
    (found,) = platform.judge([deployment(2, conditions=[failure])], {})
    assert (found["wanted"], found["why"]) == (2, "exceeded quota")
    warnings = {"ReplicaSet/coredns-7d": "FailedCreate: no service account"}
    (found,) = platform.judge([deployment(2)], warnings)
    assert found["why"] == "FailedCreate: no service account"


def test_the_newest_warning_of_an_object_counts() -> None:
    about = {"kind": "Pod", "name": "a"}
    old, new = (
        {"involvedObject": about, "lastTimestamp": when, "reason": why, "message": "m"}
        for when, why in (("2026-01-01T00:00:00Z", "Old"), ("2026-01-02T00:00:00Z", "New"))
    )
    assert platform.events([new, old]) == {"Pod/a": "New: m"}


def test_images_that_containerd_has_no_more_are_found(tmp_path: Path) -> None:
    ask = Ask({"areas": []}, str(tmp_path))
    assert images_gone(ask) is None
    listed = tmp_path / IMAGES.lstrip("/")
    listed.parent.mkdir(parents=True)
    listed.write_text(json.dumps(["a:1", "b:1"]))
    program = tmp_path / "usr/bin/ctr"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho a:1\n")
    program.chmod(0o755)
    assert images_gone(ask) == ["b:1"]
    listed.write_text("not json")
    assert images_gone(ask) is None
    assert "images.json" in ask.errors["kubernetes"]


def test_a_reason_that_a_kubelet_makes_up_stays_short() -> None:
    waiting = {"state": {"waiting": {"reason": "x" * (1 << 20)}}}
    told = platform.trouble(
        {"metadata": {"name": "kube-proxy-a"}, "status": {"containerStatuses": [waiting]}}, {}
    )
    assert len(json.dumps(told)) < 1024
