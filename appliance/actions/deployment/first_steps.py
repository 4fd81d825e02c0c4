"""What a deployed site offers: its stages, those it does not ask for, and a first command for each scheduler."""

from appliance.models.site import Owner, Role, Site
from appliance.stages.catalog import EVERY_STAGE

POD = "kubectl create -f gpu-pod.yaml"
"""What a member of the virtual rack types first (rack_members)."""


def deployed(site: Site) -> tuple[str, ...]:
    """Stages that the site asks for."""
    return tuple(stage.name for stage in EVERY_STAGE if stage.wanted(site))


def not_asked_for(site: Site) -> tuple[str, ...]:
    """Stages that the site does not ask for."""
    return tuple(stage.name for stage in EVERY_STAGE if not stage.wanted(site))


def job(site: Site) -> str:
    """A GPU job of Slurm over at most two hosts, as typed on a control or login host; "" where Slurm has no GPU host."""
    hosts = site.gpu_hosts_of(Owner.SLURM) if site.slurm else ()
    return f"srun -N{min(2, len(hosts))} --gpus-per-node=1 nvidia-smi -L" if hosts else ""


def desk(site: Site) -> str:
    """The host on which people submit jobs; "" where there is none."""
    hosts = site.with_role(Role.LOGIN) or site.with_role(Role.CONTROL)
    return hosts[0].name if hosts else ""


def member(site: Site) -> str:
    """The first named member of a project; "" where no project names one."""
    projects = site.scheduler.projects if site.scheduler else ()
    return next((user for project in projects for user in project.users), "")
