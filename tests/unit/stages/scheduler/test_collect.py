"""Releases, pods and what a cluster has of them, from lists of its API."""

import base64
import gzip
import json
from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from appliance.probe.ask import Ask, Refused
from appliance.probe.problems import Unreadable
from appliance.stages.kubernetes.collect.pods import pods
from appliance.stages.scheduler.collect import scheduler
from appliance.stages.scheduler.collect.images import images
from appliance.stages.scheduler.facts import LiveQueue, SchedulerFacts
from appliance.stages.scheduler.queues.manifest import digest
from tests.support.cluster_api import Answer, Cluster, Serve, serve
from tests.support.probe_trees import grow

__all__ = ["grow", "serve"]


Grow = Callable[[dict[str, Any]], str]


def record(chart: str, version: str) -> str:
    """A revision as Helm keeps it."""
    about = {"name": "x", "chart": {"metadata": {"name": chart, "version": version}}}
    packed = base64.b64encode(gzip.compress(json.dumps(about).encode()))
    return base64.b64encode(packed).decode()


def secret(name: str, revision: str, status: str, release: str) -> dict[str, Any]:
    """A revision of a release in a namespace of its name."""
    labels = {"owner": "helm", "name": name, "version": revision, "status": status}
    meta = {"name": f"sh.helm.release.v1.{name}.v{revision}", "namespace": name, "labels": labels}
    return {"metadata": meta, "data": {"release": release}}


def pod(name: str, phase: str, ready: bool, **status: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": {"name": name, "namespace": "kai-scheduler"},
        "status": {"phase": phase, "conditions": conditions, **status},
    }


def test_the_newest_record_of_each_release_counts() -> None:
    old, new = record("kai-scheduler", "v0.16.0"), record("kai-scheduler", "v0.17.0")
    said = [
        secret("kai-scheduler", "9", "deployed", old),
        secret("kai-scheduler", "10", "failed", new),
        secret("kai-scheduler", "8", "failed", old),
        secret("gpu-operator", "1", "pending-install", record("gpu-operator", "v26.3.0")),
        {"metadata": {"name": "no-record", "namespace": "somewhere", "labels": {"owner": "helm"}}},
    ]
    found = [tuple(one.values()) for one in scheduler.releases(said)]
    assert found == [
        ("gpu-operator", "gpu-operator", 1, "pending-install", "gpu-operator", "v26.3.0"),
        ("kai-scheduler", "kai-scheduler", 10, "failed", "kai-scheduler", "v0.17.0"),
    ]
    assert scheduler.releases([]) == []
    with pytest.raises(Unreadable):
        scheduler.releases([secret("kai-scheduler", "1", "deployed", "e30=")])


def test_a_record_names_its_chart() -> None:
    assert scheduler.chart(record("kai-scheduler", "v0.17.0")) == ("kai-scheduler", "v0.17.0")


@pytest.mark.parametrize("payload", ["", "%%%", base64.b64encode(b"x").decode(), "e30="])
def test_what_is_no_record_is_not_taken_for_one(payload: str) -> None:
    with pytest.raises(Unreadable):
        scheduler.chart(payload)


