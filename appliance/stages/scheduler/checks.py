"""Checks the scheduler of Kubernetes: its releases, their pods, queues, and whether members can submit work."""

import re
from collections.abc import Iterator

from appliance.checks.causes import UNASKED, Cause, Reach, is_of
from appliance.checks.check import (
    Check,
    ClusterCheck,
    Nature,
    View,
    failed,
    not_assessed,
    passed,
)
from appliance.models.gap import Gap
from appliance.models.result import CLUSTER, Judgement, place
from appliance.models.site import Owner, Role, Site
from appliance.stages.kubernetes import ids as kubernetes_ids
from appliance.stages.kubernetes.causes import FULL, NO_API, NO_PLACE, NO_ROUTES, UNPLACED
from appliance.stages.kubernetes.charts import Release
from appliance.stages.kubernetes.checks.pods import QUOTA, unmade
from appliance.stages.scheduler import ids
from appliance.stages.scheduler.facts import SchedulerFacts, SharedTree
from appliance.stages.scheduler.queues.bounds import quota
from appliance.stages.scheduler.queues.charts import releases
from appliance.stages.scheduler.queues.kai import queues
from appliance.stages.scheduler.queues.namespaces import namespace_of
from appliance.stages.scheduler.queues.network import NAME as POLICY
from appliance.stages.scheduler.queues.network import OPERATOR, RESOURCE, shared
from appliance.stages.scheduler.queues.tree import of_a_gpu
from appliance.stages.scheduler.queues.trees import (
    claim_of,
    options_of,
    source_of,
    volume_of,
)
from appliance.stages.scheduler.site import Project, SchedulerOptions, Tree
from appliance.stages.scheduler.submissions import projects_of

NODE_NOT_READY = Cause(kubernetes_ids.NODES, "a host that is not ready offers nothing")


DEPLOY = "appliance deploy"
NODES = "the cluster's nodes"
WEBHOOKS = "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations lists them"
PLACES = " nodes are available: "
"""Part of the scheduler's message about a pod that fits nowhere: "0/5 nodes are available: 5 Insufficient cpu"."""
MOST_NAMED = 3
"""Maximum number of pods listed in one line."""


def scheduler_facts(view: View) -> tuple[str, SchedulerFacts | None, Gap]:
    """Return the first control plane with the facts, and these facts, or the reason why none has them."""
    hosts = view.site.with_role(Role.CONTROL)
    why = Gap("no host has the role control")
    for host in hosts:
        facts = view.facts.get(host.name)
        if facts is None:
            why = Gap(f"{host.name}, a control plane, did not answer", (host.name,))
        elif facts.scheduler is None:
            why = facts.gap("scheduler", f"{host.name} has no cluster")
        elif facts.scheduler.releases is None:
            why = facts.gap("scheduler", f"the API of {host.name} was not queried")
        else:
            return host.name, facts.scheduler, Gap("")
    return hosts[0].name if hosts else CLUSTER, None, why


def missing(view: View, what: str) -> Gap:
    """Return the reason for missing facts: no control plane, or one that answered without them."""
    host, known, why = scheduler_facts(view)
    if known is None:
        return why
    return view.facts[host].gap("scheduler", f"{what} were not read")


def wanted(view: View) -> tuple[Release, ...]:
    """Return the releases of the site."""
    options = view.site.scheduler
    return releases(view.site, view.profile, options) if options else ()


def _releases(view: View) -> Iterator[Judgement]:
    return judge_releases(view, wanted(view))


def judge_releases(view: View, releases: tuple[Release, ...]) -> Iterator[Judgement]:
    """Pass if each of the releases is deployed at its version."""
    host, known, why = scheduler_facts(view)
    for release in releases:
        target = place(host, release.name)
        if known is None or known.releases is None:
            yield not_assessed(target, why)
            continue
        name = (release.namespace, release.name)
        found = next((r for r in known.releases if (r.namespace, r.name) == name), None)
        limit = release.version or release.line
        if found is None:
            yield failed(target, f"{release.name} is not installed", DEPLOY, limit=limit)
        elif found.status != "deployed":
            cause = f"revision {found.revision} of {release.name} is {found.status}"
            yield failed(target, cause, DEPLOY, value=found.status, limit="deployed")
        elif found.version.lstrip("v") != limit.lstrip("v"):
            cause = f"{release.name} is {found.version}, the site's is {limit}"
            yield failed(target, cause, DEPLOY, value=found.version, limit=limit)
        else:
            evidence = f"revision {found.revision} in namespace {release.namespace}"
            yield passed(target, found.version, limit=limit, evidence=evidence)


