"""What work of a project may ask for: policies the API server keeps itself (ValidatingAdmissionPolicy, Kubernetes 1.30 and newer).

A queue of KAI is a label that anybody may write (KAI issue 2068), so quotas hold only where somebody refuses the labels of others.
Pods are judged whoever makes them; of kinds with pods' templates also the templates, so that people are told when they apply, and not
by an event later. What a project may name stands on its namespace, as labels that members cannot change.
"""

from dataclasses import dataclass, field

from appliance.models.profile import Profile
from appliance.models.site import Site
from appliance.stages.kubernetes.variables.releases import told
from appliance.stages.scheduler.queues.kai import DEFAULT_QUEUES, POOL_LABEL
from appliance.stages.scheduler.queues.limits import HOME
from appliance.stages.scheduler.queues.manifest import Manifest, manifest
from appliance.stages.scheduler.queues.tree import leaf_name
from appliance.stages.scheduler.site import DEFAULT_POOL, Project, SchedulerOptions

API = "admissionregistration.k8s.io/v1"
POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
SINCE = 30
"""The minor release of Kubernetes that has them in version v1."""

PROJECT = "appliance/project"
"""Label of a project's namespace: the policies hold in these."""
QUEUE_OF = "queue.appliance/"
"""Before the name of each queue of the project, in a label of its namespace; the value is the queue's pool."""
PRIORITY_OF = "priority.appliance/"
"""The same of priority classes."""
EVICTABLE = frozenset({"train", "build-preemptible"})
"""Classes that are everybody's: such work makes room."""

SCHEDULER = "kai-scheduler"
QUEUE = "kai.scheduler/queue"
KAI_ACCOUNTS = ("system:serviceaccount:kai-scheduler:", "system:serviceaccount:kai-resource-")
LONGEST_GRACE = 600
"""Seconds. Evicted work keeps its GPUs for its grace, and their owner waits for it."""

# Baseline's own list, and what RDMA needs (Kubernetes, Pod Security Standards).
CAPABILITIES = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
    *("NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT", "IPC_LOCK"),
)
PARTS = ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices", "gpu-fraction-container-name")
"""Annotations by which a pod asks for a part of a GPU (KAI v0.12 to v0.18)."""
BINDERS = ("received-resource-type", "runai-gpu-group", "runai/shared-gpu-configmap")
"""What KAI's admission and binder write on pods, and read again."""
STAMPS = ("kai.scheduler/last-start-timestamp", "kai.scheduler/stale-podgroup-timestamp")
"""The pod-grouper copies an owner's annotations to its group, where the scheduler reads since when the work runs (v0.12.0)."""
GROUP = "pod-group-name"
PRIORITY_LABEL = "priorityClassName"
"""Goes before the field of this name (KAI v0.12.0, default_grouper)."""

TEMPLATES: tuple[tuple[str, str, str], ...] = (
    ("apps", "deployments", "[object.spec.template]"),
    ("apps", "statefulsets", "[object.spec.template]"),
    ("batch", "jobs", "[object.spec.template]"),
    ("batch", "cronjobs", "[object.spec.jobTemplate.spec.template]"),
    (
        "jobset.x-k8s.io",
        "jobsets",
        "object.spec.replicatedJobs.map(j, j.template.spec.template)",
    ),
    (
        "kubeflow.org",
        "mpijobs",
        "object.spec.mpiReplicaSpecs.map(r, object.spec.mpiReplicaSpecs[r].template)",
    ),
    (
        "leaderworkerset.x-k8s.io",
        "leaderworkersets",
        "[object.spec.leaderWorkerTemplate.workerTemplate]"
        " + (has(object.spec.leaderWorkerTemplate.leaderTemplate)"
        " ? [object.spec.leaderWorkerTemplate.leaderTemplate] : [])",
    ),
    ("ray.io", "rayclusters", "{ray}(object.spec)"),
    ("ray.io", "rayjobs", "{ray}(object.spec.rayClusterSpec)"),
    ("ray.io", "rayservices", "{ray}(object.spec.rayClusterConfig)"),
    (
        "trainer.kubeflow.org",
        "trainingruntimes",
        "object.spec.template.spec.replicatedJobs.map(j, j.template.spec.template)",
    ),
)
"""Group, resource, and where the pods' templates of one lie. What is not among these is judged when its pods are made."""


