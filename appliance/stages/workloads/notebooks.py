"""Notebooks: authentication, the queue of their pods, and the end of idle ones."""

from appliance.models.site import Site
from appliance.models.text_types import minutes
from appliance.stages.scheduler.queues.manifest import Manifest
from appliance.stages.scheduler.queues.tree import leaf_name
from appliance.stages.scheduler.site import Queue
from appliance.stages.workloads.serving import GPU, QUEUE_LABEL, project_of, queue_of
from appliance.stages.workloads.site import Jupyter, WorkloadsOptions
from appliance.stages.workloads.table import images

INTERACTIVE = "build"
SECRET = "OAUTH_CLIENT_SECRET"
"""Name of the OAuth secret, in the hub's environment and in its Secret."""
NAMESPACE = "jupyterhub"
KEEP = {"helm.sh/resource-policy": "keep"}
ADDRESS = f"http://proxy-public.{NAMESPACE}"
"""Address for pods: service and namespace."""


def values(site: Site, options: WorkloadsOptions, scheduler: str) -> Manifest:
    """Return the values. The chart's scheduler, placeholders and image pullers are off: pods wait in a queue like other work."""
    given, project = options.jupyter, project_of(site, options)
    assert given is not None
    queue = queue_of(project, given.queue, INTERACTIVE) if project else None
    leaf = leaf_name(project.name, queue.name) if project and queue else ""
    off = {"enabled": False}
    return {
        "cull": _culling(queue),
        "hub": _hub(given, scheduler),
        "prePuller": {"continuous": off, "hook": off},
        "proxy": {"service": {"type": "ClusterIP"}},
        "scheduling": {"userPlaceholder": off, "userScheduler": off},
        "singleuser": _notebook(options, given, leaf),
    }


def _hub(given: Jupyter, scheduler: str) -> Manifest:
    chosen = {"authenticator_class": given.authenticator, "admin_access": False}
    config = {
        **given.config,
        "JupyterHub": {**given.config.get("JupyterHub", {}), **chosen},
        "KubeSpawner": {**given.config.get("KubeSpawner", {}), "scheduler_name": scheduler},
    }
    kept = {"annotations": KEEP, **_of_class(given, "storageClassName")}
    named = {"name": given.client_secret, "key": SECRET}
    secret = {SECRET: {"valueFrom": {"secretKeyRef": named}}} if given.client_secret else {}
    return {"config": config, "db": {"pvc": kept}, "extraEnv": secret}


def _notebook(options: WorkloadsOptions, given: Jupyter, leaf: str) -> Manifest:
    image = images(options)["notebook"]
    name, _, tag = image.rpartition(":")
    gpus = {"limits": {GPU: str(given.gpus)}, "guarantees": {GPU: str(given.gpus)}}
    # Sizes of JupyterHub's spawners: G is what Kubernetes calls Gi.
    memory = given.memory.removesuffix("i")
    return {
        "cpu": {"limit": given.cpu, "guarantee": given.cpu},
        # Its pods would need to be privileged; the chart's network policy keeps them from that address too.
        "cloudMetadata": {"blockWithIptables": False},
        "extraLabels": {QUEUE_LABEL: leaf},
        "extraTolerations": [{"key": GPU, "operator": "Exists"}] if given.gpus else [],
        "extraResource": gpus if given.gpus else {},
        "image": {"name": name, "tag": tag},
        "memory": {"limit": memory, "guarantee": memory},
        # As any other pod: to MLflow, Ray and what else users have in the cluster.
        "networkPolicy": {"egressAllowRules": {"privateIPs": True}},
        "storage": {
            "capacity": given.storage,
            "dynamic": _of_class(given, "storageClass"),
        },
    }


def _culling(queue: Queue | None) -> Manifest:
    """Return the queue's time limits for the hub: the appliance's program enforces them only in namespaces of projects."""
    idle, longest = (queue.idle_limit, queue.time_limit) if queue else (None, None)
    asked = {"timeout": idle, "maxAge": longest}
    return {"enabled": True, **{k: minutes(v) * 60 for k, v in asked.items() if v}}


def _of_class(given: Jupyter, key: str) -> dict[str, str]:
    return {key: given.storage_class} if given.storage_class else {}
