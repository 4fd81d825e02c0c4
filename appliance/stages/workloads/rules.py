"""Rules over what is installed for a cluster's users."""

import re
from collections.abc import Iterable, Iterator

from appliance.config.compatibility import RELEASE
from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, Rule, nearest
from appliance.models.gpus import gpu_most
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
    """There is a cluster of the site's own to install it on, and it is new enough."""
    options, own = case.site.workloads, case.site.kubernetes
    if options is None or not case.checked.whole("kubernetes"):
        return
    if own is None or own.external is not None:
        what = "somebody else's cluster" if own else "no cluster"
        message = f"wants a cluster of the site's own, and the site has {what}"
        yield case.problem((SECTION,), message, "describe one under kubernetes, or take it out")
        return
    chosen = own.version or case.site.software.get("kubernetes")
    if chosen is None and case.profile is not None:
        chosen = case.profile.software.kubernetes
    for addon in wanted(case.site):
        if chosen and RELEASE.match(chosen) and not addon.kubernetes.accepts(chosen):
            message = f"{addon.name} {addon.version} wants Kubernetes {addon.kubernetes}, but {chosen} is chosen"
            remedy = f"take Kubernetes {addon.kubernetes.nearest(chosen)}, or leave it out"
            yield case.problem((SECTION, addon.key), message, remedy)


def charts(case: Case) -> Iterator[Finding]:
    """Each chart can be had from somewhere."""
    own = case.site.kubernetes
    if own is None or own.offline("charts") or not case.checked.whole("kubernetes"):
        return
    for addon in wanted(case.site):
        if not addon.published:
            message = f"no chart of {addon.name} is published, and kubernetes.source brings none"
            remedy = (
                f"put charts/{addon.name}-{addon.version}.tgz into an offline source, as "
                "docs/workloads.md says, and name its folder under kubernetes.source"
            )
            yield case.problem((SECTION, addon.key), message, remedy)


def volumes(case: Case) -> Iterator[Finding]:
    """Volumes have an export they can be made on, and one class is the default."""
    options = case.site.workloads
    if options is None:
        return
    nfs, local = options.nfs_csi, options.local_path
    known = writable(case.site)
    if nfs is not None and case.checked.whole("storage") and case.checked.whole("hosts"):
        path: KeyPath = (SECTION, "nfs_csi", "export")
        if not known:
            message = "no export may be written: storage has none"
            yield case.problem((SECTION, "nfs_csi"), message, "add one to storage.exports")
        elif (chosen := nfs_export(case.site, options)) not in known:
            read_only = [e.path for e in case.site.storage.exports if e.read_only]
            why = "may only be read" if chosen in read_only else "is not exported"
            yield case.problem(path, f"{chosen} {why}", nearest(chosen, list(known), "exports"))
    default = any(section and section.default_class for section in (nfs, local))
    for key, given in (("mlflow", options.mlflow), ("jupyter", options.jupyter)):
        if given and given.storage_class is None and not default and case.checked.whole(SECTION):
            message = "keeps its data on volumes, and no class of volumes is the default"
            remedy = f"add nfs_csi, or name a class under {key}.storage_class"
            yield case.problem((SECTION, key), message, remedy)
    if nfs is None or local is None:
        return
    if nfs.default_class and local.default_class:
        message = "nfs_csi is the default class already: a cluster has one"
        remedy = "set nfs_csi.default_class: false, or leave this one out"
        yield case.problem((SECTION, "local_path", "default_class"), message, remedy)
    if nfs.class_name == local.class_name:
        message = f'nfs_csi calls its class "{nfs.class_name}" too'
        yield case.problem((SECTION, "local_path", "class_name"), message, "take another name")


def clients(case: Case) -> Iterator[Finding]:
    """Hosts of the cluster may mount what its volumes and models lie on, by the one address of the server that all are given."""
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
                message = f"workloads.{used[export.path]} has {name} mount {export.path} from {address}, which is not in {allowed}"
                remedy = (
                    "add its network to clients, or give every host an address in network storage"
                )
                yield case.problem(("storage", "exports", i, "clients"), message, remedy)


