"""Look-alikes of charts: their names, versions, values and resources, with pods that do nothing but hand out simulated GPUs."""

import gzip
import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from appliance.lab.archives import with_digest
from appliance.lab.device_plugin import bundle as device_plugin
from appliance.lab.kubernetes_build import HOST_IMAGES
from appliance.lab.programs import KAI
from appliance.stages.kubernetes.charts import DEVICE_PLUGIN, GPU_HOSTS
from appliance.stages.kubernetes.charts import charts as of_cluster
from appliance.stages.scheduler.queues.charts import SHARING_MODES, charts
from appliance.stages.workloads.table import table

SOURCES = Path(__file__).with_name("chart_source")
IMAGE = HOST_IMAGES["pause"]
MARK = "simulated: a look-alike of the appliance's virtual rack"
PRIORITIES = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
"""Classes the KAI chart makes (KAI documentation, 2026-10)."""

Document = dict[str, object]


def archive(name: str, version: str, files: Mapping[str, str], folder: Path) -> Path:
    """A chart in Helm's format, with the same bytes for the same files, and its digest next to it."""
    folder.mkdir(parents=True, exist_ok=True)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as opened:
        for path, text in files.items():
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size = len(text.encode())
            opened.addfile(entry, io.BytesIO(text.encode()))
    target = folder / f"{name}-{version}.tgz"
    target.write_bytes(gzip.compress(packed.getvalue(), mtime=0))
    with_digest(target)
    return target


@dataclass(frozen=True)
class LookAlike:
    """One chart. ``replicas`` and ``image`` of its pods; a wrong image makes a chart whose pods never come up."""

    name: str
    version: str
    replicas: int = 1
    image: str = IMAGE

    @property
    def file_name(self) -> str:
        """The name of the archive in Helm's notation."""
        return f"{self.name}-{self.version}.tgz"

    def write(self, folder: Path) -> Path:
        """The archive with its digest next to it, with the same bytes for the same chart."""
        return archive(self.name, self.version, self.files(), folder)

    def files(self) -> dict[str, str]:
        """Its files by path; JSON is YAML."""
        parts = {"kai-resource-management": "kai-scheduler"}
        below = parts.get(self.name)
        about: Document = {
            "apiVersion": "v2",
            "name": self.name,
            "version": self.version,
            "description": MARK,
        }
        found = {
            "values.yaml": json.dumps(DEFAULTS.get(self.name, {})),
            "values.schema.json": json.dumps(_schema(SCHEMAS.get(self.name, {}))),
            "templates/objects.yaml": "---\n".join(map(self._text, self._objects())),
        }
        if self.name in DEFINITIONS:
            found["crds/definitions.yaml"] = (SOURCES / DEFINITIONS[self.name]).read_text(
                encoding="utf-8"
            )
        if self.name == "kai-scheduler":
            found["templates/queue.yaml"] = _DEFAULT_QUEUE
        if self.name in MADE:
            found["templates/made.yaml"] = MADE[self.name]
        if below:
            about["dependencies"] = [{"name": below, "version": self.version}]
            inner = LookAlike(below, self.version, self.replicas, self.image).files()
            found |= {f"charts/{below}/{path}": text for path, text in inner.items()}
        return {"Chart.yaml": json.dumps(about), **found}

    def _objects(self) -> Iterator[Document]:
        for name in PODS.get(self.name, (self.name,)):
            yield self._deployment(name)
        if self.name == DEVICE_PLUGIN:
            yield _device_plugin("app.kubernetes.io/name", DEVICE_PLUGIN)
        if self.name == "kai-scheduler":
            for name, value in PRIORITIES.items():
                yield {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": name},
                    "value": value,
                }

    def _deployment(self, name: str) -> Document:
        labels = {"app": name}
        container = {"name": "pause", "image": self.image, "imagePullPolicy": "IfNotPresent"}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "labels": labels, "annotations": {"appliance/lab": MARK}},
            "spec": {
                "replicas": self.replicas,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
                },
            },
        }

    def _text(self, document: Document) -> str:
        return json.dumps(document) + "\n"


def pinned() -> tuple[LookAlike, ...]:
    """Every chart of the tables in each of its versions, except the available one, and every add-on's chart."""
    schedulers = (
        LookAlike(chart.chart.rsplit("/", 1)[-1], version)
        for chart in (*of_cluster().values(), *charts().values())
        for version in chart.versions.values()
        if (chart.name, version) != ("kai-scheduler", f"v{KAI.version}")
    )
    addons = (LookAlike(addon.name, addon.version) for addon in table().addons)
    return (*schedulers, *addons)


