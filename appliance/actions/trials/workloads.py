"""Validate workloads: runs the smallest work of each installed add-on through a project's queue, and removes everything again."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from appliance.acceptance import hello_network
from appliance.acceptance.hello import HELLOS
from appliance.acceptance.hello_parts import Hello, Where
from appliance.acceptance.hello_trial import Told, clean, run
from appliance.actions.sites.opening import Target, locate
from appliance.actions.trials.scheduler import Api, WallClock
from appliance.adapters.kubernetes import Cluster, KubernetesApi, Ref
from appliance.checks.check import not_assessed
from appliance.errors import ConfigError
from appliance.models.result import CLUSTER, CheckResult
from appliance.models.site import Site
from appliance.stages.queues.difference import amount_of
from appliance.stages.scheduler.queues.bounds import POD_CPU
from appliance.stages.scheduler.queues.kai import pool_of
from appliance.stages.scheduler.queues.namespaces import namespace_of
from appliance.stages.scheduler.queues.tree import leaf_name
from appliance.stages.scheduler.site import Project
from appliance.stages.workloads.network import projects, users
from appliance.stages.workloads.releases import wanted
from appliance.stages.workloads.serving import address, project_of
from appliance.stages.workloads.site import ServingAddon, WorkloadsOptions
from appliance.stages.workloads.table import images
from appliance.stages.workloads.values import scheduler_name


def place(site: Site, key: str = "") -> Where:
    """Where a site's trials run; for a restricted add-on, in a project that may use it.

    Raises ConfigError if the site installs nothing, or has no queue.
    """
    options = site.workloads
    if options is None:
        raise ConfigError(
            f"site {site.name} has no section workloads",
            "add the add-ons to install (docs/workloads.md)",
        )
    project = project_of(site, options)
    if project is None:
        raise ConfigError(
            f"site {site.name} has no queue for a trial",
            "add a project under scheduler (docs/queues.md)",
        )
    allowed = _allowed(site, key)
    if allowed and project not in allowed:
        project = allowed[0]
    found = _where(site, options, project)
    others = [p for p in projects(site) if p != project]
    if key == hello_network.KEY and others and not project.open_to_cluster:
        return replace(found, client=_where(site, options, others[0]))
    return found


def enough(where: Where, api: Cluster) -> Where:
    """Returns the same, with the CPU that each pod of its project requests at least in this cluster."""
    space = api.get(Ref("v1", "Namespace", where.namespace)) or {}
    least = amount_of(space.get("metadata", {}).get("annotations", {}).get(POD_CPU))
    client = enough(where.client, api) if where.client else None
    return replace(where, client=client, cpu=float(least or 0))


def _where(site: Site, options: WorkloadsOptions, project: Project) -> Where:
    scheduler = site.scheduler
    training = [q for q in project.queues if q.work == "train"] or list(project.queues)
    queue = next((q for q in project.queues if q.name == options.queue), training[0])
    served = options.vllm.models[0] if options.vllm else None
    return Where(
        namespace=namespace_of(project.name),
        queue=leaf_name(project.name, queue.name),
        scheduler=scheduler_name(scheduler),
        images=images(options),
        storage_class=options.nfs_csi.class_name if options.nfs_csi else "",
        model=served.name if served else "",
        address=address(served) if served else "",
        pool=pool_of(scheduler, queue),
    )


def prove(target: Target, kubeconfig: Path, told: Told) -> Iterator[CheckResult]:
    """Yields a verdict for each add-on of the site that has a trial, and for the network that protects them."""
    site = _site(target)
    place(site)
    chosen = [h for h in HELLOS if _has(site, h)]
    with KubernetesApi(kubeconfig) as api:
        for hello in chosen:
            where = place(site, hello.key)
            if _allowed(site, hello.key) == ():
                yield _barred(hello)
            elif hello.image not in where.images:
                yield _unnamed(hello)
            else:
                yield from run(Api(api), WallClock(), enough(where, api), (hello,), told)


def take_away(target: Target, kubeconfig: Path) -> None:
    """Removes what a killed trial has left."""
    site = _site(target)
    place(site)
    with KubernetesApi(kubeconfig) as api:
        for hello in HELLOS:
            clean(Api(api), place(site, hello.key), (hello,))


def _has(site: Site, hello: Hello) -> bool:
    """An add-on of the site; and a network that must enforce the add-ons' policies."""
    if hello.key == hello_network.KEY:
        own = site.kubernetes
        return own is not None and own.enforces_policies and bool(wanted(site))
    return getattr(site.workloads, hello.key) is not None


def _allowed(site: Site, key: str) -> tuple[Project, ...] | None:
    """Projects that may use an add-on, or where the network can be tested; None: all.

    A single project that is closed has no outsider: its own pods can reach each other.
    """
    if key == hello_network.KEY:
        known = projects(site)
        return None if len(known) > 1 or any(p.open_to_cluster for p in known) else ()
    given = getattr(site.workloads, key, None)
    if not isinstance(given, ServingAddon) or given.open_to_cluster:
        return None
    return users(site, given)


def _barred(hello: Hello) -> CheckResult:
    cause = "no project may use it, so it cannot be tested"
    fix = f"list one under workloads.{hello.key}.projects"
    if hello.key == hello_network.KEY:
        cause = "the only project is closed, so there is no pod outside of it to test with"
        fix = "add a second project, or set open_to_cluster: true on this one for the trial"
    return _not_tried(hello, cause, fix)


def _unnamed(hello: Hello) -> CheckResult:
    cause = f"its image is not known by digest, and the site names none; {hello.needs}"
    fix = f"name one with its digest under workloads.images.{hello.image}, or with its tag in an offline source"
    return _not_tried(hello, cause, fix)


def _not_tried(hello: Hello, cause: str, fix: str) -> CheckResult:
    return not_assessed(CLUSTER, cause, fix=fix).of(f"workloads.{hello.key}")


def _site(target: Target) -> Site:
    return locate(target).site
