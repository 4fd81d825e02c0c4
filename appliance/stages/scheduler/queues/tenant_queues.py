"""Policies of queueing: a project's work uses KAI, its own queues, node pools and priorities, and any host of these.

A queue of KAI is a label that any user can write (KAI issue 2068), so quotas need a policy that refuses labels of others.
The allowed values of a project are labels of its namespace, which members cannot change.
"""

from appliance.stages.scheduler.queues.admission import (
    ANY,
    MEMBERS,
    PODS,
    SPACE,
    TEMPLATES,
    Policy,
    Rule,
    label,
    objects,
    of_templates,
)
from appliance.stages.scheduler.queues.kai import DEFAULT_QUEUES, POOL_LABEL
from appliance.stages.scheduler.site import DEFAULT_POOL, SchedulerOptions

QUEUE_OF = "queue.appliance/"
"""Before the name of each queue of the project, in a label of its namespace; the value is the queue's pool."""
PRIORITY_OF = "priority.appliance/"
"""The same of priority classes."""
STATE = "node.kubernetes.io/"
PASSING = ("not-ready", "unreachable", "memory-pressure")
"""Taints by the state of a host that the API server itself has pods tolerate. The others keep work off a host."""
FAR = (
    ("requiredDuringSchedulingIgnoredDuringExecution", ""),
    ("preferredDuringSchedulingIgnoredDuringExecution", "podAffinityTerm."),
)
"""The fields of pod affinity. A preferred term of a running pod also affects later pods."""
SCHEDULER = "kai-scheduler"
QUEUE = "kai.scheduler/queue"
PROJECT_LABEL = "project"
"""Read as a queue where neither the pod nor its owner has one (KAI v0.12, default_grouper)."""
PRIORITY_LABEL = "priorityClassName"
"""Goes before the field of this name (KAI v0.12.0, default_grouper)."""
PRIORITY_LABELS = (PRIORITY_LABEL, "ray.io/priority-class-name")
"""The second, on a RayCluster, RayJob or RayService, goes before both (KAI v0.12.0, ray_grouper)."""


def scheduler(managed: bool) -> Policy:
    """KAI's resource management sets the scheduler of pods itself, before they are judged."""
    rule = Rule(
        "variables.templates.all(t, has(t.spec.schedulerName)"
        f" && t.spec.schedulerName == '{SCHEDULER}')",
        f"only KAI enforces quotas: set schedulerName: {SCHEDULER} in the pod's spec",
    )
    policy = of_templates("appliance-scheduler", rule)
    return (
        Policy(policy.name, policy.rules, PODS, policy.only, policy.variables)
        if managed
        else policy
    )


def queue(options: SchedulerOptions) -> Policy:
    """Pods need a queue, the same as their owner: KAI reads the owner's label first, time limits the pod's."""
    lax = options.unassigned == "idle" or options.kind != "kai"
    named = Rule(
        f"variables.templates.all(t, {label('t', QUEUE)})",
        f"a pod of a project needs a queue: add the label {QUEUE}: QUEUE to the pod's metadata (in a Job, to its "
        "template's); "
        "appliance queue show lists the queues",
    )
    own = Rule(
        f"(variables.owners + variables.templates).all(t, !{label('t', QUEUE)} || {_own('t', options)})",
        FOREIGN,
    )
    like = Rule(
        f"!{label('object', QUEUE)} || variables.templates.all(t, !{label('t', QUEUE)}"
        f" || t.metadata.labels['{QUEUE}'] == object.metadata.labels['{QUEUE}'])",
        f"the label {QUEUE} of the object and of its pods differ: set the same queue in both",
    )
    fallen = Rule(
        f"{label('object', QUEUE)} || variables.templates.all(t, {label('t', QUEUE)})"
        f" || (variables.owners + variables.templates).all(t, !{label('t', PROJECT_LABEL)})",
        f"KAI uses the label {PROJECT_LABEL} as the queue of work without a queue: remove it, or add the label {QUEUE}",
    )
    return of_templates("appliance-queue", *(() if lax else (named,)), own, like, fallen)