@dataclass(frozen=True)
class Rule:
    """One thing that is refused. ``expression`` of CEL is true of good work; ``message`` ends with what to write instead."""

    expression: str
    message: str


@dataclass(frozen=True)
class Policy:
    """``on``: what is looked at. ``only``: conditions under which it is; ``variables`` by name, in their order."""

    name: str
    rules: tuple[Rule, ...]
    on: tuple[Manifest, ...]
    only: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)


def labels_of(project: Project) -> dict[str, str]:
    """Of the project's namespace: what its work may name."""
    queues = {QUEUE_OF + leaf_name(project.name, q.name): q.pool for q in project.queues}
    named = {name for q in project.queues for name in (q.work, q.priority_class) if name}
    classes = {PRIORITY_OF + name: "" for name in sorted(EVICTABLE | named)}
    return {PROJECT: project.name, **queues, **classes}


def kept_by(site: Site, profile: Profile) -> bool:
    """Whether the site's cluster knows such policies. Of a cluster of somebody else's nobody here knows the release: it has to."""
    own = site.kubernetes
    if own is None or own.external is not None:
        return True
    chosen = told(
        own.version or site.software.get("kubernetes") or profile.software.kubernetes or ""
    )
    return chosen is None or chosen.minor >= SINCE


def tenants(site: Site, options: SchedulerOptions) -> list[Manifest]:
    """All policies, each with its binding to the namespaces of projects."""
    found = []
    for policy in policies(options):
        conditions = [{"name": n, "expression": e} for n, e in policy.only.items()]
        variables = [{"name": n, "expression": e} for n, e in policy.variables.items()]
        spec = {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": list(policy.on)},
            **({"matchConditions": conditions} if conditions else {}),
            **({"variables": variables} if variables else {}),
            "validations": [
                {"expression": r.expression, "message": r.message, "reason": "Forbidden"}
                for r in policy.rules
            ],
        }
        bound = {
            "policyName": policy.name,
            "validationActions": ["Deny"],
            "matchResources": {
                "namespaceSelector": {
                    "matchExpressions": [{"key": PROJECT, "operator": "Exists"}],
                }
            },
        }
        found += [
            manifest(site.name, API, POLICY, policy.name, {"spec": spec}),
            manifest(site.name, API, BINDING, policy.name, {"spec": bound}),
        ]
    return found


def policies(options: SchedulerOptions) -> tuple[Policy, ...]:
    """In the order people read them: where work waits, what it gets, what it may touch, how it ends."""
    managed = options.kind != "kai"
    return (
        _scheduler(managed),
        _queue(options),
        _queue_label(options),
        *(() if managed else (_pool(),)),
        _priority(),
        _placement(),
        _gpus(options),
        _gpu_words(),
        _host(options),
        _end(),
        _marks(),
        _frozen(),
        _services(),
    )


# Of objects ----------------------------------------------------------------------------------------------------------


def _resources(group: str, resources: list[str], operations: list[str]) -> Manifest:
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "resources": resources,
        "operations": operations,
        "scope": "Namespaced",
    }


_WRITES = ["CREATE", "UPDATE"]
PODS = (_resources("", ["pods"], ["CREATE"]),)
ANY = (_resources("*", ["*"], _WRITES),)


def _templated() -> tuple[Manifest, ...]:
    groups = dict.fromkeys(group for group, _, _ in TEMPLATES)
    return tuple(
        _resources(group, [r for g, r, _ in TEMPLATES if g == group], _WRITES) for group in groups
    )


