"""A deployment ends with what the site has, what it does not ask for, and a first command for each scheduler."""

from pathlib import Path

import pytest

from appliance.cli.deploy import _offers
from appliance.models.site import Owner, Site
from appliance.stages.kubernetes.site import KubernetesOptions
from appliance.stages.mig.site import MigOptions
from appliance.stages.scheduler.site import Project, Queue, SchedulerOptions
from tests.support.sites import site_of

MEMBER = "appliance kubeconfig --site mysite && appliance kubeconfig --site mysite --user alice"
SLURM = site_of("head", "gpu-1", "gpu-2")
KAI = {
    "kubernetes": KubernetesOptions(),
    "scheduler": SchedulerOptions(
        projects=(Project(name="vision", users=("alice",), queues=(Queue(name="train"),)),)
    ),
}


def cluster(*, slurm: bool) -> Site:
    """A site with KAI; with Slurm on its last GPU host, too."""
    *others, last = SLURM.hosts
    hosts = (*others, last.model_copy(update={"owner": Owner.SLURM if slurm else None}))
    kept = SLURM.slurm if slurm else None
    return SLURM.model_copy(update={**KAI, "slurm": kept, "hosts": hosts})


@pytest.mark.parametrize(
    ("site", "kubernetes", "slurm"),
    [
        (SLURM, "", "ssh head srun -N2 --gpus-per-node=1 nvidia-smi -L"),
        (cluster(slurm=False), MEMBER, ""),
        (
            cluster(slurm=True),
            MEMBER,
            "ssh head srun -N1 --gpus-per-node=1 nvidia-smi -L",
        ),
    ],
    ids=["slurm", "kubernetes", "both"],
)
def test_each_scheduler_of_the_site_has_a_first_command(
    site: Site, kubernetes: str, slurm: str
) -> None:
    said = dict(_offers(site, Path("mysite"), embedded=False))
    assert said.get("in Kubernetes", "") == kubernetes
    assert said.get("in Slurm", "") == slurm
    brought, absent = (said[word].split(", ") for word in ("deployed", "not asked for"))
    for stage, there in (("slurm", bool(slurm)), ("scheduler", bool(kubernetes))):
        assert (stage in brought, stage in absent) == (there, not there)


def test_on_the_rack_the_commands_are_typed_through_the_lab() -> None:
    said = dict(_offers(SLURM, None, embedded=True))
    assert said["in Slurm"].startswith("appliance lab shell head -- srun ")
    said = dict(_offers(cluster(slurm=True), None, embedded=True))
    assert said["in Kubernetes"] == (
        "appliance lab shell head -- su - alice -c 'kubectl create -f gpu-pod.yaml'"
    )
    assert said["queues"] == "appliance queue status"


def test_divided_gpus_are_shown_where_the_site_divides_some() -> None:
    divided = SLURM.model_copy(update={"mig": MigOptions(layout="all-balanced")})
    assert dict(_offers(divided, None, embedded=True))["divided GPUs"] == "appliance mig show"
    assert "divided GPUs" not in dict(_offers(SLURM, None, embedded=True))