def test_a_pod_that_is_not_ready_says_why() -> None:
    waiting = {"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}
    begun = {"state": {"waiting": {"reason": "PodInitializing"}}}
    unplaced = [
        {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"},
        {"type": "Ready", "status": "False"},
    ]
    found = pods(
        [
            pod("well", "Running", True),
            pod("done", "Succeeded", False),
            pod("image", "Pending", False, containerStatuses=[begun, waiting]),
            pod("room", "Pending", False, conditions=unplaced),
            pod("lost", "Failed", False, message="The node was low on memory"),
            pod("new", "Pending", False, conditions=None),
        ]
    )
    assert {p["name"]: (p["ready"], p["reason"]) for p in found} == {
        "well": (True, ""),
        "image": (False, "ErrImagePull: no such image"),
        "room": (False, "0/3 nodes are available"),
        "lost": (False, "The node was low on memory"),
        "new": (False, "Pending"),
    }


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (
            {"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]},
            'ContainerCreating: FailedMount: secret "x" not found',
        ),
        (
            {"conditions": [{"status": "False", "message": "containers with unready status: [x]"}]},
            'FailedMount: secret "x" not found',
        ),
        (
            {"conditions": [{"status": "False", "message": "0/3 nodes are available"}]},
            "0/3 nodes are available",
        ),
    ],
)
def test_what_only_an_event_says_is_the_reason(status: dict[str, Any], reason: str) -> None:
    told = {"Pod/a": 'FailedMount: secret "x" not found', "Pod/b": "of another pod"}
    (found,) = pods([pod("a", "Pending", False, **status)], told)
    assert found["reason"] == reason


def of(kind: str, owner: str, made: str, one: dict[str, Any]) -> dict[str, Any]:
    about = {"ownerReferences": [{"kind": kind, "name": owner}], "creationTimestamp": made}
    return {**one, "metadata": {**one["metadata"], **about}}


@pytest.mark.parametrize(
    ("kind", "later", "kept"),
    [
        (
            "ReplicaSet",
            of("ReplicaSet", "x-7d", "2026-11-22T10:00:00Z", pod("b", "Running", True)),
            1,
        ),
        (
            "ReplicaSet",
            of("ReplicaSet", "x-9c", "2026-11-22T10:00:00Z", pod("b", "Running", True)),
            1,
        ),
        ("Job", of("Job", "x-7d", "2026-11-22T10:00:00Z", pod("b", "Succeeded", False)), 0),
        (
            "ReplicaSet",
            of("ReplicaSet", "y-7d", "2026-11-22T10:00:00Z", pod("b", "Running", True)),
            2,
        ),
        (
            "ReplicaSet",
            of("ReplicaSet", "x-7d", "2026-11-22T08:00:00Z", pod("b", "Running", True)),
            2,
        ),
        ("Job", of("Job", "x-7d", "2026-11-22T10:00:00Z", pod("b", "Failed", False)), 2),
        (
            "DaemonSet",
            of("DaemonSet", "x-7d", "2026-11-22T10:00:00Z", pod("b", "Running", True)),
            2,
        ),
    ],
)
def test_a_pod_that_was_evicted_counts_no_more_once_another_was_made_for_it(
    kind: str, later: dict[str, Any], kept: int
) -> None:
    evicted = of(kind, "x-7d", "2026-11-22T09:00:00Z", pod("a", "Failed", False))
    assert len(pods([evicted, later])) == kept


def test_what_a_pod_waits_for_is_one_line() -> None:
    said = {"reason": "CrashLoopBackOff", "message": "it said:\n  no such file\n"}
    waiting = pod("x", "Running", False, containerStatuses=[{"state": {"waiting": said}}])
    (found,) = pods([waiting])
    assert found["reason"] == "CrashLoopBackOff: it said: no such file"


OFFERED = {"nvidia.com/gpu": "8", "rdma/fabric": "64"}


def test_a_node_without_a_device_plugin_offers_nothing() -> None:
    nodes = [
        {
            "kind": "Node",
            "metadata": {"name": "a"},
            "status": {"allocatable": OFFERED},
        },
        {"kind": "Node", "metadata": {"name": "b"}, "status": {}},
        {"kind": "StorageClass", "metadata": {"name": "c"}},
    ]
    assert scheduler.offered(nodes, scheduler.RDMA) == {"a": 64, "b": 0}
    with pytest.raises(Unreadable):
        scheduler.offered([{"kind": "Node"}], scheduler.RDMA)


@pytest.mark.parametrize("said", ["1k", "100m", "9" * 5000, "-1", "", None, "²"])
def test_a_quantity_that_one_kubelet_makes_up_hides_no_other_node(said: object) -> None:
    nodes = [
        {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {scheduler.RDMA: n}}}
        for name, n in (("a", "64"), ("b", said))
    ]
    assert scheduler.offered(nodes, scheduler.RDMA) == {"a": 64, "b": 0}


def test_statuses_that_a_kubelet_makes_up_are_no_images() -> None:
    """Else one host could list more images than the answer of a control host may have."""
    made_up = [{"name": f"c{n}", "image": "x", "imageID": str(n)} for n in range(30_000)]
    again = [{"name": "it", "imageID": "x" * (1 << 20)}, {"name": "it", "imageID": "other"}]
    found = images(
        [
            {
                "metadata": {"name": "p"},
                "spec": {"containers": [{"name": "it", "image": "kai:1"}], "nodeName": "gpu-2"},
                "status": {"phase": "Running", "containerStatuses": [*again, *made_up]},
            }
        ],
        "kai",
    )
    assert len(json.dumps(found)) < 1024
    assert [one["image"] for one in found] == ["kai:1"]


