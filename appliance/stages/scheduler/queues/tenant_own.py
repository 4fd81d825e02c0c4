"""A policy of the appliance's own objects in a project's namespace, which members read and do not change."""

from appliance.stages.scheduler.queues.admission import (
    MEMBERS,
    OPERATOR,
    TEMPLATED,
    WRITES,
    Policy,
    Rule,
    objects,
)
from appliance.stages.scheduler.queues.manifest import MANAGED_BY, OURS, SITE
from appliance.stages.scheduler.queues.tenant_volumes import PULL_SECRET

PREFIX = "appliance-"
TRUST = "kube-root-ca.crt"
"""In every namespace, written by kube-controller-manager."""


def own() -> Policy:
    """By label and by name: a member who used the name first, or made it immutable, would block the next apply.

    Controllers and operators copy labels of templates to claims, Jobs and services. An apply would treat these as the site's.
    """
    marked = f"({_marked('object')} || {_marked('oldObject')})"
    claims = (
        "(object != null && request.resource.resource == 'statefulsets'"
        " && has(object.spec.volumeClaimTemplates) ? object.spec.volumeClaimTemplates : [])"
    )
    within = (
        f"object != null && (variables.owners.exists(t, {_marked('t')})"
        f" || variables.templates.exists(t, {_marked('t')} || (has(t.spec.volumes)"
        f" && t.spec.volumes.exists(v, has(v.ephemeral) && {_marked('v.ephemeral.volumeClaimTemplate')})))"
        f" || {claims}.exists(t, {_marked('t')}))"
    )
    one = "(object != null ? object : oldObject)"
    named = (
        f"({one} != null && has({one}.metadata) && has({one}.metadata.name)"
        f" && ({one}.metadata.name == '{OURS}' || {one}.metadata.name.startsWith('{PREFIX}')))"
    )
    rules = (
        Rule(
            f"!({marked}) && !({within})",
            f"objects with the labels {MANAGED_BY}: {OURS} and {SITE} are managed by appliance queue apply: do not change "
            "them, and remove these labels from your objects",
        ),
        Rule(
            f"!{MEMBERS} || !{named}",
            f"names that begin with {PREFIX} are reserved for the site: choose another name",
        ),
        Rule(
            f"!{MEMBERS} || request.resource.resource != 'configmaps' || {one}.metadata.name != '{TRUST}'",
            f"the ConfigMap {TRUST} contains the cluster's CA certificate and is managed by Kubernetes: do not change it",
        ),
    )
    on = (objects("*", ["*"], [*WRITES, "DELETE"]),)
    conditions = {
        # Of others what they make: they bind the site's claims, and end what members delete.
        "by-members": f"{MEMBERS} || request.operation == 'CREATE'",
        "not-by-operators": f"!{OPERATOR}",
        "not-judged-elsewhere": f"request.resource.resource != 'secrets' || {one}.metadata.name != '{PULL_SECRET}'",
    }
    return Policy("appliance-own", rules, on, conditions, dict(TEMPLATED))


def _marked(of: str) -> str:
    """CEL: it has a label of the appliance's."""
    held = f"{of}.metadata.labels"
    return (
        f"({of} != null && has({of}.metadata) && has({held})"
        f" && (('{MANAGED_BY}' in {held} && {held}['{MANAGED_BY}'] == '{OURS}') || '{SITE}' in {held}))"
    )
