"""Policies of how much a project's work and objects may take: memory and disk of hosts, devices, and room in etcd."""

from dataclasses import replace

from appliance.stages.scheduler.queues.admission import (
    ANY,
    EVERY,
    MEMBERS,
    OPERATOR,
    WRITES,
    Policy,
    Rule,
    note,
    objects,
    of_templates,
)
from appliance.stages.scheduler.queues.bounds import LARGEST_DATA, LARGEST_OBJECT, POD_CPU, RATIO
from appliance.stages.scheduler.queues.network import RESOURCE
from appliance.stages.scheduler.site import SchedulerOptions

RESOURCES = ("cpu", "memory", "ephemeral-storage")
LEAST = (
    f"{note('namespaceObject', POD_CPU)}"
    f" ? quantity(namespaceObject.metadata.annotations['{POD_CPU}']).asApproximateFloat() : 0.0"
)
"""CEL: the cores that a pod of this project requests at least."""
NOISE = 0.0005
"""Half a thousandth of a core, for sums of floating point numbers."""
DEPTH = 20
"""Levels of an object that are measured. A RayService has its deepest value on the 13th; deeper objects are refused."""


def sizes(small: str) -> Policy:
    """Requests must match use: hosts are filled by requests, and pods are evicted for use above them.

    ``small``: what becomes of pods that request less than their part of a host.
    """
    boxes = "(t.spec.containers + (has(t.spec.initContainers) ? t.spec.initContainers : []))"
    every = f"variables.templates.all(t, {boxes}.all(c, {{0}}))"
    rules = []
    for name, words in (("memory", "memory"), ("ephemeral-storage", "local disk")):
        limit, request = (f"c.resources.{kind}['{name}']" for kind in ("limits", "requests"))
        limited, requested = (
            f"(has(c.resources) && has(c.resources.{kind}) && '{name}' in c.resources.{kind})"
            for kind in ("limits", "requests")
        )
        ratio = RATIO[name]
        some = f"quantity(string({limit})).isGreaterThan(quantity('0'))"
        much = f"{_float(limit)} <= {ratio}.0 * {_float(request)}"
        rules += [
            Rule(
                every.format(f"!{requested} || {limited}"),
                f"the container requests {words} and has no limit for it: set resources.limits of {name} to at most "
                f"{ratio} times the request",
            ),
            Rule(
                every.format(f"!{limited} || {some}"),
                f"a limit of 0 means no limit: set the {words} that the container needs",
            ),
            Rule(
                every.format(f"!{requested} || !{limited} || {much}"),
                f"the limit of {words} is more than {ratio} times its request, and use above the request harms other work: "
                f"request at least 1/{ratio} of the limit under resources.requests of {name}",
            ),
        ]
    pod = "request.resource.group != '' || request.resource.resource != 'pods' || request.operation != 'CREATE'"
    bounded = "has(c.resources) && has(c.resources.limits) && 'memory' in c.resources.limits"
    rules += [
        Rule(
            f"{pod} || {every.format(bounded)}",
            "the container has no memory limit: set resources.limits of memory",
        ),
        Rule(
            "variables.templates.all(t, !has(t.spec.resources))",
            "the queues do not count resources of the pod as a whole: set resources of its containers",
        ),
    ]
    if small != "refuse":
        return of_templates("appliance-sizes", *rules, more=True)
    made = of_templates("appliance-sizes", *rules, _of_a_pod(), more=True)
    return replace(made, variables={**made.variables, "least": LEAST})


def _of_a_pod() -> Rule:
    """A host has few places for pods, and queues have no quota of them: each pod takes its part of the cores.

    KAI does not add the requests of sidecars (0.12). A container without a request gets the default, which suffices.
    """
    given = "c.resources.{}['cpu']"
    asked, capped = (given.format(kind) for kind in ("requests", "limits"))
    own = (
        f"(has(c.resources) && has(c.resources.requests) && 'cpu' in c.resources.requests ? {_float(asked)}"
        f" : has(c.resources) && has(c.resources.limits) && 'cpu' in c.resources.limits ? {_float(capped)}"
        " : variables.least)"
    )
    # A debug container changes no request, and the pod may be older than the rule.
    debugged = "(has(request.subResource) && request.subResource == 'ephemeralcontainers')"
    words = "the pod takes one of the places of its host and requests too little CPU for it: "
    remedy = "of cpu in total under resources.requests of its containers"
    return Rule(
        f"{debugged} || variables.templates.all(t, t.spec.containers.map(c, {own}).sum()"
        f" >= variables.least - {NOISE})",
        f"{words}request at least the annotation {POD_CPU} of the namespace {remedy}",
        f"'{words}request at least ' + namespaceObject.metadata.annotations['{POD_CPU}'] + ' {remedy}'",
    )


