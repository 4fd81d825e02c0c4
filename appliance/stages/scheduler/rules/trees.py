"""Rules for shared trees: their exports exist, the cluster enforces users' numbers, and a member has one."""

from collections.abc import Iterator

from appliance.config.finding import Finding, KeyPath
from appliance.config.rules.base import Case, nearest, repeated
from appliance.stages.kubernetes.exports import clients as mounting
from appliance.stages.kubernetes.exports import readable, writable
from appliance.stages.scheduler.queues.tenants import SINCE, kept_by
from appliance.stages.scheduler.queues.trees import groups_are_kept, people
from appliance.stages.scheduler.site import Project, Tree

PROJECTS: KeyPath = ("scheduler", "projects")


def exports(case: Case) -> Iterator[Finding]:
    """A tree is on an export that every host of the cluster may mount, and is writable only if the export is."""
    if not case.checked.whole("storage") or not case.checked.whole("hosts"):
        return
    known, may_write = readable(case.site), writable(case.site)
    for path, _, tree in _trees(case):
        if tree.export not in known:
            message = f"{tree.export} is not exported by any host"
            yield case.problem((*path, "export"), message, nearest(tree.export, known, "exports"))
        elif not known[tree.export]:
            message = f"no host serves {tree.export}"
            yield case.problem((*path, "export"), message, "give one host the role storage")
        elif tree.export not in may_write and not tree.read_only:
            message = f"{tree.export} is exported read-only"
            yield case.problem((*path, "read_only"), message, "write read_only: true")
        yield from _clients(case, path, tree)


def _clients(case: Case, path: KeyPath, tree: Tree) -> Iterator[Finding]:
    export = next((e for e in case.site.storage.exports if e.path == tree.export), None)
    if export is None or not export.clients:
        return
    for name, address in mounting(case.site).items():
        if not any(address in network for network in export.clients):
            allowed = ", ".join(map(str, export.clients))
            message = f"{name} would mount {tree.export} from {address}, which is not in {allowed}"
            remedy = "add its network to clients of the export, or give every host an address in network storage"
            yield case.problem((*path, "export"), message, remedy)


def names(case: Case) -> Iterator[Finding]:
    """Tree names are unique in a project, and a person of base.users has one name and number in the cluster."""
    options = case.site.scheduler
    for i, project in enumerate(options.projects if options else ()):
        given = [((*PROJECTS, i, "trees", j, "name"), t.name) for j, t in enumerate(project.trees)]
        for path, name, first in repeated(given):
            message = f'"{name}" is given twice (also line {case.line(first)})'
            yield case.problem(path, message, "merge them, or choose another name")
    users = list(enumerate(case.site.base.users))
    known: list[tuple[KeyPath, str]] = [
        (("base", "users", i, "cluster_user" if user.cluster_user else "name"), shown)
        for i, user in users
        for shown in [user.cluster_user or user.name]
    ]
    for path, name, first in repeated(known):
        message = f"{name} is also {case.also(first)}"
        yield case.problem(path, message, "a person has one number in the cluster: keep one")
    for path, name in known:
        if name.startswith("system:"):
            message = f"{name} is reserved by Kubernetes"
            yield case.problem(path, message, "name the person, such as alice@example.com")


def kept(case: Case) -> Iterator[Finding]:
    """Trees are mounted only if the cluster refuses pods that run under another person's number."""
    options = case.site.scheduler
    first = next((path[:-1] for path, _, _ in _trees(case)), None)
    if options is None or first is None:
        return
    if options.kind == "runai":
        message = "Run:ai manages the namespaces of its projects, and does not restrict the user numbers of pods"
        yield case.problem(first, message, "remove trees, or use another kind")
    if options.admission != "deny":
        message = (
            f"with admission: {options.admission}, pods that run as another person are not refused"
        )
        yield case.problem(first, message, "set scheduler.admission: deny, or remove trees")
    if case.profile is None:
        return
    if not kept_by(case.site, case.profile):
        message = f"before Kubernetes 1.{SINCE}, pods that run as another person are not refused"
        yield case.problem(first, message, f"use 1.{SINCE} or newer, or remove trees")
    elif options.tree_groups == "strict" and not groups_are_kept(case.site, case.profile):
        message = "before containerd 2.0 and Kubernetes 1.33, a process also gets the groups of its image's /etc/group"
        remedy = (
            "use these releases (kubernetes.containerd, kubernetes.version), or set scheduler.tree_groups: unenforced "
            "if members may read files of any group of the site"
        )
        yield case.problem(first, message, remedy)


def numbers(case: Case) -> Iterator[Finding]:
    """A project with trees has a member who can mount them."""
    if not case.checked.whole("base"):
        return
    options = case.site.scheduler
    for i, project in enumerate(options.projects if options else ()):
        if project.trees and not people(case.site, project):
            message = (
                f"no member of project {project.name} has a number, so no one can mount its trees"
            )
            remedy = "list its members in base.users, with cluster_user if their name in Kubernetes differs"
            yield case.problem((*PROJECTS, i, "trees"), message, remedy)


def _trees(case: Case) -> Iterator[tuple[KeyPath, Project, Tree]]:
    options = case.site.scheduler
    for i, project in enumerate(options.projects if options else ()):
        for j, tree in enumerate(project.trees):
            yield (*PROJECTS, i, "trees", j), project, tree
