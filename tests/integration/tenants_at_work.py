"""Members of two projects at work on a cluster with the real KAI: what they send, and what became of it."""

from typing import Any

from appliance.adapters.kubernetes import KubernetesApi

Body = dict[str, Any]
ALPHA, BETA = "kai-alpha", "kai-beta"
SCHEDULER = "kai-scheduler"
SITE = """
# The rack has no RDMA device plugin.
scheduler:
  rdma: host
  projects:
    - name: alpha
      users: [alice]
      queues: [{name: train, gpu: {quota: 8}}, {name: build, work: build, gpu: {quota: 2}}]
    - name: beta
      users: [bob]
      queues: [{name: train, gpu: {quota: 4}}]
"""
SMALL_SITE = SITE.replace("quota: 4", "quota: 2").replace("quota: 8", "quota: 4")
"""The same on one host of eight."""


def template(queue: str, image: str, gpus: int) -> Body:
    """Of a pod that waits, as a member writes it."""
    box: Body = {"name": "work", "image": image, "command": ["sleep", "3600"]}
    if gpus:
        box["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return {
        "metadata": {"labels": {"kai.scheduler/queue": queue, "app": queue}},
        "spec": {
            "schedulerName": SCHEDULER,
            "terminationGracePeriodSeconds": 1,
            "containers": [box],
        },
    }


def job(name: str, space: str, queue: str, image: str, pods: int) -> Body:
    """A Job of so many pods with a GPU each, whose evicted pods come back at once."""
    made = template(queue, image, 1)
    made["spec"]["restartPolicy"] = "Never"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": space, "labels": {"kai.scheduler/queue": queue}},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "completionMode": "Indexed",
            "backoffLimitPerIndex": 1000,
            "template": made,
        },
    }


def deployment(name: str, space: str, queue: str, image: str) -> Body:
    """One pod without a GPU that is made anew when it goes."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": space},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": queue}},
            "template": template(queue, image, 0),
        },
    }


def pods(api: KubernetesApi, space: str, queue: str) -> list[Body]:
    """Pods of a queue, those about to go, too: they hold their GPUs until they are gone."""
    path = f"/api/v1/namespaces/{space}/pods?labelSelector=app%3D{queue}"
    found: list[Body] = api.send("GET", path, "list pods")[1]["items"]
    return found


def running(api: KubernetesApi, space: str, queue: str) -> int:
    """Pods of a queue that run and are not about to go."""
    return sum(
        p["status"].get("phase") == "Running" and "deletionTimestamp" not in p["metadata"]
        for p in pods(api, space, queue)
    )
