"""The site's section ``workloads``: add-ons for users of the cluster."""

from typing import Annotated, Any, Literal

from pydantic import Field

from appliance.models.base import Model
from appliance.models.text_types import (
    ABSOLUTE_PATH,
    CHART_VERSION,
    PATH_LENGTH,
    SHA256,
    HubClass,
    HubSetting,
    Many,
    Named,
    NamedFew,
)
from appliance.stages.kubernetes.site import IMAGE
from appliance.stages.scheduler.site import Label, Namespace

STORAGE = r"^[1-9][0-9]{0,6}(Mi|Gi|Ti)$"
BELOW = r"^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$"
AUTHENTICATOR = r"^[A-Za-z][A-Za-z0-9_.-]{0,127}$"

Image = Annotated[str, Field(pattern=IMAGE, max_length=512)]


class Addon(Model):
    """A chart that is installed if its section exists."""

    version: str | None = Field(
        default=None,
        pattern=CHART_VERSION,
        description="Version of the chart; default: the one in appliance/stages/workloads/table.yml",
    )
    sha256: str | None = Field(
        default=None,
        pattern=SHA256,
        description="Required digest of the chart's archive",
    )
    reached_from: Many[Namespace] = Field(
        default=(),
        description="Namespaces other than projects' whose pods may also reach it, such as those of an ingress or of monitoring",
    )


class ServingAddon(Addon):
    """A service without authentication, for pods."""

    projects: Many[Label] | None = Field(
        default=None,
        description="Projects whose pods may use it; default: workloads.project, else the first",
    )
    open_to_cluster: bool = Field(
        default=False,
        description="Allow every pod of the cluster to use it, without a NetworkPolicy",
    )


class NfsCsi(Addon):
    """Volumes on an export of stage storage."""

    export: str | None = Field(
        default=None,
        pattern=ABSOLUTE_PATH,
        max_length=PATH_LENGTH,
        description="Path of an export, own or external; default: the first writable one",
    )
    class_name: Label = Field(default="nfs", description="Name of the StorageClass")
    default_class: bool = Field(default=True, description="Make it the default StorageClass")
    on_delete: Literal["delete", "retain", "archive"] = Field(
        default="delete", description="What happens to a volume's folder when its claim is deleted"
    )


class LocalPath(Addon):
    """Volumes in a folder of the host that a pod runs on."""

    path: str | None = Field(
        default=None,
        pattern=ABSOLUTE_PATH,
        max_length=PATH_LENGTH,
        description="Folder on the hosts; default: local-path in storage.scratch",
    )
    class_name: Label = Field(default="local-path", description="Name of the StorageClass")
    default_class: bool = Field(default=False, description="Make it the default StorageClass")


class MetricsServer(Addon):
    """Metrics for kubectl top and autoscaling."""

    kubelet_certificates: Literal["self-signed", "signed"] = Field(
        default="self-signed",
        description="Kubelets' certificates; self-signed: as created by kubeadm, not verified; signed: by the cluster's CA",
    )


class Mlflow(ServingAddon):
    """Runs, their metrics and their files, on one volume."""

    storage: str = Field(default="50Gi", pattern=STORAGE, description="Size of its volume")
    storage_class: Label | None = Field(
        default=None, description="StorageClass of its volume; default: the cluster's default"
    )


class Jupyter(Addon):
    """JupyterHub: a notebook for each person, in a queue for interactive work."""

    authenticator: str = Field(
        pattern=AUTHENTICATOR,
        description="Authenticator, by JupyterHub's name: generic-oauth, ldapauthenticator.LDAPAuthenticator",
    )
    config: NamedFew[HubClass, Named[HubSetting, Any]] = Field(
        default_factory=dict,
        description="Settings of the authenticator and the hub, by class, as documented by JupyterHub",
    )
    client_secret: Label | None = Field(
        default=None,
        description="Secret in namespace jupyterhub that contains OAUTH_CLIENT_SECRET; default: none",
    )
    queue: Label | None = Field(
        default=None,
        description="Queue of workloads.project, else of the first project; default: its first for build",
    )
    cpu: int = Field(default=2, ge=1, le=4096, description="Processors of a notebook")
    memory: str = Field(default="8Gi", pattern=STORAGE, description="Memory of a notebook")
    gpus: int = Field(default=0, ge=0, le=8, description="GPUs of a notebook")
    storage: str = Field(default="10Gi", pattern=STORAGE, description="Size of a home")
    storage_class: Label | None = Field(
        default=None,
        description="StorageClass of homes and of the hub; default: the cluster's default",
    )


class ServedModel(Model):
    """One model with an API of its own."""

    name: Label = Field(max_length=32, description="Name in its address and in requests")
    path: str = Field(
        pattern=BELOW,
        max_length=PATH_LENGTH,
        description="Folder of its safetensors, below the export's path",
    )
    gpus: int = Field(
        default=1, ge=1, le=8, description="Number of GPUs of one host that it is distributed over"
    )
    cpu: int = Field(default=8, ge=1, le=4096, description="Processors")
    memory: str = Field(default="64Gi", pattern=STORAGE, description="Memory of the host")
    max_length: int | None = Field(
        default=None,
        ge=1,
        le=100_000_000,
        description="Maximum context in tokens; default: the model's own",
    )


class Vllm(ServingAddon):
    """Models on vLLM, read from an export by the model streamer."""

    export: str | None = Field(
        default=None,
        pattern=ABSOLUTE_PATH,
        max_length=PATH_LENGTH,
        description="Path of an export, own or external, that contains models; default: the first",
    )
    queue: Label | None = Field(
        default=None,
        description="Queue of workloads.project, else of the first project; default: its first for inference",
    )
    models: Many[ServedModel] = Field(min_length=1, description="Models to serve")


class WorkloadsOptions(Model):
    """Stage workloads. Each section that exists is installed; one that was removed is uninstalled."""

    project: Label | None = Field(
        default=None, description="Project whose queue trials use; default: the first project"
    )
    queue: Label | None = Field(
        default=None, description="Queue of that project; default: its first for training"
    )
    images: NamedFew[Label, Image] = Field(
        default_factory=dict,
        description="Images of trials, notebooks and vLLM, by name, instead of or in addition to appliance/stages/workloads/table.yml: with digest, or with tag in an offline source",
    )
    nfs_csi: NfsCsi | None = Field(default=None, description="Volumes on NFS")
    local_path: LocalPath | None = Field(default=None, description="Volumes on a host's own disks")
    metrics_server: MetricsServer | None = Field(default=None, description="Metrics of pods")
    jobset: Addon | None = Field(default=None, description="Groups of jobs")
    lws: Addon | None = Field(default=None, description="Leaders with their workers")
    mpi_operator: Addon | None = Field(default=None, description="MPI jobs")
    trainer: Addon | None = Field(default=None, description="Kubeflow Trainer")
    kuberay: Addon | None = Field(default=None, description="Ray clusters and jobs")
    spark_operator: Addon | None = Field(default=None, description="Spark applications")
    dask_operator: Addon | None = Field(default=None, description="Dask clusters and jobs")
    mlflow: Mlflow | None = Field(default=None, description="Tracking of experiments")
    jupyter: Jupyter | None = Field(default=None, description="Notebooks")
    vllm: Vllm | None = Field(default=None, description="Serving of models")


WORDS = {
    AUTHENTICATOR: ("a name of an authenticator", "such as generic-oauth"),
    STORAGE: ("a size", "such as 50Gi"),
    BELOW: ("a folder below the export", "such as llama/3-8b, without a leading /"),
}
"""For each pattern, the kind of text and an example."""
