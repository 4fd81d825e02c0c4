"""Policies of pods that mount a shared tree: each runs as the person who wrote it, and stays that person's.

An export believes the number that a host tells, so a pod's number decides whose files it reads. Controllers make most pods. Their
templates are judged when a person writes them; a controller then passes on a number of the project that was judged.
"""

from dataclasses import replace

from appliance.stages.scheduler.queues.admission import (
    EVERY,
    MEMBERS,
    OPERATOR,
    Policy,
    Rule,
    objects,
    of_templates,
)
from appliance.stages.scheduler.queues.trees import GROUPS, NUMBER, PREFIX, RESERVED
from appliance.stages.scheduler.site import SchedulerOptions

CONTROLLERS = (
    "system:kube-controller-manager",
    *(
        f"system:serviceaccount:kube-system:{name}"
        for name in (
            *("cronjob-controller", "daemon-set-controller", "deployment-controller"),
            *("job-controller", "replicaset-controller", "replication-controller"),
            "statefulset-controller",
        )
    ),
)
"""What they make comes from an object whose template was judged, and from nothing else that a member writes."""
OPERATORS = ("system:serviceaccount:jobset-system:", "system:serviceaccount:lws-system:")
"""The same of add-ons. Not Ray's, whose submitter, nor Trainer's, whose overrides are no judged templates; nor MPI's: whoever reads
the secret of a job's keys, as any member may, is let in by its workers."""

NOTES = "namespaceObject.metadata.annotations"
STRICT = "supplementalGroupsPolicy: Strict"


def mounts(of: str) -> str:
    """CEL: it mounts a claim of the site's."""
    return (
        f"(has({of}.spec.volumes) && {of}.spec.volumes.exists(v, has(v.persistentVolumeClaim)"
        f" && has(v.persistentVolumeClaim.claimName) && v.persistentVolumeClaim.claimName.startsWith('{PREFIX}')))"
    )


def _number(of: str) -> str:
    """CEL for the annotation of whose number a pod has; '' where it has none."""
    context = f"{of}.spec.securityContext"
    has = f"has({context}) && has({context}.runAsUser)"
    return f"({has} ? '{NUMBER}' + string(int({context}.runAsUser)) : '')"


PEOPLE = {
    "people": f"has({NOTES}) ? {NOTES}.filter(k, k.startsWith('{NUMBER}')) : []",
    "mine": f"variables.people.filter(k, {NOTES}[k] == request.userInfo.username)",
}
"""Everybody of the project with a number, and who asks."""
PASSED_ON = " || ".join(
    (
        f"request.userInfo.username in [{', '.join(repr(name) for name in CONTROLLERS)}]",
        *(f"request.userInfo.username.startsWith({name!r})" for name in OPERATORS),
        OPERATOR,
    )
)


def trees(options: SchedulerOptions) -> Policy:
    """Of pods and templates, whoever writes them."""
    strict = options.tree_groups == "strict"
    made = of_templates("appliance-trees", *_rules(strict), more=True)
    variables = {
        **made.variables,
        **PEOPLE,
        "trees": f"variables.templates.filter(t, {mounts('t')})",
        "whose": f"variables.trees.size() == 0 ? [] : ({PASSED_ON}) ? variables.people : variables.mine",
        "number": f"variables.mine.size() > 0 ? variables.mine[0].replace('{NUMBER}', '') : 'YOURS'",
    }
    return replace(made, variables=variables)