def _ray(where: str) -> str:
    return (
        f"([{where}.headGroupSpec.template] + (has({where}.workerGroupSpecs)"
        f" ? {where}.workerGroupSpecs.map(g, g.template) : []))"
    )


def _lists(root: str) -> str:
    """CEL for the list of an object's templates; a pod is its own."""
    chosen = f"[{root}]"
    for group, resource, where in reversed(TEMPLATES):
        if where.startswith("{ray}"):
            where = _ray(where.removeprefix("{ray}(").removesuffix(")"))
        there = where.replace("object.", f"{root}.")
        asked = f"request.resource.group == '{group}' && request.resource.resource == '{resource}'"
        chosen = f"{asked} ? {there} : {chosen}"
    return chosen


def _label(of: str, key: str) -> str:
    return f"(has({of}.metadata) && has({of}.metadata.labels) && '{key}' in {of}.metadata.labels)"


def _note(of: str, key: str) -> str:
    held = f"{of}.metadata.annotations"
    return f"(has({of}.metadata) && has({held}) && '{key}' in {held})"


OURS = f"request.userInfo.username != 'system:serviceaccount:{HOME}:{HOME}'"
NOT_KAI = " && ".join(f"!request.userInfo.username.startsWith('{a}')" for a in KAI_ACCOUNTS)
MEMBERS = (
    "(!request.userInfo.username.startsWith('system:') || "
    "request.userInfo.username.startsWith('system:serviceaccount:' + request.namespace + ':'))"
)
"""People, and accounts of the project itself: not the cluster's controllers, nor operators of other namespaces."""

ONLY_OTHERS = {"not-by-limits": OURS}
SPACE = "namespaceObject.metadata.labels"

TEMPLATED = {
    "templates": f"({_lists('object')}).filter(t, has(t.spec))",
    # A change that leaves pods as they are is nobody's cheat: controllers make such changes to work that is older than the policies.
    "before": f"oldObject == null ? [] : ({_lists('oldObject')}).filter(t, has(t.spec))",
    "same": (
        "request.operation == 'UPDATE' && variables.templates == variables.before"
        " && (has(object.metadata.labels) ? object.metadata.labels : {})"
        " == (has(oldObject.metadata.labels) ? oldObject.metadata.labels : {})"
    ),
}

EVERY = (
    "(t.spec.containers + (has(t.spec.initContainers) ? t.spec.initContainers : [])"
    " + (has(t.spec.ephemeralContainers) ? t.spec.ephemeralContainers : []))"
)
"""CEL for all containers of template t."""


def _of_templates(name: str, *rules: Rule, more: bool = False) -> Policy:
    """A policy of pods, and of the templates of all kinds; ``more``: of what is added to a pod later, too."""
    judged = tuple(Rule(f"variables.same || {r.expression}", r.message) for r in rules)
    later = (_resources("", ["pods/ephemeralcontainers"], ["UPDATE"]),) if more else ()
    return Policy(name, judged, (*PODS, *later, *_templated()), dict(ONLY_OTHERS), dict(TEMPLATED))


# The policies --------------------------------------------------------------------------------------------------------


def _scheduler(managed: bool) -> Policy:
    """KAI's resource management sets the scheduler of pods itself, before they are judged."""
    rule = Rule(
        "variables.templates.all(t, has(t.spec.schedulerName)"
        f" && t.spec.schedulerName == '{SCHEDULER}')",
        "work of a project is placed by KAI, for another scheduler keeps to no quota: "
        f"write schedulerName: {SCHEDULER} beside the pod's containers",
    )
    policy = _of_templates("appliance-scheduler", rule)
    return (
        Policy(policy.name, policy.rules, PODS, policy.only, policy.variables)
        if managed
        else policy
    )