def queue_label(options: SchedulerOptions) -> Policy:
    """Whatever else carries such a label, custom resources too: KAI takes queue, pool and priority of a pod from what owns it."""
    judged = ", ".join(f"'{resource}'" for resource in ("pods", *(r for _, r, _ in TEMPLATES)))
    # Where pods may name no queue, what owns them may do it by this label, too. Kubernetes' own groups have no dot, or own no pods.
    lax = options.unassigned == "idle" or options.kind != "kai"
    fallen = f"({label('object', PROJECT_LABEL)} && request.resource.group.contains('.'))"
    queue = f"{label('object', QUEUE)} ? {_own('object', options)} : " + (
        f"!{fallen}" if lax else "true"
    )
    allowed = f"'{QUEUE_OF}' + object.metadata.labels['{QUEUE}']"
    pool = (
        f"!{label('object', POOL_LABEL)} || ({label('object', QUEUE)} && ({allowed}) in {SPACE}"
        f" && {SPACE}[{allowed}] == object.metadata.labels['{POOL_LABEL}'])"
    )
    rules = [
        Rule(f"{_had_label(QUEUE)} || ({queue})", FOREIGN),
        *(
            Rule(
                f"{_had_label(key)} || !{label('object', key)}"
                f" || ('{PRIORITY_OF}' + object.metadata.labels['{key}']) in {SPACE}",
                FOREIGN_CLASS,
            )
            for key in PRIORITY_LABELS
        ),
    ]
    if options.kind == "kai":
        rules.append(
            Rule(
                f"{_had_label(POOL_LABEL)} || {pool}",
                f"the label {POOL_LABEL} of an object overrides that of its pods: set the queue's pool and the label "
                f"{QUEUE}, or remove {POOL_LABEL}",
            )
        )
    keys = [QUEUE, POOL_LABEL, *PRIORITY_LABELS, *([PROJECT_LABEL] if lax else [])]
    conditions = {
        "labelled": f"has(object.metadata) && has(object.metadata.labels) && {keys}.exists(k, k in object.metadata.labels)",
        "not-judged-elsewhere": f"!(request.resource.resource in [{judged}])",
        # The scheduler of a pool labels what it asks its binder for with the pool alone (v0.12.0); the pod was judged before.
        "not-bound": "request.resource.group != 'scheduling.run.ai' || request.resource.resource != 'bindrequests'",
    }
    return Policy("appliance-queue-label", tuple(rules), ANY, conditions)


BY_HAND = (
    "(request.resource.group == 'batch' && request.resource.resource == 'jobs'"
    " && has(object.metadata.ownerReferences) && object.metadata.ownerReferences.size() == 1"
    " && object.metadata.ownerReferences.all(o, o.kind == 'CronJob' && o.apiVersion == 'batch/v1'))"
)
"""CEL: a Job that a CronJob owns."""


def manual() -> Policy:
    """A Job that a member creates from a CronJob: KAI uses the queue of the CronJob's label, time limits that of the pods.

    The request does not contain the CronJob, so each one of the namespace is a parameter. If none has the name, the garbage
    collector deletes the Job, and KAI leaves its pods alone.
    """
    cron = "params.spec.jobTemplate.spec.template"
    same = " && ".join(
        f"{_value('object.spec.template', key)} == {_value(cron, key)}"
        for key in (QUEUE, POOL_LABEL)
    )
    rule = Rule(
        f"object.metadata.ownerReferences[0].name != params.metadata.name || ({same})",
        f"a Job created from a CronJob uses the queue of the CronJob: set the same label {QUEUE} in the template of both, "
        "or remove ownerReferences",
    )
    conditions = {"by-members": MEMBERS, "of-a-cronjob": BY_HAND}
    on = (objects("batch", ["jobs"], ["CREATE"]),)
    cronjobs = {"apiVersion": "batch/v1", "kind": "CronJob"}
    return Policy("appliance-manual", (rule,), on, conditions, params=cronjobs)


def _value(of: str, key: str) -> str:
    """CEL: the label, '' where it has none."""
    return f"({label(of, key)} ? {of}.metadata.labels['{key}'] : '')"


def _had_label(key: str) -> str:
    """CEL: the object had the label before."""
    old, new = (f"{of}.metadata.labels['{key}']" for of in ("oldObject", "object"))
    return (
        f"(request.operation == 'UPDATE' && {label('oldObject', key)} && {label('object', key)}"
        f" && {old} == {new})"
    )


FOREIGN = (
    f"the label {QUEUE} is not a queue of this project: use one of its queues; appliance queue show and the labels of the "
    "namespace list them"
)


FOREIGN_CLASS = f"the label {' or '.join(PRIORITY_LABELS)} is not a priority class of this project: remove the label"


def _own(of: str, options: SchedulerOptions) -> str:
    free = ", ".join(f"'{name}'" for name, parent in DEFAULT_QUEUES if parent)
    idle = (
        f" || {of}.metadata.labels['{QUEUE}'] in [{free}]" if options.unassigned == "idle" else ""
    )
    return f"(('{QUEUE_OF}' + {of}.metadata.labels['{QUEUE}']) in {SPACE}{idle})"


