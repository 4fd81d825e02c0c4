"""Served models: source of weights, queue of GPUs, and values of the chart."""

from appliance.models.site import Site
from appliance.stages.kubernetes.exports import readable
from appliance.stages.scheduler.queues.manifest import Manifest
from appliance.stages.scheduler.queues.tree import leaf_name
from appliance.stages.scheduler.site import Project, Queue
from appliance.stages.workloads.site import ServedModel, Vllm, WorkloadsOptions
from appliance.stages.workloads.table import images

SERVING = "inference"
WEIGHTS = "/models"
RELEASE, NAMESPACE = "vllm-stack", "vllm"
QUEUE_LABEL = "kai.scheduler/queue"
GPU = "nvidia.com/gpu"
USER = 2000
"""The user of vLLM's image (docker/entrypoints, 2026-08)."""


def project_of(site: Site, options: WorkloadsOptions) -> Project | None:
    """Return the project whose queues are used, by default the first; None without projects, and with Run:ai."""
    scheduler = site.scheduler
    if scheduler is None or scheduler.kind == "runai":
        return None
    return next((p for p in scheduler.projects if options.project in (None, p.name)), None)


def queue_of(project: Project, name: str | None, work: str) -> Queue | None:
    """Return the configured queue, otherwise the first for such work; None if there is none."""
    if name is None:
        return next((q for q in project.queues if q.work == work), None)
    return next((q for q in project.queues if q.name == name), None)


def address(model: ServedModel) -> str:
    """Return the address of its OpenAI-compatible API for pods."""
    return f"http://{RELEASE}-{model.name}-engine-service.{NAMESPACE}/v1"


def values(site: Site, options: WorkloadsOptions, scheduler: str) -> Manifest:
    """Return the values: one engine per model with a service of its own, so that no router is necessary."""
    given, project = options.vllm, project_of(site, options)
    assert given is not None
    queue = queue_of(project, given.queue, SERVING) if project else None
    leaf = leaf_name(project.name, queue.name) if project and queue else ""
    return {
        "routerSpec": {"enableRouter": False},
        "servingEngineSpec": {
            "containerSecurityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "runAsNonRoot": True,
                "runAsUser": USER,
            },
            "imagePullPolicy": "IfNotPresent",
            "modelSpec": [_engine(site, options, model, leaf) for model in given.models],
            "runtimeClassName": "",
            "schedulerName": scheduler,
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            # The old one's GPUs are what the new one gets.
            "strategy": {"type": "Recreate"},
            "tolerations": [{"key": GPU, "operator": "Exists"}],
        },
    }


def _engine(site: Site, options: WorkloadsOptions, model: ServedModel, leaf: str) -> Manifest:
    assert options.vllm is not None
    image = images(options)["vllm"]
    repository, _, tag = image.rpartition(":")
    path = models_export(site, options.vllm)
    asked = {"cpu": str(model.cpu), "memory": model.memory, GPU: str(model.gpus)}
    source = {"server": readable(site).get(path, ""), "path": path, "readOnly": True}
    length = {} if model.max_length is None else {"maxModelLen": model.max_length}
    return {
        "name": model.name,
        "enabled": True,
        "repository": repository,
        "tag": tag,
        "modelURL": f"{WEIGHTS}/{model.path}",
        "replicaCount": 1,
        "podLabels": {QUEUE_LABEL: leaf},
        "resources": {"limits": asked, "requests": asked},
        "vllmConfig": {
            "enablePrefixCaching": True,
            "tensorParallelSize": model.gpus,
            "extraArgs": _arguments(model),
            **length,
        },
        "env": [{"name": "HOME", "value": "/tmp"}, {"name": "USER", "value": "vllm"}],
        "extraVolumeMounts": [{"name": "models", "mountPath": WEIGHTS, "readOnly": True}],
        "extraVolumes": [{"name": "models", "nfs": source}],
    }


def models_export(site: Site, given: Vllm) -> str:
    """Return the export with models; "" if there is none."""
    return given.export or next(iter(readable(site)), "")


def _arguments(model: ServedModel) -> list[str]:
    """Return arguments for the model streamer; with several GPUs, each process reads a part and sends it to the others."""
    parts = ["--model-loader-extra-config", '{"distributed": true}'] if model.gpus > 1 else []
    return ["--served-model-name", model.name, "--load-format", "runai_streamer", *parts]