def a_class(name: str, marks: dict[str, str]) -> dict[str, Any]:
    return {"kind": "StorageClass", "metadata": {"name": name, "annotations": marks}}


DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}
CLASSES = [
    a_class("nfs", DEFAULT),
    a_class("old", dict.fromkeys(DEFAULT, "false")),
    {"kind": "StorageClass", "metadata": {"name": "plain"}},
]


def test_only_classes_marked_so_are_the_default() -> None:
    assert scheduler.default_classes(CLASSES) == ["nfs"]
    beta = {"storageclass.beta.kubernetes.io/is-default-class": "true"}
    both = [*CLASSES, a_class("beta", beta)]
    assert scheduler.default_classes(both) == ["beta", "nfs"]
    assert scheduler.default_classes([]) == []
    with pytest.raises(Unreadable):
        scheduler.default_classes([{"kind": "StorageClass"}])


def named(kind: str, name: str, space: str, **body: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, "namespace": space}, **body}


RULES = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": []}]}
NETWORK = [
    named("NetworkPolicy", "other", "kai-scheduler", spec=RULES),
    named("NetworkPolicy", "appliance", "mlflow", spec={"podSelector": {}}),
    named("NetworkPolicy", "other", "mlflow", spec=RULES),
    named(
        "DaemonSet",
        "calico-node",
        "calico-system",
        status={"numberReady": 3, "desiredNumberScheduled": 4},
    ),
    named("DaemonSet", "cilium", "kube-system", status={}),
    named("DaemonSet", "kube-flannel-ds", "kube-flannel", status={"numberReady": 4}),
]


def test_policies_are_ours_or_lie_beside_a_release_and_are_told_apart_by_their_rules() -> None:
    brought = named("NetworkPolicy", "hub", "kai-scheduler", spec={**RULES, "ingress": []})
    brought["metadata"]["annotations"] = {"meta.helm.sh/release-name": "jupyterhub"}
    found = scheduler.policies([*NETWORK, brought], ["kai-scheduler"])
    assert [(p["namespace"], p["name"], p["release"], p["admits"]) for p in found] == [
        ("kai-scheduler", "other", "", True),
        ("mlflow", "appliance", "", False),
        ("kai-scheduler", "hub", "jupyterhub", False),
    ]
    assert found[0]["digest"] == digest(dict(reversed(RULES.items())))
    with pytest.raises(Unreadable):
        scheduler.policies([{"kind": "NetworkPolicy"}], [])


def test_only_networks_known_to_enforce_policies_count_as_such() -> None:
    assert scheduler.enforcers(NETWORK) == [
        {"name": "calico-node", "namespace": "calico-system", "ready": 3, "wanted": 4},
        {"name": "cilium", "namespace": "kube-system", "ready": 0, "wanted": 0},
    ]
    with pytest.raises(Unreadable):
        scheduler.enforcers([{"kind": "DaemonSet"}])


KAI, DNS = ({"name": "main", "image": image} for image in ("a/kai:1", "a/dns:1"))


def ran(container: dict[str, Any], image_id: str, host: str, **status: Any) -> dict[str, Any]:
    """A pod of one container on a host."""
    state = {
        "name": "main",
        "image": "a/alias:2",
        "imageID": image_id,
        "containerID": "c",
        **status,
    }
    found = pod("well", "Running", True, containerStatuses=[state])
    return {**found, "spec": {"nodeName": host, "containers": [container]}}