def devices(options: SchedulerOptions) -> Policy:
    """Devices without a grant: adapters of the fabric, accelerators of other vendors, all other device plugins.

    Names of nvidia.com are judged with the GPUs.
    """
    standard = (
        "namespaceObject.metadata.labels['pod-security.kubernetes.io/enforce'] == 'privileged'"
    )
    fabric = f" || (r == '{RESOURCE}' && {standard})" if options.rdma == "shared" else ""
    names = ", ".join(f"'{name}'" for name in RESOURCES)
    known = f".all(r, r in [{names}] || r.startsWith('nvidia.com/'){fabric})"
    of = " && ".join(
        f"(!has(c.resources.{kind}) || c.resources.{kind}{known})"
        for kind in ("limits", "requests")
    )
    return of_templates(
        "appliance-devices",
        Rule(
            f"variables.templates.all(t, {EVERY}.all(c, !has(c.resources) || ({of})))",
            f"the project has no access to this device: request only {', '.join(RESOURCES)} and GPUs"
            + (f"; {RESOURCE} is for projects with pod_security: privileged" if fabric else ""),
        ),
        more=True,
    )


def weight() -> Policy:
    """That what one project writes cannot fill etcd: with ResourceQuota, which counts objects and not their bytes."""
    data = "request.resource.group == '' && request.resource.resource in ['configmaps', 'secrets']"
    rule = Rule(
        f"{_weight('object', DEPTH)} <= ({data} ? {LARGEST_DATA} : {LARGEST_OBJECT})",
        f"the object is too large for the cluster's database: a ConfigMap or Secret can have {LARGEST_DATA // 1024} KiB, "
        f"any other object {LARGEST_OBJECT // 1024} KiB; put the data on a volume or into the image",
    )
    conditions = {"by-members": MEMBERS, "not-by-operators": f"!{OPERATOR}"}
    later = objects("", ["pods/ephemeralcontainers"], ["UPDATE"])
    return Policy("appliance-weight", (rule,), (*ANY, later), conditions)


def _weight(value: str, depth: int) -> str:
    """CEL for about how many bytes a value takes. CEL knows no recursion, so each level is written out."""
    if depth == 0:
        return str(10 * LARGEST_DATA)
    below = f"n{depth}"
    text = f"(type({value}) == string ? size(bytes({value})) : type({value}) == map ? {value}.map(k{depth}, size(k{depth})).sum() : 0)"
    inner = f"(type({value}) == map ? {value}.map(k{depth}, {value}[k{depth}]) : type({value}) == list ? {value} : [])"
    return f"(8 + {text} + {inner}.map({below}, {_weight(below, depth - 1)}).sum())"


def _float(quantity: str) -> str:
    return f"quantity(string({quantity})).asApproximateFloat()"


def budgets() -> Policy:
    """That a host can be drained: its work is evicted, and a budget that allows none holds the drain for good."""
    rule = Rule(
        "has(object.spec.maxUnavailable) && !string(object.spec.maxUnavailable).matches('^0+%?$')"
        " && has(object.spec.unhealthyPodEvictionPolicy)"
        " && object.spec.unhealthyPodEvictionPolicy == 'AlwaysAllow'",
        "the budget could block drains of a host forever: set maxUnavailable to 1 or more instead of minAvailable, "
        "and unhealthyPodEvictionPolicy: AlwaysAllow",
    )
    on = (objects("policy", ["poddisruptionbudgets"], WRITES),)
    conditions = {"by-members": MEMBERS, "not-by-operators": f"!{OPERATOR}"}
    return Policy("appliance-budgets", (rule,), on, conditions)
