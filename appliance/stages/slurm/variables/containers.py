"""The variable of role slurm for containers in jobs."""

from appliance.models.site import Site
from appliance.stages.context import Variables

DEFAULT_FOLDER = "/var/lib/enroot"


def containers(site: Site) -> Variables:
    """Return packages with their files, and folders of images and containers; empty without containers."""
    wanted = site.slurm_options.containers
    if wanted is None:
        return {}
    return {
        "at": container_folder(site),
        "enroot": [package.model_dump() for package in wanted.enroot],
        "pyxis": wanted.pyxis.model_dump(),
    }


def container_folder(site: Site) -> str:
    """Return the folder of images and containers on GPU hosts; empty without containers."""
    wanted, scratch = site.slurm_options.containers, site.storage.scratch
    if wanted is None:
        return ""
    return wanted.at or (f"{scratch.at}/enroot" if scratch else DEFAULT_FOLDER)
