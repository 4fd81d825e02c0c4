"""A policy of the appliance's own objects in a project's namespace, which members read and do not change."""

from appliance.stages.scheduler.queues.admission import (
    MEMBERS,
    OPERATOR,
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
    """By label and by name: a member who took the name first, or made it immutable, would stop the next apply."""
    marked = " || ".join(
        f"({of} != null && has({of}.metadata) && has({of}.metadata.labels)"
        f" && (('{MANAGED_BY}' in {of}.metadata.labels && {of}.metadata.labels['{MANAGED_BY}'] == '{OURS}')"
        f" || '{SITE}' in {of}.metadata.labels))"
        for of in ("object", "oldObject")
    )
    one = "(object != null ? object : oldObject)"
    named = (
        f"({one} != null && has({one}.metadata) && has({one}.metadata.name)"
        f" && ({one}.metadata.name == '{OURS}' || {one}.metadata.name.startsWith('{PREFIX}')))"
    )
    rules = (
        Rule(
            f"!({marked})",
            f"objects with the labels {MANAGED_BY}: {OURS} and {SITE} are the site's, which appliance queue apply writes: "
            "leave them as they are, and take these labels out of what you make",
        ),
        Rule(
            f"!{named}",
            f"names that begin with {PREFIX} are the site's: choose another name",
        ),
        Rule(
            f"request.resource.resource != 'configmaps' || {one}.metadata.name != '{TRUST}'",
            f"the ConfigMap {TRUST} says whom pods take for the cluster, which writes it: leave it as it is",
        ),
    )
    on = (objects("*", ["*"], [*WRITES, "DELETE"]),)
    conditions = {
        "by-members": MEMBERS,
        "not-by-operators": f"!{OPERATOR}",
        "not-judged-elsewhere": f"request.resource.resource != 'secrets' || {one}.metadata.name != '{PULL_SECRET}'",
    }
    return Policy("appliance-own", rules, on, conditions)