def pool() -> Policy:
    """A KAI scheduler handles only pods with the label of its pool; other work stays pending."""
    allowed = f"'{QUEUE_OF}' + t.metadata.labels['{QUEUE}']"
    wanted = f"{SPACE}[{allowed}]"
    right = Rule(
        f"variables.templates.all(t, !{label('t', QUEUE)} || !(({allowed}) in {SPACE})"
        f" || ({wanted} == '{DEFAULT_POOL}' ? !{label('t', POOL_LABEL)}"
        f" : {label('t', POOL_LABEL)} && t.metadata.labels['{POOL_LABEL}'] == {wanted}))",
        f"the pod's label {POOL_LABEL} is not the node pool of its queue: set the pool that appliance queue show lists for "
        f"the queue, and omit the label in the pool {DEFAULT_POOL}",
    )
    of_owner = Rule(
        f"!{label('object', POOL_LABEL)} || variables.templates.all(t, {label('t', POOL_LABEL)}"
        f" && t.metadata.labels['{POOL_LABEL}'] == object.metadata.labels['{POOL_LABEL}'])",
        f"the label {POOL_LABEL} of the object and of its pods differ: set the same pool in both",
    )
    selector = Rule(
        "variables.templates.all(t, !has(t.spec.nodeSelector)"
        f" || !('{POOL_LABEL}' in t.spec.nodeSelector) || ({label('t', POOL_LABEL)}"
        f" && t.spec.nodeSelector['{POOL_LABEL}'] == t.metadata.labels['{POOL_LABEL}']))",
        "the pod selects hosts of another node pool than its queue's: remove the line from nodeSelector; the queue's pool "
        "is selected automatically",
    )
    return of_templates("appliance-pool", right, of_owner, selector)


def priority() -> Policy:
    """The default scheduler would evict other work for a system class; KAI never evicts a class from 100."""
    field_rule = Rule(
        "variables.templates.all(t, !has(t.spec.priorityClassName) || t.spec.priorityClassName == ''"
        f" || ('{PRIORITY_OF}' + t.spec.priorityClassName) in {SPACE})",
        "the priority class does not belong to this project: remove priorityClassName, or set that of the queue "
        "(train, or build and inference where the project has such a queue)",
    )
    own = " && ".join(
        f"(!{label('t', key)} || ('{PRIORITY_OF}' + t.metadata.labels['{key}']) in {SPACE})"
        for key in PRIORITY_LABELS
    )
    of_label = Rule(f"(variables.owners + variables.templates).all(t, {own})", FOREIGN_CLASS)
    return of_templates("appliance-priority", field_rule, of_label)


def placement() -> Policy:
    """KAI selects the host among those for this work, and other projects are not excluded from it."""
    taints = ("node-role.kubernetes.io/", "appliance/")
    others = " && ".join(f"!o.key.startsWith('{taint}')" for taint in taints)
    passing = ", ".join(f"'{STATE}{word}'" for word in PASSING)
    terms = " && ".join(
        f"(!has(t.spec.affinity.{kind}) || !has(t.spec.affinity.{kind}.{when})"
        f" || t.spec.affinity.{kind}.{when}.all(a, !has(a.{of}namespaceSelector)"
        f" && (!has(a.{of}namespaces) || a.{of}namespaces.all(n, n == request.namespace))))"
        for kind in ("podAffinity", "podAntiAffinity")
        for when, of in FAR
    )
    return of_templates(
        "appliance-placement",
        Rule(
            "variables.templates.all(t, !has(t.spec.nodeName) || t.spec.nodeName == '')",
            "nodeName bypasses queue and quota: remove it; to request a host, use nodeSelector with kubernetes.io/hostname",
        ),
        Rule(
            "variables.templates.all(t, !has(t.spec.tolerations) || t.spec.tolerations.all(o, has(o.key)"
            f" && o.key != '' && (!o.key.startsWith('{STATE}') || o.key in [{passing}]) && {others}))",
            "the pod tolerates hosts that are reserved or not for this work: remove tolerations without a key and those of "
            "control planes, drained or unhealthy hosts and appliance/owner",
        ),
        Rule(
            f"variables.templates.all(t, !has(t.spec.affinity) || ({terms}))",
            "the pod keeps work of other projects away from a host: remove namespaces and namespaceSelector from "
            "podAffinity and podAntiAffinity",
        ),
    )
