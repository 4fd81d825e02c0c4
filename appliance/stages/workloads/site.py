"""The site's section ``workloads``: what users of the cluster find there besides its scheduler."""

from typing import Annotated, Any, Literal

from pydantic import Field

from appliance.models.base import Model
from appliance.models.texts import (
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
    """A chart that is installed because its section is there."""

    version: str | None = Field(
        default=None,
        pattern=CHART_VERSION,
        description="Of the chart; none: the one of appliance/stages/workloads/table.yml",
    )
    sha256: str | None = Field(
        default=None,
        pattern=SHA256,
        description="Digest of the chart's archive, where it shall be this one and no other",
    )
    reached_from: Many[Namespace] = Field(
        default=(),
        description="Namespaces, not of projects, whose pods reach it too, as those of an ingress or of monitoring",
    )


class ServingAddon(Addon):
    """One that pods talk to and that asks nobody who he is."""

    projects: Many[Label] | None = Field(
        default=None,
        description="Projects whose pods may use it; none: workloads.project, else the first",
    )
    open_to_cluster: bool = Field(
        default=False, description="Every pod of the cluster may use it, and no policy keeps it"
    )


class NfsCsi(Addon):
    """Volumes on an export of stage storage."""

    export: str | None = Field(
        default=None,
        pattern=ABSOLUTE_PATH,
        max_length=PATH_LENGTH,
        description="Path of an export, own or external; none: the first one that may be written",
    )
    class_name: Label = Field(default="nfs", description="Name of the StorageClass")
    default_class: bool = Field(default=True, description="Claims that name no class get this one")
    on_delete: Literal["delete", "retain", "archive"] = Field(
        default="delete", description="What becomes of a volume's folder when its claim is deleted"
    )


class LocalPath(Addon):
    """Volumes in a folder of the host a pod runs on."""

    path: str | None = Field(
        default=None,
        pattern=ABSOLUTE_PATH,
        max_length=PATH_LENGTH,
        description="Folder on the hosts; none: local-path in storage.scratch",
    )
    class_name: Label = Field(default="local-path", description="Name of the StorageClass")
    default_class: bool = Field(default=False, description="Claims that name no class get this one")


class MetricsServer(Addon):
    """What kubectl top and autoscaling read."""

    kubelet_certificates: Literal["self-signed", "signed"] = Field(
        default="self-signed",
        description="self-signed: as kubeadm leaves them, not verified; signed: by the cluster's authority",
    )


class Mlflow(ServingAddon):
    """Runs, their metrics and their files, on one volume."""

    storage: str = Field(default="50Gi", pattern=STORAGE, description="Size of its volume")
    storage_class: Label | None = Field(
        default=None, description="StorageClass of its volume; none: the cluster's default"
    )


class Jupyter(Addon):
    """JupyterHub: a notebook for each person, in a queue for interactive work."""

    authenticator: str = Field(
        pattern=AUTHENTICATOR,
        description="Who lets people in, as JupyterHub calls it: generic-oauth, ldapauthenticator.LDAPAuthenticator",
    )
    config: NamedFew[HubClass, Named[HubSetting, Any]] = Field(
        default_factory=dict,
        description="Its settings and others of the hub, by class, as JupyterHub documents them",
    )
    client_secret: Label | None = Field(
        default=None,
        description="Secret in namespace jupyterhub that holds OAUTH_CLIENT_SECRET; none: not needed",
    )
    queue: Label | None = Field(
        default=None,
        description="Queue of workloads.project, else of the first project; none: its first for build",
    )
    cpu: int = Field(default=2, ge=1, le=4096, description="Processors of a notebook")
    memory: str = Field(default="8Gi", pattern=STORAGE, description="Memory of a notebook")
    gpus: int = Field(default=0, ge=0, le=8, description="GPUs of a notebook")
    storage: str = Field(default="10Gi", pattern=STORAGE, description="Size of a home")
    storage_class: Label | None = Field(
        default=None,
        description="StorageClass of homes and of the hub; none: the cluster's default",
    )


class ServedModel(Model):
    """One model behind an API of its own."""

    name: Label = Field(max_length=32, description="In its address and in requests")
    path: str = Field(
        pattern=BELOW,
        max_length=PATH_LENGTH,
        description="Folder of its safetensors, below the export's path",
    )
    gpus: int = Field(default=1, ge=1, le=8, description="GPUs of one host it is spread over")
    cpu: int = Field(default=8, ge=1, le=4096, description="Processors")
    memory: str = Field(default="64Gi", pattern=STORAGE, description="Memory of the host")
    max_length: int | None = Field(
        default=None,
        ge=1,
        le=100_000_000,
        description="Longest context in tokens; none: the model's own",
    )


class Vllm(ServingAddon):
    """Models on vLLM, read from an export by the model streamer."""

    export: str | None = Field(
        default=None,
        pattern=ABSOLUTE_PATH,
        max_length=PATH_LENGTH,
        description="Path of an export, own or external, that holds models; none: the first",
    )
    queue: Label | None = Field(
        default=None,
        description="Queue of workloads.project, else of the first project; none: its first for inference",
    )
    models: Many[ServedModel] = Field(min_length=1, description="What is served")


class WorkloadsOptions(Model):
    """Stage workloads. Each section that is there is installed; one that is taken out is removed."""

    project: Label | None = Field(
        default=None, description="Whose queue trials use; none: the first project"
    )
    queue: Label | None = Field(
        default=None, description="Queue of that project; none: its first for training"
    )
    images: NamedFew[Label, Image] = Field(
        default_factory=dict,
        description="Images of trials, notebooks and vLLM that differ from appliance/stages/workloads/table.yml, or are not in it, by name: with digest, in an offline source by tag",
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
    AUTHENTICATOR: ("a name of an authenticator", "as generic-oauth"),
    STORAGE: ("a size", "as 50Gi"),
    BELOW: ("a folder below the export", "as llama/3-8b, without a leading /"),
}
"""What a text of each pattern is, and how to write one."""
