"""The variable of role slurm that brings containers into jobs."""

from appliance.models.site import Site
from appliance.stages.context import Variables

DEFAULT_FOLDER = "/var/lib/enroot"


def containers(site: Site) -> Variables:
    """What is installed from which file, and where images and containers lie; empty without containers."""
    wanted = site.slurm.containers
    if wanted is None:
        return {}
    return {
        "at": container_folder(site),
        "enroot": [package.model_dump() for package in wanted.enroot],
        "pyxis": wanted.pyxis.model_dump(),
    }


def container_folder(site: Site) -> str:
    """The folder of images and containers on GPU hosts; empty without containers."""
    wanted, scratch = site.slurm.containers, site.storage.scratch
    if wanted is None:
        return ""
    return wanted.at or (f"{scratch.at}/enroot" if scratch else DEFAULT_FOLDER)
