"""Rules for the add-ons of a cluster's users."""

import re
from collections.abc import Iterable, Iterator

from appliance.config.compatibility import RELEASE
from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, Rule, nearest
from appliance.models.gpu_counts import gpu_most
from appliance.stages.kubernetes.exports import clients as mounting
from appliance.stages.kubernetes.exports import readable, writable
from appliance.stages.scheduler.queues.namespaces import namespace_of
from appliance.stages.scheduler.queues.tree import leaf_name
from appliance.stages.workloads.network import ENFORCING, projects
from appliance.stages.workloads.notebooks import INTERACTIVE
from appliance.stages.workloads.releases import section, wanted
from appliance.stages.workloads.serving import SERVING, models_export, project_of, queue_of
from appliance.stages.workloads.site import ServingAddon
from appliance.stages.workloads.table import table
from appliance.stages.workloads.values import nfs_export

SECTION = "workloads"
OPEN = ("dummy", "dummyauthenticator", "nullauthenticator", "tmpauthenticator")
RESERVED = "__ansible_"
LONGEST_SETTING = 4096
TEMPLATE = re.compile(r"\{[{%#]|[}%#]\}")
SECRET_NAME = re.compile(r"(secret|password|token)$")


def cluster(case: Case) -> Iterator[Finding]:
    """The site has a cluster of its own, and it is new enough."""
    options, own = case.site.workloads, case.site.kubernetes
    if options is None or not case.checked.whole("kubernetes"):
        return
    if own is None or own.external is not None:
        what = "an external cluster" if own else "no cluster"
        message = f"needs a cluster of the site's own, but the site has {what}"
        yield case.problem((SECTION,), message, "add one under kubernetes, or remove this section")
        return
    chosen = own.version or case.site.software.get("kubernetes")
    if chosen is None and case.profile is not None:
        chosen = case.profile.software.kubernetes
    for addon in wanted(case.site):
        if chosen and RELEASE.match(chosen) and not addon.kubernetes.accepts(chosen):
            message = f"{addon.name} {addon.version} needs Kubernetes {addon.kubernetes}, but {chosen} is set"
            remedy = f"use Kubernetes {addon.kubernetes.nearest(chosen)}, or remove this section"
            yield case.problem((SECTION, addon.key), message, remedy)


def charts(case: Case) -> Iterator[Finding]:
    """Each chart has a source."""
    own = case.site.kubernetes
    if own is None or own.offline("charts") or not case.checked.whole("kubernetes"):
        return
    for addon in wanted(case.site):
        if not addon.published:
            message = f"no chart of {addon.name} is published, and kubernetes.source contains none"
            remedy = (
                f"put charts/{addon.name}-{addon.version}.tgz into an offline source (docs/workloads.md), "
                "and name its folder under kubernetes.source"
            )
            yield case.problem((SECTION, addon.key), message, remedy)


def volumes(case: Case) -> Iterator[Finding]:
    """Volumes have a writable export, and one storage class is the default."""
    options = case.site.workloads
    if options is None:
        return
    nfs, local = options.nfs_csi, options.local_path
    known = writable(case.site)
    if nfs is not None and case.checked.whole("storage") and case.checked.whole("hosts"):
        path: KeyPath = (SECTION, "nfs_csi", "export")
        if not known:
            message = "needs a writable export, but storage has none"
            yield case.problem((SECTION, "nfs_csi"), message, "add one to storage.exports")
        elif (chosen := nfs_export(case.site, options)) not in known:
            read_only = [e.path for e in case.site.storage.exports if e.read_only]
            why = "is read-only" if chosen in read_only else "is not exported"
            yield case.problem(path, f"{chosen} {why}", nearest(chosen, list(known), "exports"))
    default = any(section and section.default_class for section in (nfs, local))
    for key, given in (("mlflow", options.mlflow), ("jupyter", options.jupyter)):
        if given and given.storage_class is None and not default and case.checked.whole(SECTION):
            message = "needs volumes, but no storage class is the default"
            remedy = f"add nfs_csi, or name a storage class under {key}.storage_class"
            yield case.problem((SECTION, key), message, remedy)
    if nfs is None or local is None:
        return
    if nfs.default_class and local.default_class:
        message = "nfs_csi is the default class already; a cluster has only one"
        remedy = "set nfs_csi.default_class: false, or remove this line"
        yield case.problem((SECTION, "local_path", "default_class"), message, remedy)
    if nfs.class_name == local.class_name:
        message = f'nfs_csi also names its class "{nfs.class_name}"'
        yield case.problem((SECTION, "local_path", "class_name"), message, "choose another name")