def test_images_are_told_by_what_the_pods_ask_for_and_what_runs() -> None:
    first = ran(KAI, "a/kai@sha256:1", "gpu-2")
    first["spec"]["initContainers"] = [{"name": "init", "image": "a/init:1"}]
    begun = {"name": "init", "image": "", "imageID": "a/init@sha256:3", "containerID": "c"}
    first["status"]["initContainerStatuses"] = [begun]
    ended = ran(KAI, "a/kai@sha256:9", "gpu-1")
    ended["status"]["phase"] = "Succeeded"
    running = [
        first,
        ran(KAI, "a/kai@sha256:1", "gpu-1"),
        ran(KAI, "a/kai@sha256:2", "gpu-3"),
        ran(KAI, "", "gpu-4"),
        ran(KAI, "", "gpu-5", containerID=""),
        ended,
        {"metadata": {"name": "unplaced"}, "status": {"phase": "Pending"}},
    ]
    found = images(running, "kai")
    assert {(i["image"], i["id"]): i["hosts"] for i in found} == {
        ("a/kai:1", ""): ["gpu-4"],
        ("a/kai:1", "a/kai@sha256:1"): ["gpu-1", "gpu-2"],
        ("a/kai:1", "a/kai@sha256:2"): ["gpu-3"],
        ("a/init:1", "a/init@sha256:3"): ["gpu-2"],
    }
    assert {i["namespace"] for i in found} == {"kai"}


HELD = {"kind": "PersistentVolumeClaim", "namespace": "kai-a", "name": "appliance-tree-home"}
VOLUME = {
    "claimRef": {**HELD, "uid": "1"},
    "mountOptions": ["hard", "ro"],
    "nfs": {"server": "10.0.0.10", "path": "/srv/a"},
    "persistentVolumeReclaimPolicy": "Retain",
}


def volumes(phase: str = "Bound", **volume: Any) -> list[dict[str, Any]]:
    """A claim, and its volume."""
    claim = named("PersistentVolumeClaim", "appliance-tree-home", "kai-a", spec={"volumeName": "v"})
    claim["status"] = {"phase": phase}
    spec = {**VOLUME, **volume}
    return [claim, {"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": spec}]


def test_a_tree_is_told_by_its_claim_and_the_volume_that_it_names() -> None:
    (found,) = scheduler.trees(volumes())
    assert found == {
        "name": "appliance-tree-home",
        "namespace": "kai-a",
        "phase": "Bound",
        "volume": "v",
        "server": "10.0.0.10",
        "path": "/srv/a",
        "options": ["hard", "ro"],
        "held": True,
    }
    for other in (
        {"claimRef": {**HELD, "namespace": "kai-b"}},
        {"claimRef": None},
        {"persistentVolumeReclaimPolicy": "Delete"},
    ):
        (found,) = scheduler.trees(volumes(**other))
        assert not found["held"]
    (found,) = scheduler.trees(volumes("Lost")[:1])
    assert (found["phase"], found["server"], found["held"]) == ("Lost", "", False)
    with pytest.raises(Unreadable):
        scheduler.trees([{"kind": "PersistentVolumeClaim"}])


@pytest.mark.parametrize("item", [1, {"status": 1}])
def test_what_is_no_list_of_pods_tells_no_images(item: Any) -> None:
    with pytest.raises(Unreadable):
        images([item], "kai")


def paths(paths: dict[str, str], items: list[dict[str, Any]]) -> dict[str, Answer]:
    """Answers to the requests for these kinds: without the kind of each, as the API leaves it out."""
    bare: dict[str, list[dict[str, Any]]] = {kind: [] for kind in paths} | {
        kind: [{k: v for k, v in item.items() if k != "kind"} for item in group]
        for kind, group in groupby(sorted(items, key=itemgetter("kind")), itemgetter("kind"))
    }
    return {path: {"items": bare[kind]} for kind, path in paths.items()}


SPACE = "kai-scheduler"
APPS = f"/apis/apps/v1/namespaces/{SPACE}"
WARNINGS = f"/api/v1/namespaces/{SPACE}/events?fieldSelector=type%3DWarning"
REFUSED = {
    "metadata": {"name": "refused.1"},
    "involvedObject": {"kind": "ReplicaSet", "name": "refused-7d"},
    "reason": "FailedCreate",
    "message": "exceeded quota: site, requested: pods=1",
}
LIVE = {
    "metadata": {"name": "a"},
    "spec": {"parentQueue": "b", "resources": {"gpu": {"quota": 8, "limit": -1}}},
}