def _queue(options: SchedulerOptions) -> Policy:
    """That pods say where they wait, and as their owner does: KAI reads the owner's label first, limits of time the pod's."""
    lax = options.unassigned == "idle" or options.kind != "kai"
    named = Rule(
        f"variables.templates.all(t, {_label('t', QUEUE)})",
        "a pod of a project names the queue it waits in: "
        f"write the label {QUEUE}: QUEUE into the pod's metadata (of a Job, its template's); "
        "appliance queue show lists the queues",
    )
    own = Rule(
        f"([object] + variables.templates).all(t, !{_label('t', QUEUE)} || {_own('t', options)})",
        FOREIGN,
    )
    like = Rule(
        f"!{_label('object', QUEUE)} || variables.templates.all(t, !{_label('t', QUEUE)}"
        f" || t.metadata.labels['{QUEUE}'] == object.metadata.labels['{QUEUE}'])",
        f"the label {QUEUE} of the object and of its pods differ: write the same queue in both",
    )
    return _of_templates("appliance-queue", *(() if lax else (named,)), own, like)


def _queue_label(options: SchedulerOptions) -> Policy:
    """Whatever else carries the label, custom resources too: KAI takes the queue of a pod from what owns it."""
    judged = ", ".join(f"'{resource}'" for resource in ("pods", *(r for _, r, _ in TEMPLATES)))
    old, new = (f"{of}.metadata.labels['{QUEUE}']" for of in ("oldObject", "object"))
    conditions = {
        "labelled": f"has(object.metadata) && {_label('object', QUEUE)}",
        "changed": f"request.operation == 'CREATE' || !{_label('oldObject', QUEUE)} || {old} != {new}",
        "not-judged-elsewhere": f"!(request.resource.resource in [{judged}])",
    }
    rule = Rule(_own("object", options), FOREIGN)
    return Policy("appliance-queue-label", (rule,), ANY, conditions)


FOREIGN = (
    f"the label {QUEUE} names a queue that is none of this project's: write one of its own; "
    "appliance queue show lists them, and the labels of the namespace"
)


def _own(of: str, options: SchedulerOptions) -> str:
    free = ", ".join(f"'{name}'" for name, parent in DEFAULT_QUEUES if parent)
    idle = (
        f" || {of}.metadata.labels['{QUEUE}'] in [{free}]" if options.unassigned == "idle" else ""
    )
    return f"(('{QUEUE_OF}' + {of}.metadata.labels['{QUEUE}']) in {SPACE}{idle})"


def _pool() -> Policy:
    """A scheduler of KAI takes the pods with the label of its pool alone; work without it waits for ever."""
    pool = f"'{QUEUE_OF}' + t.metadata.labels['{QUEUE}']"
    wanted = f"{SPACE}[{pool}]"
    right = Rule(
        f"variables.templates.all(t, !{_label('t', QUEUE)} || !(({pool}) in {SPACE})"
        f" || ({wanted} == '{DEFAULT_POOL}' ? !{_label('t', POOL_LABEL)}"
        f" : {_label('t', POOL_LABEL)} && t.metadata.labels['{POOL_LABEL}'] == {wanted}))",
        f"the pod's label {POOL_LABEL} is not the node pool of its queue: write the pool that appliance queue show "
        f"gives for the queue, and leave the label away in the pool {DEFAULT_POOL}",
    )
    of_owner = Rule(
        f"!{_label('object', POOL_LABEL)} || variables.templates.all(t, {_label('t', POOL_LABEL)}"
        f" && t.metadata.labels['{POOL_LABEL}'] == object.metadata.labels['{POOL_LABEL}'])",
        f"the label {POOL_LABEL} of the object and of its pods differ: write the same pool in both",
    )
    selector = Rule(
        "variables.templates.all(t, !has(t.spec.nodeSelector)"
        f" || !('{POOL_LABEL}' in t.spec.nodeSelector) || ({_label('t', POOL_LABEL)}"
        f" && t.spec.nodeSelector['{POOL_LABEL}'] == t.metadata.labels['{POOL_LABEL}']))",
        "the pod selects hosts of another node pool than its queue's: take the line out of nodeSelector, "
        "for the queue's pool is chosen by itself",
    )
    return _of_templates("appliance-pool", right, of_owner, selector)


