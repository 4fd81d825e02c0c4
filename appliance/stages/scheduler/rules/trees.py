"""Rules over shared trees: what a project mounts is exported, its cluster keeps pods to their person's number, and somebody has one."""

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
    """A tree lies on an export that every host of the cluster may mount, and is written where that may be."""
    if not case.checked.whole("storage") or not case.checked.whole("hosts"):
        return
    known, may_write = readable(case.site), writable(case.site)
    for path, _, tree in _trees(case):
        if tree.export not in known:
            message = f"nothing exports {tree.export}"
            yield case.problem((*path, "export"), message, nearest(tree.export, known, "exports"))
        elif not known[tree.export]:
            message = f"no host serves {tree.export}"
            yield case.problem((*path, "export"), message, "give one host the role storage")
        elif tree.export not in may_write and not tree.read_only:
            message = f"{tree.export} is exported for reading alone"
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
    """A project has one tree of a name, and no person of base.users two names or numbers in the cluster."""
    options = case.site.scheduler
    for i, project in enumerate(options.projects if options else ()):
        given = [((*PROJECTS, i, "trees", j, "name"), t.name) for j, t in enumerate(project.trees)]
        for path, name, first in repeated(given):
            message = f'"{name}" stands twice (also line {case.line(first)})'
            yield case.problem(path, message, "make them one, or take another name")
    users = list(enumerate(case.site.base.users))
    known: list[tuple[KeyPath, str]] = [
        (("base", "users", i, "cluster_user" if user.cluster_user else "name"), shown)
        for i, user in users
        for shown in [user.cluster_user or user.name]
    ]
    for path, name, first in repeated(known):
        message = f"{name} is also {case.also(first)}"
        yield case.problem(path, message, "a person of the cluster has one number: keep one")
    for path, name in known:
        if name.startswith("system:"):
            message = f"{name} belongs to Kubernetes itself"
            yield case.problem(path, message, "name the person, as alice@example.com")


def kept(case: Case) -> Iterator[Finding]:
    """Trees are mounted where the cluster refuses pods under other numbers than their person's, and nowhere else."""
    options = case.site.scheduler
    first = next((path[:-1] for path, _, _ in _trees(case)), None)
    if options is None or first is None:
        return
    if options.kind == "runai":
        message = "Run:ai makes the namespaces of its projects itself, and nothing keeps pods there to a person's number"
        yield case.problem(first, message, "take trees out, or take another kind")
    if options.admission != "deny":
        message = (
            f"with admission: {options.admission} nothing refuses a pod that runs as another person"
        )
        yield case.problem(first, message, "set scheduler.admission: deny, or take trees out")
    if case.profile is None:
        return
    if not kept_by(case.site, case.profile):
        message = f"before Kubernetes 1.{SINCE} nothing refuses a pod that runs as another person"
        yield case.problem(first, message, f"take 1.{SINCE} or newer, or take trees out")
    elif options.tree_groups == "strict" and not groups_are_kept(case.site, case.profile):
        message = "before containerd 2.0 and Kubernetes 1.33 a process also has the groups that /etc/group of its image gives it"
        remedy = (
            "take these releases (kubernetes.containerd, kubernetes.version), or set scheduler.tree_groups: unenforced "
            "where members may read what any group of the site may"
        )
        yield case.problem(first, message, remedy)


def numbers(case: Case) -> Iterator[Finding]:
    """Somebody can mount a project's trees."""
    if not case.checked.whole("base"):
        return
    options = case.site.scheduler
    for i, project in enumerate(options.projects if options else ()):
        if project.trees and not people(case.site, project):
            message = (
                f"nobody of project {project.name} has a number, so nobody can mount its trees"
            )
            remedy = "list its members in base.users, with cluster_user where Kubernetes calls them otherwise"
            yield case.problem((*PROJECTS, i, "trees"), message, remedy)


def _trees(case: Case) -> Iterator[tuple[KeyPath, Project, Tree]]:
    options = case.site.scheduler
    for i, project in enumerate(options.projects if options else ()):
        for j, tree in enumerate(project.trees):
            yield (*PROJECTS, i, "trees", j), project, tree