def models(case: Case) -> Iterator[Finding]:
    """Models that are served can be read, are told apart, and fit a host."""
    options = case.site.workloads
    given = options.vllm if options else None
    if given is None:
        return
    where: KeyPath = (SECTION, "vllm")
    if case.checked.whole("storage"):
        known, chosen = readable(case.site), models_export(case.site, given)
        if not known:
            yield case.problem(
                where, "models have no export they are read from", "add one to storage.exports"
            )
        elif chosen not in known:
            remedy = nearest(chosen, list(known), "exports")
            yield case.problem((*where, "export"), f"{chosen} is not exported", remedy)
    names = [model.name for model in given.models]
    has = gpu_most(case.profile, case.site) if case.profile else None
    for i, model in enumerate(given.models):
        if model.name in names[:i]:
            message = f'two models are called "{model.name}"'
            yield case.problem((*where, "models", i, "name"), message, "take another name")
        if has is not None and model.gpus > has:
            message = f"wants {model.gpus} GPUs, and a host has {has}"
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
            message = "no project has a queue it could use"
            remedy = "describe one under scheduler, as docs/queues.md shows"
            yield case.problem(where, message, remedy)
        elif queue_of(project, given.queue, work) is not None:
            continue
        elif given.queue is None:
            message = f"project {project.name} has no queue for {work}"
            remedy = f"give it one (work: {work}), or name another under {key}.queue"
            yield case.problem(where, message, remedy)
        else:
            message = f'no queue is called "{leaf_name(project.name, given.queue)}"'
            remedy = nearest(given.queue, [q.name for q in project.queues], "queues")
            yield case.problem((*where, "queue"), message, remedy)


def reach(case: Case) -> Iterator[Finding]:
    """Who may use what asks nobody who he is, and a network that keeps others out."""
    options, own = case.site.workloads, case.site.kubernetes
    if options is None:
        return
    for addon in wanted(case.site):
        given, where = section(options, addon), (SECTION, addon.key)
        if not isinstance(given, ServingAddon):
            continue
        if given.open_to_cluster:
            if given.projects is not None:
                message = "every pod of the cluster may use it, and projects names some"
                yield case.problem((*where, "open_to_cluster"), message, "leave one of them out")
        elif own and case.checked.whole("kubernetes") and not own.enforces_policies:
            message = f"has no authentication, and network {own.network} enforces no NetworkPolicy: every pod would reach it"
            remedy = f"take kubernetes.network: {' or '.join(ENFORCING)}, or say open_to_cluster: true here"
            yield case.problem(where, message, remedy)
        if case.checked.whole("scheduler"):
            yield from _users(case, where, given)


def closed_projects(case: Case) -> Iterator[Finding]:
    """Who may enter a project is said once, of a namespace of ours, on a network that keeps others out."""
    scheduler, own = case.site.scheduler, case.site.kubernetes
    for i, project in enumerate(scheduler.projects if scheduler else ()):
        said = project.model_fields_set & {"reached_from", "open_to_cluster"}
        if scheduler is None or not said:
            continue
        path: KeyPath = ("scheduler", "projects", i, max(said))
        if scheduler.kind == "runai":
            message = "Run:ai makes the namespaces of projects itself"
            yield case.problem(path, message, "close them there, and leave this out")
        elif project.open_to_cluster and "reached_from" in said:
            message = "open_to_cluster lets in every namespace"
            yield case.problem(path, message, "leave one of them out")
        elif own and not own.enforces_policies and "reached_from" in said:
            message = f"network {own.network} enforces no NetworkPolicy: every pod would reach the project's"
            remedy = f"take kubernetes.network: {' or '.join(ENFORCING)}, or leave this out"
            yield case.problem(path, message, remedy)