def _pods(view: View) -> Iterator[Judgement]:
    return judge_pods(view, wanted(view))


def judge_pods(view: View, releases: tuple[Release, ...]) -> Iterator[Judgement]:
    """Pass if all pods in the namespace of each of the releases are ready."""
    host, known, _ = scheduler_facts(view)
    for release in releases:
        target = place(host, release.name)
        if known is None or known.pods is None:
            yield not_assessed(target, missing(view, "its pods"))
            continue
        # The probe asks for pods where Helm has a release, and nowhere else.
        if release.namespace not in {found.namespace for found in known.releases or ()}:
            cause = f"{release.name} is not installed, so its pods were not read"
            yield not_assessed(target, cause)
            continue
        pods = [pod for pod in known.pods if pod.namespace == release.namespace]
        waiting = [pod for pod in pods if not pod.ready]
        stopped = [n for n in known.stopped or () if n.startswith(f"{release.namespace}/")]
        lacking = [one for one in known.lacking or () if one.namespace == release.namespace]
        look = f"kubectl -n {release.namespace} describe pods"
        if lacking:
            yield unmade(target, lacking[0])
        elif not pods:
            cause = f"namespace {release.namespace} has no pod"
            yield failed(target, cause, f"kubectl -n {release.namespace} get events", value=0)
        elif stopped:
            name = stopped[0].partition("/")[2]
            fix = f"kubectl -n {release.namespace} scale deployment {name} --replicas 1"
            yield failed(target, f"deployment {name} is scaled to 0 replicas", fix)
        elif waiting:
            words = [f"{pod.name} ({pod.reason})" for pod in waiting[:MOST_NAMED]]
            more = f" and {len(waiting) - MOST_NAMED} more" if len(waiting) > MOST_NAMED else ""
            cause = f"not ready: {', '.join(words)}{more}"
            ready = len(pods) - len(waiting)
            if any(PLACES in pod.reason for pod in waiting):
                yield failed(target, cause, look, value=UNPLACED)
            else:
                yield failed(target, cause, look, value=ready, limit=len(pods), unit="pods")
        else:
            yield passed(target, len(pods), limit=len(pods), unit="pods")


def _rdma(view: View) -> Iterator[Judgement]:
    options = view.site.scheduler
    if options is None or not shared(view.site, view.profile, options):
        return
    _, known, _ = scheduler_facts(view)
    for host in view.site.with_role(Role.GPU):
        if view.site.owner(host) is not Owner.KUBERNETES:
            continue
        if not view.profile_of(host.name).hardware.fabric.ports:
            continue
        if known is None or known.rdma is None:
            yield not_assessed(host.name, missing(view, NODES))
        elif host.name not in known.rdma:
            cause = f"the cluster has no node {host.name}"
            yield failed(host.name, cause, f"{DEPLOY} --hosts {host.name}")
        elif offered := known.rdma[host.name]:
            yield passed(host.name, offered, unit="pods")
        else:
            cause = f"the cluster offers no {RESOURCE} of {host.name}: pods there do not reach the fabric"
            fix = (
                f"kubectl get nicclusterpolicy {POLICY} -o yaml; kubectl -n {OPERATOR} get pods -o wide "
                f"--field-selector spec.nodeName={host.name}"
            )
            yield failed(host.name, cause, fix, value=0, unit="pods")


def _trees(view: View) -> Iterator[Judgement]:
    options = view.site.scheduler
    asked = [(p, t) for p in (options.projects if options else ()) for t in p.trees]
    host, known, _ = scheduler_facts(view)
    for project, tree in asked:
        space = namespace_of(project.name)
        target = place(host, f"{space}/{claim_of(tree)}")
        if known is None or known.trees is None:
            yield not_assessed(target, missing(view, "volumes of shared trees"))
            continue
        wanted = (space, claim_of(tree))
        found = next((t for t in known.trees if (t.namespace, t.name) == wanted), None)
        cause = _of_tree(view.site, space, tree, found)
        if cause or found is None:
            yield failed(target, cause, "appliance queue plan, then appliance queue apply")
        else:
            yield passed(target, f"{found.server}:{found.path}")