def _rules(strict: bool) -> tuple[Rule, ...]:
    every = "variables.trees.all(t, {0})"
    boxes = every.format(f"{EVERY}.all(c, has(c.securityContext) && {{0}})")
    context, box = "t.spec.securityContext", "c.securityContext"
    number = f"'{NUMBER}' + string(int({context}.runAsUser))"
    gids = number.replace(NUMBER, GROUPS)
    more = f", {STRICT}" if strict else ""
    wanted = f"runAsUser: ' + variables.number + ', runAsGroup: ' + variables.number + '{more}"
    own = (
        f"(!has({context}.supplementalGroups) || {context}.supplementalGroups.all(g, {gids} in {NOTES}"
        f" && string(int(g)) in {NOTES}[{gids}].split(',')))"
    )
    kept = (
        f"has({context}.supplementalGroupsPolicy) && {context}.supplementalGroupsPolicy == 'Strict'"
    )
    groups = [f"!has({context}.fsGroup)", own, *([kept] if strict else [])]
    same = " && ".join(
        f"(!has({box}.{key}) || {box}.{key} == {context}.{key})"
        for key in ("runAsUser", "runAsGroup")
    )
    return (
        Rule(
            "variables.trees.size() == 0 || variables.whose.size() > 0",
            f"claims that begin with {PREFIX} are shared trees of the site, and the site gives who writes this no number in this project: "
            "accounts of programs get none; of people, the administrator lists them in base.users (cluster_user) and in a project with trees",
        ),
        Rule(
            every.format(
                f"{_number('t')} in variables.whose && has({context}.runAsGroup)"
                f" && {context}.runAsGroup == {context}.runAsUser"
            ),
            "a pod that mounts a shared tree (a claim that begins with appliance-tree-) runs under the number of the person who writes it: "
            "write runAsUser and runAsGroup of your number under spec.securityContext of the pod or template",
            "'a pod that mounts a shared tree (a claim that begins with appliance-tree-) runs under the number of the person who writes it: "
            f"under spec.securityContext of the pod or template write {wanted}'",
        ),
        Rule(
            every.format(f"has({context}) && {' && '.join(groups)}"),
            "a process that mounts a shared tree has its person's groups alone: under spec.securityContext "
            + (f"write {STRICT}, " if strict else "")
            + "take fsGroup out, and name under supplementalGroups only groups that base.groups gives you",
        ),
        Rule(
            boxes.format(same),
            "a container of a pod that mounts a shared tree runs as another than the pod: take runAsUser and runAsGroup out of "
            "securityContext of each container",
        ),
        Rule(
            # A program with the set-user-ID bit of an image of one's own would be whoever owns its file.
            boxes.format(
                f"has({box}.allowPrivilegeEscalation) && {box}.allowPrivilegeEscalation == false"
            ),
            "a container of a pod that mounts a shared tree could become another person by a set-user-ID program: write "
            "securityContext: {allowPrivilegeEscalation: false} in each container and init container",
        ),
        Rule(
            every.format("!has(t.spec.hostUsers) || t.spec.hostUsers"),
            "with hostUsers: false the storage sees other numbers than the pod has: take hostUsers out where a shared tree is mounted",
        ),
        Rule(
            "request.resource.resource != 'jobsets' || !has(object.spec.volumeClaimPolicies)"
            " || object.spec.volumeClaimPolicies.all(p, !has(p.templates) || p.templates.all(c,"
            f" !has(c.metadata) || !has(c.metadata.name) || !{reserved('c.metadata.name')}))",
            f"names of claims that begin with {RESERVED} are the site's: choose another name",
        ),
    )


def reserved(name: str) -> str:
    """CEL: a controller that puts - and more behind this name comes to one of the site's."""
    return f"({name} + '-').startsWith('{RESERVED}')"


def changed() -> Policy:
    """A member may change the image of another's pod that runs, and would run as that person."""
    rule = Rule(
        f"!{mounts('oldObject')} || object.spec == oldObject.spec || {_number('oldObject')} in variables.mine",
        "the pod mounts a shared tree and runs as another person: only that person changes its image and what else may be changed of it",
    )
    on = (objects("", ["pods", "pods/ephemeralcontainers", "pods/resize"], ["UPDATE"]),)
    conditions = {"by-members": MEMBERS, "not-by-operators": f"!{OPERATOR}"}
    return Policy("appliance-tree-pods", (rule,), on, conditions, dict(PEOPLE))


def entered() -> Policy:
    """Who runs a command in a pod is its person. The request does not hold the pod, so each of the namespace is a parameter."""
    rule = Rule(
        f"params.metadata.name != request.name || !{mounts('params')} || {_number('params')} in variables.mine",
        "the pod mounts a shared tree and runs as another person: only that person opens a shell in it; "
        "kubectl logs and port-forward are open to all members",
    )
    on = (objects("", ["pods/exec", "pods/attach"], ["CONNECT"]),)
    conditions = {"by-members": MEMBERS, "not-by-operators": f"!{OPERATOR}"}
    pods = {"apiVersion": "v1", "kind": "Pod"}
    return Policy("appliance-tree-exec", (rule,), on, conditions, dict(PEOPLE), params=pods)