def _schema(properties: Mapping[str, object]) -> Document:
    """Schema of the appliance's values; a misspelt one is refused."""
    found = {key: _value(value) for key, value in properties.items()}
    return {"type": "object", "additionalProperties": False, "properties": found}


def _value(given: object) -> object:
    if isinstance(given, dict):
        return _schema(given)
    if isinstance(given, tuple):
        return {"enum": list(given)}
    return {"type": given}


def _device_plugin(label: str, name: str) -> Document:
    """The rack's device plugin as a pod of each GPU host: the host's own program, behind the host's own root."""
    labels = {label: name}
    program = [
        *("chroot", "/host", "/usr/bin/env", f"LD_LIBRARY_PATH={device_plugin.SHARED}"),
        f"/{device_plugin.PROGRAM}",
    ]
    container = {
        "name": "plugin",
        "image": HOST_IMAGES["busybox"],
        "imagePullPolicy": "IfNotPresent",
        "command": program,
        "securityContext": {"privileged": True},
        "volumeMounts": [{"name": "host", "mountPath": "/host"}],
    }
    pod = {
        "nodeSelector": GPU_HOSTS,
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "labels": labels, "annotations": {"appliance/lab": MARK}},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


DEFINITIONS = {
    "kai-scheduler": "kai.yml",
    "kai-resource-management": "resource_management.yml",
    "network-operator": "network_operator.yml",
}
PODS = {
    "jupyterhub": ("hub", "proxy"),
    "kai-scheduler": ("kai-operator", "kai-scheduler-default", "queue-controller"),
    DEVICE_PLUGIN: (),
}
DEFAULTS: Mapping[str, Document] = {
    "kai-scheduler": {"defaultQueue": {"createDefaultQueue": True}},
    "gpu-operator": {
        **{name: {"enabled": True} for name in ("devicePlugin", "driver", "toolkit")},
    },
}
_KAI: Document = {
    "defaultQueue": {"createDefaultQueue": "boolean"},
    "global": {
        "gpuSharing": "boolean",
        "gpuSharingMode": tuple(SHARING_MODES.values()),
        "leaderElection": "boolean",
        "nvFractions": {"set": "boolean"},
    },
    "operator": {"replicaCount": "integer"},
    "scheduler": {"placementStrategy": ("binpack", "spread")},
}
_SWITCH: Document = {"enabled": "boolean"}
SCHEMAS: Mapping[str, Document] = {
    "kai-scheduler": _KAI,
    "kai-resource-management": {"kai-scheduler": _KAI, "global": _KAI["global"]},
    "gpu-operator": {
        "cdi": _SWITCH,
        "devicePlugin": _SWITCH,
        "dcgmExporter": {"enabled": "boolean", "serviceMonitor": _SWITCH},
        "driver": _SWITCH,
        "mig": {"strategy": ("single", "mixed")},
        "migManager": _SWITCH,
        "nfd": _SWITCH,
        "toolkit": _SWITCH,
    },
    DEVICE_PLUGIN: {
        "affinity": "null",
        "cdi": {"nvidiaHookPath": "string"},
        "deviceListStrategy": ("envvar", "volume-mounts", "cdi-annotations", "cdi-cri"),
        "migStrategy": ("none", "single", "mixed"),
        "nodeSelector": "object",
        "nvidiaDriverRoot": "string",
        "runtimeClassName": "string",
        "securityContext": "object",
    },
    "network-operator": {
        "maintenanceOperator": _SWITCH,
        "nfd": _SWITCH,
        "sriovNetworkOperator": _SWITCH,
    },
    "control-plane": {"global": {"domain": "string"}},
    "csi-driver-nfs": {
        "controller": {"enableSnapshotter": "boolean"},
        "feature": {"enableFSGroupPolicy": "boolean"},
        "storageClass": {
            "create": "boolean",
            "name": "string",
            "annotations": "object",
            "parameters": "object",
            "reclaimPolicy": ("Delete", "Retain"),
            "volumeBindingMode": ("Immediate", "WaitForFirstConsumer"),
            "mountOptions": "array",
        },
    },
    "local-path-provisioner": {
        "nodePathMap": "array",
        "storageClass": {
            "create": "boolean",
            "name": "string",
            "defaultClass": "boolean",
            "provisionerName": "string",
            "reclaimPolicy": ("Delete", "Retain"),
        },
    },
    "metrics-server": {"args": "array"},
    "kubeflow-trainer": {
        "jobset": {"install": "boolean"},
        "runtimes": {"defaultEnabled": "boolean"},
    },
    "kuberay-operator": {"batchScheduler": {"name": "string"}},
    "spark-operator": {"spark": {"jobNamespaces": "array"}},
    "mlflow": {
        "artifactRoot": {
            "defaultArtifactsDestination": "string",
            "proxiedArtifactStorage": "boolean",
        },
        "backendStore": {"defaultSqlitePath": "string"},
        "extraDeploy": "array",
        "extraVolumeMounts": "array",
        "extraVolumes": "array",
        "podSecurityContext": {"seccompProfile": {"type": "string"}},
        "serverAllowedHosts": "array",
        "strategy": {"type": ("RollingUpdate", "Recreate")},
    },
    "jupyterhub": {
        "cull": {"enabled": "boolean", "maxAge": "integer", "timeout": "integer"},
        "hub": {
            "config": "object",
            "db": {"pvc": {"annotations": "object", "storageClassName": "string"}},
            "extraEnv": "object",
        },
        "prePuller": {"continuous": _SWITCH, "hook": _SWITCH},
        "proxy": {"service": {"type": ("ClusterIP", "NodePort", "LoadBalancer")}},
        "scheduling": {"userPlaceholder": _SWITCH, "userScheduler": _SWITCH},
        "singleuser": {
            "cloudMetadata": {"blockWithIptables": "boolean"},
            "cpu": {"guarantee": "number", "limit": "number"},
            "extraLabels": "object",
            "extraResource": {"guarantees": "object", "limits": "object"},
            "extraTolerations": "array",
            "image": {"name": "string", "tag": "string"},
            "memory": {"guarantee": "string", "limit": "string"},
            "networkPolicy": {"egressAllowRules": {"privateIPs": "boolean"}},
            "storage": {"capacity": "string", "dynamic": {"storageClass": "string"}},
        },
    },
    "vllm-stack": {
        "routerSpec": {"enableRouter": "boolean"},
        "servingEngineSpec": {
            "containerSecurityContext": "object",
            "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
            "modelSpec": "array",
            "runtimeClassName": "string",
            "schedulerName": "string",
            "securityContext": "object",
            "strategy": "object",
            "tolerations": "array",
        },
    },
    "dask-kubernetes-operator": {"podSecurityContext": {"seccompProfile": {"type": "string"}}},
}
"""Documented names and kinds of the values (each chart's own values at the version of its table, 2026-11)."""

