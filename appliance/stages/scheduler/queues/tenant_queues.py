"""Policies of where a project's work waits: in KAI, in a queue and a node pool of its own, with its own priority, on any host of these.

A queue of KAI is a label that anybody may write (KAI issue 2068), so quotas hold only where somebody refuses the labels of others.
What a project may name stands on its namespace, as labels that members cannot change.
"""

from appliance.stages.scheduler.queues.admission import (
    ANY,
    PODS,
    SPACE,
    TEMPLATES,
    Policy,
    Rule,
    label,
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
"""Where terms of affinity between pods stand. A preferred one of a pod that runs counts against pods that come later, too."""
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
        "work of a project is placed by KAI, for another scheduler keeps to no quota: "
        f"write schedulerName: {SCHEDULER} beside the pod's containers",
    )
    policy = of_templates("appliance-scheduler", rule)
    return (
        Policy(policy.name, policy.rules, PODS, policy.only, policy.variables)
        if managed
        else policy
    )


def queue(options: SchedulerOptions) -> Policy:
    """That pods say where they wait, and as their owner does: KAI reads the owner's label first, limits of time the pod's."""
    lax = options.unassigned == "idle" or options.kind != "kai"
    named = Rule(
        f"variables.templates.all(t, {label('t', QUEUE)})",
        "a pod of a project names the queue it waits in: "
        f"write the label {QUEUE}: QUEUE into the pod's metadata (of a Job, its template's); "
        "appliance queue show lists the queues",
    )
    own = Rule(
        f"([object] + variables.templates).all(t, !{label('t', QUEUE)} || {_own('t', options)})",
        FOREIGN,
    )
    like = Rule(
        f"!{label('object', QUEUE)} || variables.templates.all(t, !{label('t', QUEUE)}"
        f" || t.metadata.labels['{QUEUE}'] == object.metadata.labels['{QUEUE}'])",
        f"the label {QUEUE} of the object and of its pods differ: write the same queue in both",
    )
    fallen = Rule(
        f"{label('object', QUEUE)} || variables.templates.all(t, {label('t', QUEUE)})"
        f" || ([object] + variables.templates).all(t, !{label('t', PROJECT_LABEL)})",
        f"KAI takes the label {PROJECT_LABEL} for the queue of work that names none: take it out, or write the label {QUEUE} too",
    )
    return of_templates("appliance-queue", *(() if lax else (named,)), own, like, fallen)


def queue_label(options: SchedulerOptions) -> Policy:
    """Whatever else carries the label, custom resources too: KAI takes the queue of a pod from what owns it."""
    judged = ", ".join(f"'{resource}'" for resource in ("pods", *(r for _, r, _ in TEMPLATES)))
    old, new = (f"{of}.metadata.labels['{QUEUE}']" for of in ("oldObject", "object"))
    # Where pods may name no queue, what owns them may do it by this label, too. Kubernetes' own groups have no dot, or own no pods.
    lax = options.unassigned == "idle" or options.kind != "kai"
    fallen = f"({label('object', PROJECT_LABEL)} && request.resource.group.contains('.'))"
    either = f"({label('object', QUEUE)}{f' || {fallen}' if lax else ''})"
    conditions = {
        "labelled": f"has(object.metadata) && {either}",
        "changed": f"request.operation == 'CREATE' || !{label('oldObject', QUEUE)} || {old} != {new}",
        "not-judged-elsewhere": f"!(request.resource.resource in [{judged}])",
    }
    rule = Rule(f"{label('object', QUEUE)} && {_own('object', options)}", FOREIGN)
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


def pool() -> Policy:
    """A scheduler of KAI takes the pods with the label of its pool alone; work without it waits for ever."""
    allowed = f"'{QUEUE_OF}' + t.metadata.labels['{QUEUE}']"
    wanted = f"{SPACE}[{allowed}]"
    right = Rule(
        f"variables.templates.all(t, !{label('t', QUEUE)} || !(({allowed}) in {SPACE})"
        f" || ({wanted} == '{DEFAULT_POOL}' ? !{label('t', POOL_LABEL)}"
        f" : {label('t', POOL_LABEL)} && t.metadata.labels['{POOL_LABEL}'] == {wanted}))",
        f"the pod's label {POOL_LABEL} is not the node pool of its queue: write the pool that appliance queue show "
        f"gives for the queue, and leave the label away in the pool {DEFAULT_POOL}",
    )
    of_owner = Rule(
        f"!{label('object', POOL_LABEL)} || variables.templates.all(t, {label('t', POOL_LABEL)}"
        f" && t.metadata.labels['{POOL_LABEL}'] == object.metadata.labels['{POOL_LABEL}'])",
        f"the label {POOL_LABEL} of the object and of its pods differ: write the same pool in both",
    )
    selector = Rule(
        "variables.templates.all(t, !has(t.spec.nodeSelector)"
        f" || !('{POOL_LABEL}' in t.spec.nodeSelector) || ({label('t', POOL_LABEL)}"
        f" && t.spec.nodeSelector['{POOL_LABEL}'] == t.metadata.labels['{POOL_LABEL}']))",
        "the pod selects hosts of another node pool than its queue's: take the line out of nodeSelector, "
        "for the queue's pool is chosen by itself",
    )
    return of_templates("appliance-pool", right, of_owner, selector)


def priority() -> Policy:
    """The stock scheduler would evict anybody's work for a system class; KAI never evicts a class from 100 on."""
    field_rule = Rule(
        "variables.templates.all(t, !has(t.spec.priorityClassName) || t.spec.priorityClassName == ''"
        f" || ('{PRIORITY_OF}' + t.spec.priorityClassName) in {SPACE})",
        "the priority class is none of this project's: take priorityClassName out, or write the one of the queue "
        "(train, or build and inference where the project has such a queue)",
    )
    own = " && ".join(
        f"(!{label('t', key)} || ('{PRIORITY_OF}' + t.metadata.labels['{key}']) in {SPACE})"
        for key in PRIORITY_LABELS
    )
    of_label = Rule(
        f"([object] + variables.templates).all(t, {own})",
        f"the label {' or '.join(PRIORITY_LABELS)} names a priority class that is none of this project's: take the label out",
    )
    return of_templates("appliance-priority", field_rule, of_label)


def placement() -> Policy:
    """KAI chooses the host, among those for this work, and nobody is kept away from one."""
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
            "a pod that names its host passes by queue and quota: take nodeName out; "
            "nodeSelector with kubernetes.io/hostname asks KAI for a host",
        ),
        Rule(
            "variables.templates.all(t, !has(t.spec.tolerations) || t.spec.tolerations.all(o, has(o.key)"
            f" && o.key != '' && (!o.key.startsWith('{STATE}') || o.key in [{passing}]) && {others}))",
            "the pod tolerates hosts that are kept free or are not for this work: take out of tolerations those without a key "
            "and those of control planes, drained or ailing hosts and appliance/owner",
        ),
        Rule(
            f"variables.templates.all(t, !has(t.spec.affinity) || ({terms}))",
            "the pod keeps work of other projects away from a host: take namespaces and namespaceSelector "
            "out of podAffinity and podAntiAffinity",
        ),
    )
