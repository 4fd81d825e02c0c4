"""Policies of pods that mount a shared tree: each runs with the uid of its author, and only the author can change it.

An export trusts the uid that a host sends, so a pod's uid decides whose files it reads. Controllers create most pods. Their
templates are judged when a user writes them; a controller then uses a judged uid of the project.
"""

from dataclasses import replace

from appliance.stages.scheduler.queues.admission import (
    EVERY,
    MEMBERS,
    OPERATOR,
    PROJECT,
    SPACE,
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
"""Their pods are created only from objects whose templates were judged."""
OPERATORS = ("system:serviceaccount:jobset-system:", "system:serviceaccount:lws-system:")
"""The same for add-ons. Without Ray's submitter and Trainer's overrides, which are not judged templates, and without MPI: all readers of
the secret of a job's keys, which includes all members, can log in to its workers."""

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
"""CEL: the uids of the project's members, and the uid of the requester."""
PASSED_ON = " || ".join(
    (
        f"request.userInfo.username in [{', '.join(repr(name) for name in CONTROLLERS)}]",
        *(f"request.userInfo.username.startsWith({name!r})" for name in OPERATORS),
        OPERATOR,
    )
)


def trees(options: SchedulerOptions, open_to_root: tuple[str, ...]) -> Policy:
    """For pods and templates of all authors. ``open_to_root``: trees whose export may allow root, as PROJECT/CLAIM."""
    strict = options.tree_groups == "strict"
    below = (_whole(open_to_root),) if open_to_root else ()
    made = of_templates("appliance-trees", *_rules(strict), *below, more=True)
    variables = {
        **made.variables,
        **PEOPLE,
        "trees": f"variables.templates.filter(t, {mounts('t')})",
        "whose": f"variables.trees.size() == 0 ? [] : ({PASSED_ON}) ? variables.people : variables.mine",
        "number": f"variables.mine.size() > 0 ? variables.mine[0].replace('{NUMBER}', '') : 'YOURS'",
    }
    return replace(made, variables=variables)


def _whole(open_to_root: tuple[str, ...]) -> Rule:
    """Kubelet opens a subPath as root of the host, also one within a folder that is closed to the person."""
    claim = f"{SPACE}['{PROJECT}'] + '/' + v.persistentVolumeClaim.claimName"
    named = (
        "t.spec.volumes.exists(v, v.name == m.name && has(v.persistentVolumeClaim)"
        f" && ({claim}) in {list(open_to_root)})"
    )
    return Rule(
        f"variables.trees.all(t, {EVERY}.all(c, !has(c.volumeMounts) || c.volumeMounts.all(m,"
        " ((!has(m.subPath) || m.subPath == '') && (!has(m.subPathExpr) || m.subPathExpr == ''))"
        f" || !({named}))))",
        "kubelet opens a subPath as root, and the server of this tree may give root access everywhere: mount the tree without subPath",
    )


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
            f"claims that begin with {PREFIX} are shared trees of the site, but you have no uid in this project: ask the "
            "administrator to list you in base.users (cluster_user) and in a project with trees; service accounts have no "
            "uid",
        ),
        Rule(
            every.format(
                f"{_number('t')} in variables.whose && has({context}.runAsGroup)"
                f" && {context}.runAsGroup == {context}.runAsUser"
            ),
            "a pod that mounts a shared tree (a claim that begins with appliance-tree-) must run with the uid of its "
            "author: set runAsUser and runAsGroup to your uid under spec.securityContext of the pod or template",
            "'a pod that mounts a shared tree (a claim that begins with appliance-tree-) must run with the uid of its "
            f"author: under spec.securityContext of the pod or template set {wanted}'",
        ),
        Rule(
            every.format(f"has({context}) && {' && '.join(groups)}"),
            "a process that mounts a shared tree can only have its user's groups: under spec.securityContext "
            + (f"set {STRICT}, " if strict else "")
            + "remove fsGroup, and list under supplementalGroups only your groups of base.groups",
        ),
        Rule(
            boxes.format(same),
            "a container of a pod that mounts a shared tree runs as another user than the pod: remove runAsUser and "
            "runAsGroup from securityContext of each container",
        ),
        Rule(
            # A program with the set-user-ID bit of an image of one's own would be whoever owns its file.
            boxes.format(
                f"has({box}.allowPrivilegeEscalation) && {box}.allowPrivilegeEscalation == false"
            ),
            "a container of a pod that mounts a shared tree could become another user by a setuid program: set "
            "securityContext: {allowPrivilegeEscalation: false} in each container and init container",
        ),
        Rule(
            every.format("!has(t.spec.hostUsers) || t.spec.hostUsers"),
            "with hostUsers: false the storage sees other uids than the pod: remove hostUsers if a shared tree is mounted",
        ),
        Rule(
            "request.resource.resource != 'jobsets' || !has(object.spec.volumeClaimPolicies)"
            " || object.spec.volumeClaimPolicies.all(p, !has(p.templates) || p.templates.all(c,"
            f" !has(c.metadata) || !has(c.metadata.name) || !{reserved('c.metadata.name')}))",
            f"names of claims that begin with {RESERVED} are reserved for the site: choose another name",
        ),
    )


def reserved(name: str) -> str:
    """CEL: a controller that puts - and more behind this name comes to one of the site's."""
    return f"({name} + '-').startsWith('{RESERVED}')"


def changed() -> Policy:
    """A member could change the image of another member's pod, and run with that uid. Additions to a pod are judged as a pod."""
    rule = Rule(
        f"!{mounts('oldObject')} || object.spec == oldObject.spec || {_number('oldObject')} in variables.mine",
        "the pod mounts a shared tree and runs as another user: only that user can change its image and its other mutable fields",
    )
    on = (objects("", ["pods"], ["UPDATE"]),)
    conditions = {"by-members": MEMBERS, "not-by-operators": f"!{OPERATOR}"}
    return Policy("appliance-tree-pods", (rule,), on, conditions, dict(PEOPLE))


def entered() -> Policy:
    """Who runs a command in a pod is its person. The request does not hold the pod, so each of the namespace is a parameter."""
    rule = Rule(
        f"params.metadata.name != request.name || !{mounts('params')} || {_number('params')} in variables.mine",
        "the pod mounts a shared tree and runs as another user: only that user can open a shell in it; kubectl logs and port-forward are open to all members",
    )
    on = (objects("", ["pods/exec", "pods/attach"], ["CONNECT"]),)
    conditions = {"by-members": MEMBERS, "not-by-operators": f"!{OPERATOR}"}
    pods = {"apiVersion": "v1", "kind": "Pod"}
    return Policy("appliance-tree-exec", (rule,), on, conditions, dict(PEOPLE), params=pods)