def clients(case: Case) -> Iterator[Finding]:
    """Hosts of the cluster may mount the exports of volumes and models, from the server address that all of them use."""
    options = case.site.workloads
    if options is None or not case.checked.whole("storage") or not case.checked.whole("hosts"):
        return
    used = {
        nfs_export(case.site, options) if options.nfs_csi else "": "nfs_csi",
        models_export(case.site, options.vllm) if options.vllm else "": "vllm",
    }
    for i, export in enumerate(case.site.storage.exports):
        if export.path not in used or not export.clients:
            continue
        for name, address in mounting(case.site).items():
            if not any(address in network for network in export.clients):
                allowed = ", ".join(map(str, export.clients))
                message = f"workloads.{used[export.path]} makes {name} mount {export.path} from {address}, which is not in {allowed}"
                remedy = (
                    "add its network to clients, or give every host an address in network storage"
                )
                yield case.problem(("storage", "exports", i, "clients"), message, remedy)


def models(case: Case) -> Iterator[Finding]:
    """Served models are readable, have unique names, and fit a host."""
    options = case.site.workloads
    given = options.vllm if options else None
    if given is None:
        return
    where: KeyPath = (SECTION, "vllm")
    if case.checked.whole("storage"):
        known, chosen = readable(case.site), models_export(case.site, given)
        if not known:
            yield case.problem(
                where, "models need an export to be read from", "add one to storage.exports"
            )
        elif chosen not in known:
            remedy = nearest(chosen, list(known), "exports")
            yield case.problem((*where, "export"), f"{chosen} is not exported", remedy)
    names = [model.name for model in given.models]
    has = gpu_most(case.profile, case.site) if case.profile else None
    for i, model in enumerate(given.models):
        if model.name in names[:i]:
            message = f'two models are named "{model.name}"'
            yield case.problem((*where, "models", i, "name"), message, "choose another name")
        if has is not None and model.gpus > has:
            message = f"needs {model.gpus} GPUs, but a host has {has}"
            yield case.problem((*where, "models", i, "gpus"), message, f"at most {has}")


def queues(case: Case) -> Iterator[Finding]:
    """Engines and notebooks have a queue of their kind."""
    options = case.site.workloads
    if options is None or not case.checked.whole("scheduler"):
        return
    project = project_of(case.site, options)
    known = case.site.scheduler.projects if case.site.scheduler else ()
    if options.project is not None and options.project not in [p.name for p in known]:
        return
    for key, given, work in (
        ("vllm", options.vllm, SERVING),
        ("jupyter", options.jupyter, INTERACTIVE),
    ):
        where: KeyPath = (SECTION, key)
        if given is None:
            continue
        if project is None:
            message = "no project has a queue for it"
            remedy = "add one under scheduler (docs/queues.md)"
            yield case.problem(where, message, remedy)
        elif queue_of(project, given.queue, work) is not None:
            continue
        elif given.queue is None:
            message = f"project {project.name} has no queue for {work}"
            remedy = f"add one (work: {work}), or name another project under {key}.queue"
            yield case.problem(where, message, remedy)
        else:
            message = f'there is no queue "{leaf_name(project.name, given.queue)}"'
            remedy = nearest(given.queue, [q.name for q in project.queues], "queues")
            yield case.problem((*where, "queue"), message, remedy)


def reach(case: Case) -> Iterator[Finding]:
    """Who may use services that have no authentication, and a network that enforces it."""
    options, own = case.site.workloads, case.site.kubernetes
    if options is None:
        return
    for addon in wanted(case.site):
        given, where = section(options, addon), (SECTION, addon.key)
        if not isinstance(given, ServingAddon):
            continue
        if given.open_to_cluster:
            if given.projects is not None:
                message = "open_to_cluster allows every pod of the cluster, but projects lists some"
                yield case.problem((*where, "open_to_cluster"), message, "remove one of them")
        elif own and case.checked.whole("kubernetes") and not own.enforces_policies:
            message = f"has no authentication, and network {own.network} does not enforce NetworkPolicy: every pod could reach it"
            remedy = f"use kubernetes.network: {' or '.join(ENFORCING)}, or set open_to_cluster: true here"
            yield case.problem(where, message, remedy)
        if case.checked.whole("scheduler"):
            yield from _users(case, where, given)


def closed_projects(case: Case) -> Iterator[Finding]:
    """Access to a project is declared once, for a namespace managed here, on a network that enforces it."""
    scheduler, own = case.site.scheduler, case.site.kubernetes
    for i, project in enumerate(scheduler.projects if scheduler else ()):
        said = project.model_fields_set & {"reached_from", "open_to_cluster"}
        if scheduler is None or not said:
            continue
        path: KeyPath = ("scheduler", "projects", i, max(said))
        if scheduler.kind == "runai":
            message = "Run:ai manages the namespaces of projects"
            yield case.problem(path, message, "restrict them in Run:ai, and remove this line")
        elif project.open_to_cluster and "reached_from" in said:
            message = "open_to_cluster allows every namespace"
            yield case.problem(path, message, "remove one of them")
        elif own and not own.enforces_policies and "reached_from" in said:
            message = f"network {own.network} does not enforce NetworkPolicy: every pod could reach the project's pods"
            remedy = f"use kubernetes.network: {' or '.join(ENFORCING)}, or remove this line"
            yield case.problem(path, message, remedy)