def _users(case: Case, where: KeyPath, given: ServingAddon) -> Iterator[Finding]:
    known = {project.name: namespace_of(project.name) for project in projects(case.site)}
    runai = case.site.scheduler is not None and case.site.scheduler.kind == "runai"
    for i, name in enumerate(given.projects or ()):
        if name not in known:
            message = f'no project is called "{name}"'
            remedy = nearest(name, list(known), "projects")
            if runai:
                message = "Run:ai makes the namespaces of projects itself"
                remedy = f"name the namespace under reached_from, as runai-{name}"
            yield case.problem((*where, "projects", i), message, remedy)
    for i, space in enumerate(given.reached_from):
        if name := next((n for n, own in known.items() if own == space), ""):
            message = f"{space} is the namespace of project {name}"
            yield case.problem((*where, "reached_from", i), message, f"projects: [{name}]")


def notebooks(case: Case) -> Iterator[Finding]:
    """Nobody is let in without proof, no secret stands in the site, and a notebook fits a host."""
    options = case.site.workloads
    given = options.jupyter if options else None
    if given is None:
        return
    where: KeyPath = (SECTION, "jupyter")
    if given.authenticator.rpartition(".")[2].lower() in OPEN:
        message = f"{given.authenticator} lets anybody in under any name"
        remedy = "take one that asks for proof, as generic-oauth"
        yield case.problem((*where, "authenticator"), message, remedy)
    for of_class, settings in given.config.items():
        for name in settings:
            if SECRET_NAME.search(name):
                remedy = "keep it in a Secret of namespace jupyterhub, as docs/workloads.md says"
                yield case.problem(
                    (*where, "config", of_class, name), "a secret must not stand here", remedy
                )
            for why in _texts(settings[name]):
                at: KeyPath = (*where, "config", of_class, name)
                yield case.problem(at, why, "write plain text of one line")
    for path in _reserved((*where, "config"), given.config):
        yield case.problem(path, "is a word of Ansible's own", "use another name")
    has = gpu_most(case.profile, case.site) if case.profile else None
    if has is not None and given.gpus > has:
        message = f"wants {given.gpus} GPUs, and a host has {has}"
        yield case.problem((*where, "gpus"), message, f"at most {has}")


def _reserved(path: KeyPath, value: object) -> Iterator[KeyPath]:
    """Keys by which Ansible would read a text as something else than the text."""
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
    """What in a setting is no plain text; in keys, too. A document is at most 24 deep."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(key)
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, str):
        if not value.isprintable() or len(value) > LONGEST_SETTING:
            yield "holds a text that is long or not of one line"
        elif TEMPLATE.search(value):
            yield "holds the marks of a template, and none is read"


def images(case: Case) -> Iterator[Finding]:
    """Images of the site are those of a trial or of an add-on, and the very ones somebody chose.

    An archive of an offline source brings no digest a cluster could look for; its own is in its .sha256.
    """
    options, own = case.site.workloads, case.site.kubernetes
    for name, image in options.images.items() if options else ():
        path: KeyPath = (SECTION, "images", name)
        if name not in table().images:
            message = f'no trial has an image called "{name}"'
            yield case.problem(path, message, nearest(name, list(table().images), "images"))
        elif "@" in image:
            continue
        elif ":" not in image.rpartition("/")[2]:
            remedy = "name it with its digest, or in an offline source with its tag"
            yield case.problem(path, f"{image} has neither tag nor digest", remedy)
        elif own is not None and not own.offline("images") and case.checked.whole("kubernetes"):
            message = f"{image} would be fetched by a tag, which can be given to another image"
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
        message = f'no project is called "{options.project}"'
        remedy = nearest(options.project, [p.name for p in projects], "projects")
        yield case.problem((SECTION, "project"), message, remedy)
    queues = [q.name for q in chosen.queues] if chosen else []
    if options.queue is not None and (chosen or not projects) and options.queue not in queues:
        whole = leaf_name(chosen.name, options.queue) if chosen else options.queue
        message = f'no queue is called "{whole}"'
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