def _priority() -> Policy:
    """The stock scheduler would evict anybody's work for a system class; KAI never evicts a class from 100 on."""
    field_rule = Rule(
        "variables.templates.all(t, !has(t.spec.priorityClassName) || t.spec.priorityClassName == ''"
        f" || ('{PRIORITY_OF}' + t.spec.priorityClassName) in {SPACE})",
        "the priority class is none of this project's: take priorityClassName out, or write the one of the queue "
        "(train, or build and inference where the project has such a queue)",
    )
    of_label = Rule(
        f"([object] + variables.templates).all(t, !{_label('t', PRIORITY_LABEL)}"
        f" || ('{PRIORITY_OF}' + t.metadata.labels['{PRIORITY_LABEL}']) in {SPACE})",
        f"the label {PRIORITY_LABEL} names a priority class that is none of this project's: take the label out",
    )
    return _of_templates("appliance-priority", field_rule, of_label)


def _placement() -> Policy:
    taints = ("node-role.kubernetes.io/", "appliance/")
    others = " && ".join(f"!o.key.startsWith('{taint}')" for taint in taints)
    far = (
        "podAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        "podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution",
    )
    terms = " && ".join(
        f"(!has(t.spec.affinity.{kind.partition('.')[0]}) || !has(t.spec.affinity.{kind})"
        f" || t.spec.affinity.{kind}.all(a, !has(a.namespaceSelector)"
        " && (!has(a.namespaces) || a.namespaces.all(n, n == request.namespace))))"
        for kind in far
    )
    return _of_templates(
        "appliance-placement",
        Rule(
            "variables.templates.all(t, !has(t.spec.nodeName) || t.spec.nodeName == '')",
            "a pod that names its host passes by queue and quota: take nodeName out; "
            "nodeSelector with kubernetes.io/hostname asks KAI for a host",
        ),
        Rule(
            "variables.templates.all(t, !has(t.spec.tolerations) || t.spec.tolerations.all(o, has(o.key)"
            f" && o.key != '' && o.key != 'node.kubernetes.io/unschedulable' && {others}))",
            "the pod tolerates hosts that are kept free or are not for this work: take out of tolerations those without a key "
            "and those of control planes, drained hosts and appliance/owner",
        ),
        Rule(
            f"variables.templates.all(t, !has(t.spec.affinity) || ({terms}))",
            "the pod keeps work of other projects away from a host: take namespaces and namespaceSelector "
            "out of podAffinity and podAntiAffinity",
        ),
    )


def _asks_gpu(boxes: str) -> str:
    return (
        f"{boxes}.exists(c, has(c.resources) && has(c.resources.limits)"
        " && c.resources.limits.exists(r, r.startsWith('nvidia.com/')))"
    )