def _users(case: Case, where: KeyPath, given: ServingAddon) -> Iterator[Finding]:
    known = {project.name: namespace_of(project.name) for project in projects(case.site)}
    runai = case.site.scheduler is not None and case.site.scheduler.kind == "runai"
    for i, name in enumerate(given.projects or ()):
        if name not in known:
            message = f'there is no project "{name}"'
            remedy = nearest(name, list(known), "projects")
            if runai:
                message = "Run:ai manages the namespaces of projects"
                remedy = f"name the namespace under reached_from, such as runai-{name}"
            yield case.problem((*where, "projects", i), message, remedy)
    for i, space in enumerate(given.reached_from):
        if name := next((n for n, own in known.items() if own == space), ""):
            message = f"{space} is the namespace of project {name}"
            yield case.problem((*where, "reached_from", i), message, f"projects: [{name}]")


def notebooks(case: Case) -> Iterator[Finding]:
    """JupyterHub authenticates everyone, site.yml contains no secret, and a notebook fits a host."""
    options = case.site.workloads
    given = options.jupyter if options else None
    if given is None:
        return
    where: KeyPath = (SECTION, "jupyter")
    if given.authenticator.rpartition(".")[2].lower() in OPEN:
        message = f"{given.authenticator} accepts any user name without a password"
        remedy = "use one that authenticates users, such as generic-oauth"
        yield case.problem((*where, "authenticator"), message, remedy)
    for of_class, settings in given.config.items():
        for name in settings:
            if SECRET_NAME.search(name):
                remedy = "keep it in a Secret of namespace jupyterhub (docs/workloads.md)"
                yield case.problem(
                    (*where, "config", of_class, name),
                    "is a secret, which must not be in site.yml",
                    remedy,
                )
            for why in _texts(settings[name]):
                at: KeyPath = (*where, "config", of_class, name)
                yield case.problem(at, why, "write plain text on one line")
    for path in _reserved((*where, "config"), given.config):
        yield case.problem(path, "is reserved by Ansible", "use another name")
    has = gpu_most(case.profile, case.site) if case.profile else None
    if has is not None and given.gpus > has:
        message = f"needs {given.gpus} GPUs, but a host has {has}"
        yield case.problem((*where, "gpus"), message, f"at most {has}")


def _reserved(path: KeyPath, value: object) -> Iterator[KeyPath]:
    """Keys by which Ansible would interpret a text."""
    inside: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, list):
        inside = enumerate(value)
    for key, item in inside:
        if str(key).startswith(RESERVED):
            yield (*path, str(key))
        yield from _reserved((*path, key), item)


def _texts(value: object) -> Iterator[str]:
    """The part of a setting, value or key, that is not plain text. A document is at most 24 levels deep."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(key)
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, str):
        if not value.isprintable() or len(value) > LONGEST_SETTING:
            yield "contains a text that is too long or has several lines"
        elif TEMPLATE.search(value):
            yield "contains template markers, which are not evaluated"


def images(case: Case) -> Iterator[Finding]:
    """Images of the site belong to a trial or an add-on, and are pinned by their digest.

    An archive of an offline source has no digest that a cluster could look for; its own is in its .sha256.
    """
    options, own = case.site.workloads, case.site.kubernetes
    for name, image in options.images.items() if options else ():
        path: KeyPath = (SECTION, "images", name)
        if name not in table().images:
            message = f'there is no trial image "{name}"'
            yield case.problem(path, message, nearest(name, list(table().images), "images"))
        elif "@" in image:
            continue
        elif ":" not in image.rpartition("/")[2]:
            remedy = "name it with its digest, or with its tag if an offline source contains it"
            yield case.problem(path, f"{image} has neither tag nor digest", remedy)
        elif own is not None and not own.offline("images") and case.checked.whole("kubernetes"):
            message = f"{image} is named by a tag, which can be moved to another image"
            remedy = f"name it with its digest: skopeo inspect --format '{{{{.Digest}}}}' docker://{image} prints it"
            yield case.problem(path, message, remedy)


def trials(case: Case) -> Iterator[Finding]:
    """Trials have a queue."""
    options = case.site.workloads
    if options is None:
        return
    if not case.checked.whole("scheduler"):
        return
    projects = case.site.scheduler.projects if case.site.scheduler else ()
    chosen = next((p for p in projects if options.project in (None, p.name)), None)
    if options.project is not None and chosen is None:
        message = f'there is no project "{options.project}"'
        remedy = nearest(options.project, [p.name for p in projects], "projects")
        yield case.problem((SECTION, "project"), message, remedy)
    queues = [q.name for q in chosen.queues] if chosen else []
    if options.queue is not None and (chosen or not projects) and options.queue not in queues:
        whole = leaf_name(chosen.name, options.queue) if chosen else options.queue
        message = f'there is no queue "{whole}"'
        yield case.problem((SECTION, "queue"), message, nearest(options.queue, queues, "queues"))


RULES: tuple[Rule, ...] = (
    cluster,
    charts,
    volumes,
    clients,
    models,
    queues,
    reach,
    closed_projects,
    notebooks,
    images,
    trials,
)