_DEFAULT_QUEUE = """{{- if .Values.defaultQueue.createDefaultQueue }}
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: default-queue}
spec: {priority: 100}
{{- end }}
"""

_CLASS = """{{- with .Values.storageClass }}{{- if .create }}
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: "{{ .name }}", annotations: ANNOTATIONS}
provisioner: PROVISIONER
parameters: {{ .parameters | default dict | toJson }}
mountOptions: {{ .mountOptions | default list | toJson }}
reclaimPolicy: {{ .reclaimPolicy }}
{{- end }}{{- end }}
"""
_MARKED = '{storageclass.kubernetes.io/is-default-class: "{{ .defaultClass }}"}'
_RUNTIME = """apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: nvidia}
handler: nvidia
"""
_PLUGIN = json.dumps(_device_plugin("app", "nvidia-device-plugin-daemonset"))
MADE: Mapping[str, str] = {
    # KAI's webhook sets the class in every pod with a GPU (v0.12.0). The operator's reconciler creates both.
    "gpu-operator": f"{_RUNTIME}---\n{{{{ if .Values.devicePlugin.enabled }}}}\n{_PLUGIN}\n{{{{ end }}}}\n",
    "csi-driver-nfs": _CLASS.replace("ANNOTATIONS", "{{ .annotations | toJson }}").replace(
        "PROVISIONER", "nfs.csi.k8s.io"
    ),
    "local-path-provisioner": _CLASS.replace("ANNOTATIONS", _MARKED).replace(
        "PROVISIONER", "{{ .provisionerName }}"
    ),
    "mlflow": "{{- range .Values.extraDeploy }}\n---\n{{ toJson . }}\n{{- end }}\n",
}
"""Resources that these charts create from their values, in addition to pods."""
