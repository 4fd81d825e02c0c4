"""Values of each chart for a site. A chart without an entry uses its defaults."""

from collections.abc import Callable, Mapping

from appliance.models.site import Site
from appliance.stages.kubernetes.exports import writable
from appliance.stages.scheduler.queues.manifest import Manifest
from appliance.stages.scheduler.site import SchedulerOptions
from appliance.stages.workloads import notebooks, serving
from appliance.stages.workloads.site import WorkloadsOptions

SCHEDULER = "kai-scheduler"
NCONNECT = 8
"""TCP connections per mount, as the hosts' own mounts have."""
UNLISTED = "DEFAULT_PATH_FOR_NON_LISTED_NODES"
"""The local-path provisioner's name for all hosts that are not listed."""
LOCAL_PROVISIONER = "rancher.io/local-path"
LOCAL_FOLDER = "local-path"
MLFLOW = "mlflow"
MLFLOW_DATA = "/mlflow/data"
MLFLOW_HOST = f"{MLFLOW}.{MLFLOW}"
MLFLOW_ADDRESS = f"http://{MLFLOW_HOST}"
"""Address for pods: service and namespace."""
PLAIN_LOCAL = "/opt/local-path-provisioner"


def scheduler_name(options: SchedulerOptions | None) -> str:
    """Return the scheduler of pods in queues."""
    return SCHEDULER if options else "default-scheduler"


def nfs_export(site: Site, options: WorkloadsOptions) -> str:
    """Return the export with volumes; "" if there is none."""
    chosen = options.nfs_csi.export if options.nfs_csi else None
    return chosen or next(iter(writable(site)), "")


def local_folder(site: Site, options: WorkloadsOptions) -> str:
    """Return the folder of local volumes on hosts."""
    given = options.local_path.path if options.local_path else None
    scratch = site.storage.scratch
    return given or (f"{scratch.at}/{LOCAL_FOLDER}" if scratch else PLAIN_LOCAL)


def values(key: str, site: Site, options: WorkloadsOptions) -> Manifest:
    """Return the values of one add-on."""
    make = MAKERS.get(key)
    return make(site, options) if make else {}


def _nfs_csi(site: Site, options: WorkloadsOptions) -> Manifest:
    """Return values of the NFS driver. Exports squash root, so a volume's directory belongs to nobody and is open to pods that mount it."""
    given = options.nfs_csi
    assert given is not None
    path = nfs_export(site, options)
    default = {"storageclass.kubernetes.io/is-default-class": str(given.default_class).lower()}
    parameters = {
        "server": writable(site).get(path, ""),
        "share": path,
        "subDir": "${pvc.metadata.namespace}/${pvc.metadata.name}-${pv.metadata.name}",
        "mountPermissions": "0777",
        "onDelete": given.on_delete,
    }
    return {
        "controller": {"enableSnapshotter": False},
        "feature": {"enableFSGroupPolicy": False},
        "storageClass": {
            "create": True,
            "name": given.class_name,
            "annotations": default,
            "parameters": parameters,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
            "mountOptions": ["nfsvers=4.1", "hard", f"nconnect={NCONNECT}"],
        },
    }


def _local_path(site: Site, options: WorkloadsOptions) -> Manifest:
    given = options.local_path
    assert given is not None
    return {
        "nodePathMap": [{"node": UNLISTED, "paths": [local_folder(site, options)]}],
        "storageClass": {
            "create": True,
            "name": given.class_name,
            "defaultClass": given.default_class,
            "provisionerName": LOCAL_PROVISIONER,
            "reclaimPolicy": "Delete",
        },
    }


def _metrics_server(site: Site, options: WorkloadsOptions) -> Manifest:
    del site
    given = options.metrics_server
    assert given is not None
    return {
        "args": ["--kubelet-insecure-tls"] if given.kubelet_certificates == "self-signed" else []
    }


def _trainer(site: Site, options: WorkloadsOptions) -> Manifest:
    """Return values of the Trainer, which installs JobSet unless another add-on does."""
    del site
    return {"jobset": {"install": options.jobset is None}, "runtimes": {"defaultEnabled": True}}


def _kuberay(site: Site, options: WorkloadsOptions) -> Manifest:
    del options
    # So that pods of a RayCluster's label get KAI's name and queue.
    return {"batchScheduler": {"name": SCHEDULER}} if site.scheduler else {}


def _spark(site: Site, options: WorkloadsOptions) -> Manifest:
    """Return values of the Spark operator, which watches every namespace, because queue apply may create projects' ones later."""
    del site, options
    return {"spark": {"jobNamespaces": [""]}}


def _dask(site: Site, options: WorkloadsOptions) -> Manifest:
    """Return values of Dask: the only setting its pod lacks for the restricted standard."""
    del site, options
    return {"podSecurityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}


def _mlflow(site: Site, options: WorkloadsOptions) -> Manifest:
    """Return values of MLflow: one server with database and files on one volume, which is kept when the release is removed."""
    del site
    given = options.mlflow
    assert given is not None
    asked = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": given.storage}},
        **({"storageClassName": given.storage_class} if given.storage_class else {}),
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": MLFLOW, "annotations": {"helm.sh/resource-policy": "keep"}},
        "spec": asked,
    }
    return {
        "artifactRoot": {
            "proxiedArtifactStorage": True,
            "defaultArtifactsDestination": f"{MLFLOW_DATA}/artifacts",
        },
        "backendStore": {"defaultSqlitePath": f"{MLFLOW_DATA}/mlflow.db"},
        "extraDeploy": [claim],
        "extraVolumeMounts": [{"name": "data", "mountPath": MLFLOW_DATA}],
        "extraVolumes": [{"name": "data", "persistentVolumeClaim": {"claimName": MLFLOW}}],
        "podSecurityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        # By these names alone, and by a port forwarded to this host (MLflow 3.5 and newer refuses others).
        "serverAllowedHosts": [
            MLFLOW_HOST,
            f"{MLFLOW_HOST}.svc",
            f"{MLFLOW_HOST}.svc.*",
            "localhost:*",
        ],
        # SQLite is one process's.
        "strategy": {"type": "Recreate"},
    }


def _jupyter(site: Site, options: WorkloadsOptions) -> Manifest:
    return notebooks.values(site, options, scheduler_name(site.scheduler))


def _vllm(site: Site, options: WorkloadsOptions) -> Manifest:
    return serving.values(site, options, scheduler_name(site.scheduler))


MAKERS: Mapping[str, Callable[[Site, WorkloadsOptions], Manifest]] = {
    "nfs_csi": _nfs_csi,
    "local_path": _local_path,
    "metrics_server": _metrics_server,
    "trainer": _trainer,
    "kuberay": _kuberay,
    "spark_operator": _spark,
    "dask_operator": _dask,
    "mlflow": _mlflow,
    "jupyter": _jupyter,
    "vllm": _vllm,
}
