"""The queue by which the program itself sends work to the cluster that the site makes."""

from appliance.models.site import Site
from appliance.stages.scheduler.queues.tree import leaf_name
from appliance.stages.scheduler.site import DEFAULT_POOL, Project, Queue

POD = "scheduler.pod"


def queue_of(site: Site, member: str = "") -> tuple[Project, Queue] | None:
    """The first queue of a project from which a pod gets a whole GPU, in the cluster that the site makes; None: it has none.

    ``member``: only projects that name this user.
    """
    if site.kubernetes is None or site.external_cluster or site.scheduler is None:
        return None
    if site.scheduler.kind == "runai":
        return None
    projects = (p for p in site.scheduler.projects if not member or member in p.users)
    found = ((project, queue) for project in projects for queue in project.queues)
    return next((pair for pair in found if _gives_gpus(pair[1])), None)


def has_queue(site: Site) -> bool:
    """Whether there is such a queue."""
    return queue_of(site) is not None


def name_of(project: Project, queue: Queue) -> str:
    """The queue as pods name it."""
    return leaf_name(project.name, queue.name)


def _gives_gpus(queue: Queue) -> bool:
    limit = queue.gpu.limit
    return queue.pool == DEFAULT_POOL and queue.gpu.quota >= 1 and (limit is None or limit >= 1)