def _of_tree(site: Site, space: str, tree: Tree, found: SharedTree | None) -> str:
    """Return the fault of a claim; empty if there is none."""
    if found is None:
        return f"{space} has no claim {claim_of(tree)}: its pods cannot mount the tree {tree.name}"
    if not found.server:
        return f"the volume {found.volume or volume_of(space, tree)} of claim {found.name} is missing, or is not an NFS volume"
    if found.phase != "Bound":
        return f"the claim {found.name} is {found.phase or 'not bound'}: pods that mount it stay pending"
    server, path = source_of(site, tree)
    if (found.server, found.path) != (server, path):
        return f"the claim {found.name} mounts {found.server}:{found.path}, the site has {server}:{path}"
    if set(found.options) != set(options_of(tree)):
        has, wanted = ",".join(found.options) or "no option", ",".join(options_of(tree))
        return f"the claim {found.name} is mounted with {has}, the site has {wanted}"
    if not found.held:
        return (
            f"the volume {found.volume} is not reserved for {space}/{found.name} (claimRef, Retain)"
        )
    return ""


APPLY = "appliance queue plan, then appliance queue apply"
OWN = "appliance"
OWN_QUOTA = f"exceeded quota: {OWN},"
WEBHOOK = re.compile(r"webhook \"([^\"]+)\"")
UNDECIDED = ("does not support dry run", "did not answer", "no answer:", "429:")
"""Errors of a webhook or the API after which it is unknown whether a member can submit."""


def _members(view: View) -> Iterator[Judgement]:
    """Judge projects, then queues, then hosts of pools."""
    projects = projects_of(view.site)
    host, known, _ = scheduler_facts(view)
    for project in projects:
        target = place(host, f"project {project.name}")
        said = (known.submissions or {}).get(namespace_of(project.name)) if known else None
        who = project.users[0] if project.users else f"group {project.groups[0]}"
        if said is None:
            yield not_assessed(target, missing(view, "the rights of its members"))
        elif any(words in said for words in UNDECIDED):
            yield not_assessed(
                target, f"the API did not judge a pod of {who}: {said}", fix=WEBHOOKS
            )
        elif OWN_QUOTA in said and _as_the_site_says(view.site, project, said):
            # Its members have all that the site gives the project.
            yield passed(target, "its quota is used up", evidence=said)
        elif said:
            cause = f"{who} cannot submit a pod: {said}"
            yield failed(target, cause, _way_in(namespace_of(project.name), said))
        else:
            yield passed(target, f"{who} can submit a pod")
    if projects and view.site.scheduler:
        yield from _queues(view, view.site.scheduler, host, known)
        yield from _pools(view, view.site.scheduler)


def _as_the_site_says(site: Site, project: Project, said: str) -> bool:
    """Return whether the limits in a refusal by the project's quota are at least the site's. A missing limit is unlimited."""
    named = dict(part.partition("=")[::2] for part in said.rpartition("limited: ")[2].split(","))
    wanted = quota(site, project, namespace_of(project.name), [])["spec"]["hard"]
    found = [(named[name], wanted[name]) for name in named if wanted.get(name, "").isdigit()]
    return bool(found) and all(_count(has) >= int(most) for has, most in found)


def _count(quantity: str) -> int:
    """A quantity of Kubernetes for a whole number, such as 500 or 2k; 0 for any other."""
    digits = quantity.removesuffix("k")
    return int(digits) * (1000 if quantity.endswith("k") else 1) if digits.isdigit() else 0


def _way_in(space: str, said: str) -> str:
    """Return the remedy for a refusal: delete an object that the appliance did not create, or restore one that it did."""
    foreign, webhook = QUOTA.search(said), WEBHOOK.search(said)
    if foreign and foreign[1] != OWN:
        return f"if the quota is not needed: kubectl -n {space} delete resourcequota {foreign[1]}"
    if "usage per" in said:
        return f"kubectl -n {space} get limitrange: delete those that are not needed and not named {OWN}"
    if webhook:
        return f"{WEBHOOKS}: start the service of {webhook[1]}, or delete its configuration"
    return APPLY


def _queues(
    view: View, options: SchedulerOptions, host: str, known: SchedulerFacts | None
) -> Iterator[Judgement]:
    live = {queue.name: queue for queue in (known.queues or ())} if known else {}
    for made in queues(view.site, options, of_a_gpu(view.site, view.profile, options)):
        name, spec = made["metadata"]["name"], made["spec"]
        target, queue = place(host, f"queue {name}"), live.get(name)
        gpus = spec["resources"]["gpu"]
        if known is None or known.queues is None:
            yield not_assessed(target, missing(view, "its queues"))
        elif queue is None:
            yield failed(target, f"the cluster has no queue {name}", APPLY)
        elif queue.parent != spec.get("parentQueue", ""):
            yield failed(target, f"its parent is {queue.parent or 'none'}", APPLY)
        elif (queue.gpu_quota, queue.gpu_limit) != (gpus["quota"], gpus["limit"]):
            has = f"{queue.gpu_quota:g} GPUs, limit {queue.gpu_limit:g}"
            wanted = f"{gpus['quota']:g} GPUs, limit {gpus['limit']:g}"
            yield failed(target, f"it has a quota of {has}; the site has {wanted}", APPLY)
        else:
            yield passed(target, f"{queue.gpu_quota:g} GPUs")