def test_a_control_plane_tells_all(grow: Grow, serve: Serve) -> None:
    nodes = [{"kind": "Node", "metadata": {"name": "a"}, "status": {}}]
    kai = secret("kai-scheduler", "1", "deployed", record("kai-scheduler", "v0.17.0"))
    mode = {"metadata": {"name": "cilium-config"}, "data": {"enable-policy": "never"}}
    cluster = serve(
        {
            scheduler.RECORDS: {"items": [kai]},
            "/api/v1/namespaces/kube-system/pods": {"items": [ran(DNS, "sha256:2", "head")]},
            "/api/v1/namespaces/kai-scheduler/pods": {
                "items": [ran(KAI, "a/kai@sha256:1", "gpu-1")]
            },
            "/api/v1/namespaces/kube-system/configmaps?fieldSelector=metadata.name%3Dcilium-config": {
                "items": [mode]
            },
            **paths(scheduler.KINDS, [*nodes, *CLASSES, *NETWORK]),
            **paths(scheduler.VOLUMES, volumes()),
            f"{APPS}/deployments": {
                "items": [
                    {**named("Deployment", "stopped", SPACE), "spec": {"replicas": 0}},
                    {**named("Deployment", "refused", SPACE), "spec": {"replicas": 1}},
                ]
            },
            f"{APPS}/daemonsets": {"items": []},
            f"{APPS}/statefulsets": {"items": []},
            WARNINGS: {"items": [REFUSED]},
            scheduler.QUEUES: {"items": [LIVE]},
            f"POST /api/v1/namespaces/kai-a/pods?dryRun=All bea {scheduler.EVERYONE}": (201, "{}"),
            f"POST /api/v1/namespaces/kai-b/pods?dryRun=All it team {scheduler.EVERYONE}": (
                403,
                "no",
            ),
        }
    )
    asked = {"kai-a": ["bea", "", "{}"], "kai-b": ["it", "team", "{}"]}
    ask = Ask({"submissions": asked}, grow({"/etc/kubernetes/admin.conf": cluster.kubeconfig()}))
    found = SchedulerFacts.model_validate(scheduler.collect(ask)["scheduler"])
    assert ask.errors == {}
    assert found.releases is not None
    assert [(r.name, r.version, r.status) for r in found.releases] == [
        ("kai-scheduler", "v0.17.0", "deployed")
    ]
    assert found.pods is not None
    assert [p.name for p in found.pods] == ["well"]
    assert found.rdma == {"a": 0}
    assert found.trees is not None
    assert [(t.name, t.held) for t in found.trees] == [("appliance-tree-home", True)]
    assert found.default_classes == ("nfs",)
    assert found.policies is not None
    assert [p.name for p in found.policies] == ["other", "appliance"]
    assert found.enforcers is not None
    assert [(e.name, e.mode) for e in found.enforcers] == [("calico-node", ""), ("cilium", "never")]
    assert found.images is not None
    assert [(i.namespace, i.image, i.id, i.hosts) for i in found.images] == [
        ("kai-scheduler", "a/kai:1", "a/kai@sha256:1", ("gpu-1",)),
        ("kube-system", "a/dns:1", "sha256:2", ("head",)),
    ]
    assert found.stopped == ("kai-scheduler/stopped",)
    assert found.lacking is not None
    assert [(w.name, w.why) for w in found.lacking] == [
        ("refused", "FailedCreate: exceeded quota: site, requested: pods=1")
    ]
    assert found.queues == (LiveQueue(name="a", parent="b", gpu_quota=8, gpu_limit=-1),)
    assert found.submissions == {"kai-a": "", "kai-b": "403: no"}


@pytest.mark.parametrize("given", [[], {"a": ["x"]}, {"a": ["x", "y", "z\r\nX: 1"]}])
def test_a_request_that_could_forge_a_header_is_refused(grow: Grow, given: Any) -> None:
    with pytest.raises(Refused):
        Ask({"submissions": given or [1]}, grow({}))


def test_another_host_has_nothing_to_tell_and_an_api_that_is_down_says_why(
    grow: Grow, tmp_path: Path
) -> None:
    assert scheduler.collect(Ask({}, grow({"/etc/hostname": "gpu-1\n"}))) == {"scheduler": None}
    nowhere = Cluster({}, tmp_path, port=1).kubeconfig()
    ask = Ask({}, grow({"/etc/kubernetes/admin.conf": nowhere}))
    assert scheduler.collect(ask)["scheduler"] == dict.fromkeys(scheduler.PARTS)
    assert ask.errors["scheduler"] == "127.0.0.1:1: Connection refused"