def _gpus(options: SchedulerOptions) -> Policy:
    """That GPUs are those KAI counts. It takes the larger of init containers and others, so sidecars' would be free (v0.12.0)."""
    shared = options.sharing != "none"
    parts = " || ".join(_note("t", key) for key in PARTS)
    given = f"({parts})" if shared else "false"
    # KAI's own admission writes it for a part of a GPU, from a ConfigMap of the pod's.
    own = (
        f"({given} && has(e.valueFrom) && has(e.valueFrom.configMapKeyRef)"
        " && e.valueFrom.configMapKeyRef.name.contains('-shared-gpu-'))"
    )
    rules = [
        Rule(
            f"variables.templates.all(t, {EVERY}.all(c, !has(c.env) || c.env.all(e,"
            f" e.name != 'NVIDIA_VISIBLE_DEVICES' || {own})))",
            "NVIDIA_VISIBLE_DEVICES would show the container GPUs nobody gave it: take it out of env; "
            "the GPUs of nvidia.com/gpu under resources.limits are visible by themselves",
        ),
        Rule(
            f"variables.templates.all(t, {EVERY}.all(c, !has(c.envFrom) || c.envFrom.all(e,"
            " !has(e.prefix) || e.prefix == '' || !'NVIDIA_VISIBLE_DEVICES'.startsWith(e.prefix))))",
            "the prefix under envFrom could make NVIDIA_VISIBLE_DEVICES: choose another prefix",
        ),
        Rule(
            "variables.templates.all(t, !has(t.spec.runtimeClassName) || t.spec.runtimeClassName == null"
            f" || !t.spec.runtimeClassName.startsWith('nvidia') || {given} || {_asks_gpu('t.spec.containers')})",
            "the runtime class nvidia shows GPUs to a pod that asks for none: take runtimeClassName out, "
            "or ask for nvidia.com/gpu under resources.limits",
        ),
        Rule(
            f"variables.templates.all(t, {EVERY}.all(c, !has(c.resources) || !has(c.resources.limits)"
            " || c.resources.limits.all(r, !r.startsWith('nvidia.com/') || r == 'nvidia.com/gpu'"
            " || r.startsWith('nvidia.com/mig-'))))",
            "the queues do not count this kind of GPU: ask for nvidia.com/gpu or an instance nvidia.com/mig-…",
        ),
        Rule(
            "variables.templates.all(t, !has(t.spec.initContainers)"
            f" || !{_asks_gpu('t.spec.initContainers')})",
            "GPUs of init containers are not counted beside those of the others: ask for them in containers",
        ),
        Rule(
            "variables.templates.all(t, !has(t.spec.resourceClaims) || t.spec.resourceClaims.size() == 0)",
            "devices by resource claims pass by the queues: ask for nvidia.com/gpu under resources.limits",
        ),
    ]
    if not shared:
        none = " && ".join(f"!{_note('t', key)}" for key in PARTS)
        rules.append(
            Rule(
                f"variables.templates.all(t, {none})",
                "GPUs are not shared at this site: take the annotations gpu-fraction and gpu-memory out, "
                "and ask for a whole GPU or an instance of MIG",
            )
        )
    return _of_templates("appliance-gpus", *rules, more=True)


def _gpu_words() -> Policy:
    """envFrom makes a variable of each key, and the container's own come after those of the device plugin."""
    keys = "(!has(object.data) || !('NVIDIA_VISIBLE_DEVICES' in object.data))"
    whole = "(!has(object.binaryData) || !('NVIDIA_VISIBLE_DEVICES' in object.binaryData))"
    on = (_resources("", ["configmaps", "secrets"], _WRITES),)
    rules = (
        Rule(
            f"{keys} && {whole}",
            "NVIDIA_VISIBLE_DEVICES would show containers GPUs nobody gave them: take the key out",
        ),
        Rule(
            "!object.metadata.name.contains('-shared-gpu-')",
            "what has -shared-gpu- in its name says which part of a GPU a pod has, and is KAI's: choose another name",
        ),
    )
    return Policy("appliance-gpu-words", rules, on, {"not-by-kai": NOT_KAI})


def _host(options: SchedulerOptions) -> Policy:
    """Also where the site says pod_security: privileged, which RDMA needs: a pod that has the host has all of its GPUs."""
    names = ", ".join(f"'{name}'" for name in CAPABILITIES)
    spaces = ("hostPID", "hostIPC", *(() if options.rdma == "host" else ("hostNetwork",)))
    none = " && ".join(f"(!has(t.spec.{name}) || !t.spec.{name})" for name in spaces)
    context = "has(c.securityContext)"
    return _of_templates(
        "appliance-host",
        Rule(
            f"variables.templates.all(t, {none})",
            f"the pod asks for the host's own namespaces: take {', '.join(spaces)} out",
        ),
        Rule(
            "variables.templates.all(t, !has(t.spec.volumes) || t.spec.volumes.all(v, !has(v.hostPath)))",
            "the pod mounts a folder or device of the host: take hostPath out; use a claim, or emptyDir",
        ),
        Rule(
            f"variables.templates.all(t, {EVERY}.all(c, !{context}"
            " || ((!has(c.securityContext.privileged) || !c.securityContext.privileged)"
            " && (!has(c.securityContext.procMount) || c.securityContext.procMount == 'Default')"
            " && (!has(c.securityContext.capabilities) || !has(c.securityContext.capabilities.add)"
            f" || c.securityContext.capabilities.add.all(k, k in [{names}])))))",
            "the container asks for power over the host: take privileged, procMount and all added capabilities out but IPC_LOCK",
        ),
        more=True,
    )