def _pools(view: View, options: SchedulerOptions) -> Iterator[Judgement]:
    """Report hosts in the wrong pool."""
    wanted = {host: pool.name for pool in options.node_pools for host in pool.hosts}
    for host in view.site.with_role(Role.CONTROL):
        facts = view.facts.get(host.name)
        nodes = facts.kubernetes.nodes if facts and facts.kubernetes else None
        if nodes is None:
            continue
        for node in nodes:
            pool = wanted.get(node.name, "")
            if node.pool != pool:
                cause = f"{node.name} is in the node pool {node.pool or 'default'}; the site has {pool or 'default'}"
                yield failed(place(host.name, f"node {node.name}"), cause, APPLY)
        return


CHECKS: tuple[Check, ...] = (
    ClusterCheck(
        ids.RELEASES,
        "Every chart is installed at its pinned version",
        _releases,
        "Network Operator and scheduler are Helm releases. Each must be deployed at the version in appliance/stages/scheduler/charts.yml. "
        "Pending means that an installation was interrupted; failed means that it was not rolled back.",
        "the pinned version of the release line the site or its profile chose",
        causes=(
            UNASKED,
            NO_API,
            FULL,
        ),
    ),
    ClusterCheck(
        ids.PODS,
        "The pods of every release are ready",
        _pods,
        "All pods in a release's namespace, including those that an operator creates, and those that the API refuses to create. Usual "
        "causes: no image, no host with room, a missing Secret, a used-up quota, or a driver that is not ready.",
        causes=(
            UNASKED,
            NO_API,
            FULL,
            Cause(ids.RELEASES, "what is not installed has no pods", Reach.PART),
            NO_PLACE,
        ),
    ),
    ClusterCheck(
        ids.RDMA,
        "Pods can request the fabric's adapters",
        _rdma,
        "With scheduler.rdma: shared, the Network Operator's device plugin registers a host's adapters with kubelet as shared by a number "
        "of pods. Pods that train over several hosts request one. Usual causes if there is none: no policy, an image that cannot be pulled, "
        "or no adapter with a network interface of the class's kind.",
        "at least 1",
        causes=(
            UNASKED,
            NO_API,
            FULL,
            NODE_NOT_READY,
            Cause(
                ids.RELEASES,
                "the Network Operator installs the device plugin",
                Reach.SITE,
                is_of("network-operator"),
            ),
            Cause(
                ids.PODS,
                "the device plugin is a pod of the Network Operator",
                Reach.SITE,
                is_of("network-operator"),
            ),
        ),
    ),
    ClusterCheck(
        ids.TREES,
        "Shared trees are volumes of their projects",
        _trees,
        "appliance queue apply creates a volume and a claim for each tree in scheduler.projects[].trees. The claim must be bound to a "
        "volume of that export, mounted with the site's options and reserved for this claim only: any project could use a volume without "
        "such a reservation.",
        causes=(
            UNASKED,
            NO_API,
            FULL,
        ),
    ),
    ClusterCheck(
        ids.MEMBERS,
        "Members of each project can submit work",
        _members,
        "The API of the cluster judges a small pod of a member of each project, and does not create it. So rights, quotas, limit ranges, "
        "admission policies and webhooks are tried as a member meets them. The queues of KAI must have the site's "
        "parents, GPU quotas and GPU limits, and the hosts the labels of their node pools. Usual causes: an object that was changed or "
        "deleted by hand, and a webhook that does not answer.",
        nature=Nature.SYMPTOM,
        causes=(
            UNASKED,
            NO_API,
            FULL,
            NO_ROUTES,
            Cause(
                ids.RELEASES,
                "without the scheduler there are no queues",
                Reach.SITE,
                is_of("kai-scheduler"),
            ),
            Cause(
                ids.PODS,
                "the scheduler's own webhooks judge pods",
                Reach.SITE,
                is_of("kai-scheduler"),
            ),
        ),
    ),
)