def _end() -> Policy:
    return _of_templates(
        "appliance-end",
        Rule(
            "variables.templates.all(t, !has(t.spec.terminationGracePeriodSeconds)"
            f" || t.spec.terminationGracePeriodSeconds <= {LONGEST_GRACE})",
            "work that is evicted keeps its GPUs for its grace while their owner waits: write "
            f"terminationGracePeriodSeconds of {LONGEST_GRACE} at most, and save what you need within that",
        ),
    )


def _marks() -> Policy:
    """What the cluster's own programs write, and a person could only forge."""
    stamped = " && ".join(f"!{_note('object', key)}" for key in STAMPS)
    written = " && ".join(f"!{_note('object', key)}" for key in (*BINDERS, GROUP))
    owned = (
        "!has(object.metadata.ownerReferences)"
        " || object.metadata.ownerReferences.all(o, o.kind == 'Pod' && o.apiVersion == 'v1')"
    )
    before = "(oldObject != null && has(oldObject.metadata.ownerReferences) ? oldObject.metadata.ownerReferences : [])"
    now = "(has(object.metadata.ownerReferences) ? object.metadata.ownerReferences : [])"
    pod = "request.resource.group != '' || request.resource.resource != 'pods'"
    runs = "request.resource.resource in ['pods', 'jobs', 'deployments', 'replicasets', 'statefulsets']"
    rules = (
        Rule(
            f"{stamped}",
            "the annotation tells KAI since when work runs, and is KAI's to write: take it out",
        ),
        Rule(
            f"{pod} || request.operation == 'UPDATE' || ({written})",
            f"the annotation says what KAI gave the pod, and is KAI's to write: take {GROUP} and its like out",
        ),
        Rule(
            f"!({runs}) || {now} == {before} || {owned}",
            "only the cluster's controllers make a pod or Job somebody's: take ownerReferences out",
        ),
    )
    return Policy("appliance-marks", rules, ANY, {"by-members": MEMBERS})


def _frozen() -> Policy:
    labels = (QUEUE, POOL_LABEL, PRIORITY_LABEL, "kai.scheduler/subgroup-name", "runai-gpu-group")
    notes = (*PARTS, *BINDERS, GROUP)

    def same(kind: str, keys: tuple[str, ...]) -> str:
        new, old = f"object.metadata.{kind}", f"oldObject.metadata.{kind}"
        listed = ", ".join(f"'{key}'" for key in keys)
        return (
            f"[{listed}].all(k, (has({new}) && k in {new} ? {new}[k] : '')"
            f" == (has({old}) && k in {old} ? {old}[k] : ''))"
        )

    rule = Rule(
        f"{same('labels', labels)} && {same('annotations', notes)}",
        "queue, pool, priority and GPUs of a pod stay as they were when it was made: delete the pod, "
        "and make it anew in the queue you want",
    )
    on = (_resources("", ["pods"], ["UPDATE"]),)
    return Policy("appliance-frozen", (rule,), on, {"by-members": MEMBERS})


def _services() -> Policy:
    rule = Rule(
        "!has(object.spec.externalIPs) || object.spec.externalIPs.size() == 0",
        "externalIPs would draw traffic of others to this project (CVE-2020-8554): take them out",
    )
    return Policy("appliance-services", (rule,), (_resources("", ["services"], _WRITES),))
