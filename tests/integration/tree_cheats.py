"""Ways to another person's files by a shared tree, and to code that runs as another person; and honest work beside them.

Written as what is sent to the API server, by whom, and who has to refuse it.
"""

import copy
from dataclasses import dataclass, field
from typing import Any

from tests.integration.cheat_parts import ALPHA, MAKERS, MERGE, RBAC, Body, named, place, pod, pods

ALICE, BOB, DAVE = "alice", "bob", "dave"
ROBOT = f"system:serviceaccount:{ALPHA}:robot"
"""An account of the project, whose token its pods may hold."""
JOBS = "system:serviceaccount:kube-system:job-controller"
RAY = "system:serviceaccount:kuberay-system:kuberay-operator"
JOBSETS = "system:serviceaccount:jobset-system:jobset-controller-manager"
ADMIN = ""
SENDERS = (ALICE, BOB, DAVE, ROBOT, JOBS, RAY, JOBSETS)

TREES, CHANGED, ENTERED = "appliance-trees", "appliance-tree-pods", "appliance-tree-exec"
HIS = "bobs"
"""Bob's pod with a tree, which is there before the cheats."""
PLAIN = "plain"
"""Bob's pod without one."""


@dataclass(frozen=True)
class Try:
    """``judge``: who refuses; "" for work that must pass."""

    name: str
    judge: str
    by: str
    path: str
    body: Body = field(default_factory=dict)
    method: str = "POST"


def tree(name: str = "home") -> Body:
    """A volume of a pod."""
    return {"name": "t", "persistentVolumeClaim": {"claimName": f"appliance-tree-{name}"}}


NO_MORE = {"allowPrivilegeEscalation": False}


def held(uid: int | None = 2001, *, box: Body | None = None, **more: Any) -> Body:
    """A template that mounts a tree as an honest person of that number writes it; None in ``more`` takes a field out."""
    context: Body = {
        "runAsUser": uid,
        "runAsGroup": uid,
        "supplementalGroupsPolicy": "Strict",
        **more.pop("context", {}),
    }
    kept = {k: v for k, v in context.items() if v is not None}
    container: Body = {
        "securityContext": {**NO_MORE, **(box or {})},
        "volumeMounts": [{"name": "t", "mountPath": "/home"}],
    }
    container["securityContext"] = {
        k: v for k, v in container["securityContext"].items() if v is not None
    }
    whole: Body = {"volumes": [tree()], "securityContext": kept, "container": container, **more}
    return pod(gpus=0, **whole)


def _pod(name: str, template: Body, judge: str = TREES, by: str = ALICE) -> Try:
    return Try(name, judge, by, pods(ALPHA), named(template, ALPHA))


def _in(kind: str, name: str, template: Body, judge: str = TREES, by: str = ALICE) -> Try:
    return Try(f"{name}, by a {kind}", judge, by, place(kind), MAKERS[kind][2](template))


def _below(name: str, **mount: str) -> Body:
    made = held(volumes=[tree(name)])
    (box,) = made["spec"]["containers"]
    box["volumeMounts"] = [{"name": "t", "mountPath": "/mnt", **mount}]
    return made


LATE = f"{pods(ALPHA)}/{HIS}/ephemeralcontainers"


def _late(context: Body) -> Body:
    box = {"name": "e", "image": "mine", "securityContext": context}
    return {"spec": {"ephemeralContainers": [box]}}


def _more(box: Body, **spec: Any) -> Body:
    """With a second container of this kind."""
    made = held(**spec)
    made["spec"]["containers"].append({"name": "b", "image": "none", **box})
    return made


def _init(box: Body) -> Body:
    made = held()
    made["spec"]["initContainers"] = [{"name": "i", "image": "none", **box}]
    return made


def _claims(name: str) -> Body:
    """A StatefulSet whose pods mount what is called as the tree's claim."""
    made = MAKERS["StatefulSet"][2](pod(gpus=0))
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    spec["storageClassName"] = "fast"
    made["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": name}, "spec": spec}]
    made["metadata"]["name"] = "home"
    return made


def _jobset(template: Body, **spec: Any) -> Body:
    made = copy.deepcopy(MAKERS["JobSet"][2](template))
    made["spec"].update(spec)
    return made


def _exec(name: str, by: str, which: str = HIS, sub: str = "exec", judge: str = ENTERED) -> Try:
    return Try(name, judge, by, f"{pods(ALPHA)}/{which}/{sub}?command=id&stdout=true", method="GET")


CHANGES: dict[str, Body] = {
    "the image": {"spec": {"containers": [{"name": "work", "image": "mine"}]}},
    "its end": {"spec": {"activeDeadlineSeconds": 5}},
}
STRATEGIC = "application/strategic-merge-patch+json"
DROPPED = {"capabilities": {"drop": ["ALL"]}}

CHEATS: tuple[Try, ...] = (
    # The number.
    _pod("as another person", held(2002)),
    _pod("as root", held(0)),
    _pod("as nobody the site knows", held(4711)),
    _pod("as whom the image says", held(None)),
    _pod("without any context", held(securityContext=None)),
    _pod("with another person's group", held(context={"runAsGroup": 2002})),
    _pod("with the group of root", held(context={"runAsGroup": 0})),
    _pod("with the group that the image says", held(context={"runAsGroup": None})),
    _pod("with a group the person is not in", held(context={"supplementalGroups": [3002]})),
    _pod("with another person's own group", held(context={"supplementalGroups": [3001, 2002]})),
    _pod("with a group for volumes", held(context={"fsGroup": 3002})),
    _pod("with the image's groups", held(context={"supplementalGroupsPolicy": "Merge"})),
    _pod("with groups as they come", held(context={"supplementalGroupsPolicy": None})),
    # One container of several.
    _pod("a container as another person", held(box={"runAsUser": 2002})),
    _pod("a container with another group", held(box={"runAsGroup": 2002})),
    _pod("a container as root", held(box={"runAsUser": 0})),
    _pod(
        "a second container as another", _more({"securityContext": {**NO_MORE, "runAsUser": 2002}})
    ),
    _pod(
        "an init container as another", _init({"securityContext": {**NO_MORE, "runAsUser": 2002}})
    ),
    _pod(
        "a sidecar as another",
        _init({"restartPolicy": "Always", "securityContext": {**NO_MORE, "runAsUser": 2002}}),
    ),
    _pod("an init container that may become another", _init({})),
    # Another person by a program of the image.
    _pod("programs with the set-user-ID bit", held(box={"allowPrivilegeEscalation": None})),
    _pod(
        "programs with the set-user-ID bit, asked for", held(box={"allowPrivilegeEscalation": True})
    ),
    _pod("a second container that may become another", _more({})),
    _pod("numbers of its own", held(hostUsers=False)),
    # A folder that kubelet opens as root, on a server that may let root in.
    *(
        _pod(f"a folder of another by {key}", _below("old", **{key: "bob/private"}))
        for key in ("subPath", "subPathExpr")
    ),
    _in("Job", "a folder of another by subPath", _below("old", subPath="bob/private")),
    # Who has no number.
    _pod("by a member without a number", held(), by=DAVE),
    _pod("by a member without a number, with his guess", held(1000), by=DAVE),
    _pod("by the project's account", held(), by=ROBOT),
    _pod("by the project's account, as Bob", held(2002), by=ROBOT),
    _pod("by an operator whose templates nobody judged", held(), by=RAY),
    _pod("by a controller, as nobody the site knows", held(4711), by=JOBS),
    _pod("by a controller, as root", held(0), by=JOBS),
    _pod("by an administrator, as nobody the site knows", held(4711), by=ADMIN),
    _pod("a tree the project has not", pod(gpus=0, volumes=[tree("none")])),
    # Through what makes pods.
    *(
        _in(kind, "as another person", held(2002))
        for kind in ("Job", "CronJob", "Deployment", "StatefulSet", "ReplicaSet")
    ),
    *(
        _in(kind, "as another person, by the project's account", held(2002), by=ROBOT)
        for kind in ("Job", "Deployment")
    ),
    *(
        _in(kind, "a program that becomes another", held(box={"allowPrivilegeEscalation": None}))
        for kind in ("Job", "CronJob")
    ),
    _in("Job", "as Bob, by an operator whose templates nobody judged", held(2002), by=RAY),
    *(
        _in(kind, "as root, by an administrator", held(0), by=ADMIN)
        for kind in (
            "JobSet",
            "MPIJob",
            "RayJob",
            "LeaderWorkerSet",
            "TrainingRuntime",
            "DaemonSet",
        )
    ),
    Try(
        "claims of a StatefulSet that are called as a tree",
        "appliance-claim-templates",
        ALICE,
        place("StatefulSet"),
        _claims("appliance"),
    ),
    Try(
        "claims of a StatefulSet that begin as a tree",
        "appliance-claim-templates",
        ALICE,
        place("StatefulSet"),
        _claims("appliance-tree-home"),
    ),
    Try(
        "claims of a JobSet that are called as a tree",
        TREES,
        ADMIN,
        place("JobSet"),
        _jobset(pod(), volumeClaimPolicies=[{"templates": [{"metadata": {"name": "appliance"}}]}]),
    ),
    # The claim and the volume.
    *(
        Try(
            name,
            "appliance-own",
            ALICE,
            f"/api/v1/namespaces/{ALPHA}/persistentvolumeclaims{at}",
            body,
            method,
        )
        for name, at, body, method in (
            (
                "a claim called as a tree",
                "",
                {
                    "metadata": {"name": "appliance-tree-mine"},
                    "spec": {
                        "accessModes": ["ReadWriteMany"],
                        "storageClassName": "fast",
                        "resources": {"requests": {"storage": "1Gi"}},
                    },
                },
                "POST",
            ),
            ("a tree's claim deleted", "/appliance-tree-home", {}, "DELETE"),
            (
                "a tree's claim changed",
                "/appliance-tree-home",
                {"metadata": {"labels": {"a": "b"}}},
                "PATCH",
            ),
        )
    ),
    Try(
        "another claim of a tree's volume",
        "appliance-claims",
        ALICE,
        f"/api/v1/namespaces/{ALPHA}/persistentvolumeclaims",
        {
            "metadata": {"name": "try"},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "",
                "volumeName": f"{ALPHA}.appliance-tree-home",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    ),
    Try(
        "a volume of one's own",
        RBAC,
        ALICE,
        "/api/v1/persistentvolumes",
        {
            "metadata": {"name": "try"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteMany"],
                "nfs": {"server": "10.0.0.10", "path": "/"},
            },
        },
    ),
    Try(
        "a number taken",
        RBAC,
        ALICE,
        f"/api/v1/namespaces/{ALPHA}",
        {"metadata": {"annotations": {"uid.appliance/2002": ALICE}}},
        "PATCH",
    ),
    # Later.
    *(
        Try(
            f"{what} of another's pod changed, by {'a member' if by == ALICE else 'the account'}",
            CHANGED,
            by,
            f"{pods(ALPHA)}/{HIS}",
            body,
            "PATCH",
        )
        for what, body in CHANGES.items()
        for by in (ALICE, ROBOT)
    ),
    Try(
        "a container put into another's pod",
        TREES,
        ALICE,
        LATE,
        _late(NO_MORE),
        "PATCH",
    ),
    *(
        Try(f"a container put into one's own pod {name}", TREES, BOB, LATE, _late(more), "PATCH")
        for name, more in (
            ("as another", {**NO_MORE, "runAsUser": 2001}),
            ("that may become another", {}),
        )
    ),
    Try(
        "another's template changed",
        TREES,
        ALICE,
        f"{place('Deployment')}/{HIS}",
        {"spec": {"template": {"spec": {"containers": [{"name": "work", "image": "mine"}]}}}},
        "PATCH",
    ),
    Try(
        "another's CronJob changed",
        TREES,
        ALICE,
        f"{place('CronJob')}/{HIS}",
        {
            "spec": {
                "jobTemplate": {
                    "spec": {
                        "template": {"spec": {"containers": [{"name": "work", "image": "mine"}]}}
                    }
                }
            }
        },
        "PATCH",
    ),
    Try(
        "a template with a tree put into a Deployment without one",
        TREES,
        ALICE,
        f"{place('Deployment')}/{PLAIN}",
        {"spec": {"template": {"spec": {"volumes": [tree()]}}}},
        "PATCH",
    ),
    _exec("a shell in another's pod", ALICE),
    _exec("a shell in another's pod, by one without a number", DAVE),
    _exec("a shell in another's pod, by the project's account", ROBOT),
)


def _honest() -> tuple[Try, ...]:
    kinds = ("Job", "CronJob", "Deployment", "StatefulSet", "ReplicaSet")
    by_admin = ("JobSet", "LeaderWorkerSet")
    return (
        _pod("a tree as oneself", held(), ""),
        _pod("a tree as oneself, Bob", held(2002), "", BOB),
        _pod("with a group of one's own", held(context={"supplementalGroups": [3001]}), ""),
        _pod(
            "a container that says it again",
            held(box={"runAsUser": 2001, "runAsGroup": 2001, **DROPPED}),
            "",
        ),
        _pod("a sidecar", _init({"restartPolicy": "Always", "securityContext": NO_MORE}), ""),
        _pod(
            "a tree to read",
            held(volumes=[tree("data")], container={"securityContext": NO_MORE}),
            "",
        ),
        _pod("a folder of a tree that squashes root", _below("data", subPath="sets"), ""),
        _pod("a tree of another server, whole", _below("old"), ""),
        _pod("no tree, as root", pod(gpus=0, securityContext={"runAsUser": 0}), ""),
        _pod("no tree, by a member without a number", pod(gpus=0), "", DAVE),
        _pod("no tree, by the project's account", pod(gpus=0), "", ROBOT),
        *(_in(kind, "a tree as oneself", held(), "") for kind in kinds),
        *(
            _in(kind, "a tree as Alice, by an administrator", held(), "", ADMIN)
            for kind in by_admin
        ),
        # What controllers pass on.
        _pod("of Alice's Job", held(), "", JOBS),
        _pod("of Bob's Job", held(2002), "", JOBS),
        _in("Job", "of Bob's JobSet", held(2002), "", JOBSETS),
        Try(
            "one's own image changed",
            "",
            BOB,
            f"{pods(ALPHA)}/{HIS}",
            CHANGES["the image"],
            "PATCH",
        ),
        Try(
            "another's pod labelled",
            "",
            ALICE,
            f"{pods(ALPHA)}/{HIS}",
            {"metadata": {"labels": {"a": "b"}}},
            "PATCH",
        ),
        Try(
            "another's pod without a tree changed",
            "",
            ALICE,
            f"{pods(ALPHA)}/{PLAIN}",
            CHANGES["the image"],
            "PATCH",
        ),
        Try(
            "another's Deployment scaled",
            "",
            ALICE,
            f"{place('Deployment')}/{HIS}/scale",
            {"spec": {"replicas": 2}},
            "PATCH",
        ),
        Try(
            "another's Deployment paused",
            "",
            ALICE,
            f"{place('Deployment')}/{HIS}",
            {"spec": {"paused": True}},
            "PATCH",
        ),
        Try(
            "a container put into one's own pod",
            "",
            BOB,
            LATE,
            _late({**NO_MORE, **DROPPED}),
            "PATCH",
        ),
        _exec("a shell in one's own pod", BOB, judge=""),
        _exec("a shell in a pod without a tree", ALICE, PLAIN, judge=""),
        _exec("a shell of an administrator's", ADMIN, judge=""),
        Try(
            "ports of another's pod",
            "",
            ALICE,
            f"{pods(ALPHA)}/{HIS}/portforward?ports=80",
            method="GET",
        ),
    )


HONEST = _honest()

__all__ = ["CHEATS", "HIS", "HONEST", "MERGE", "PLAIN", "SENDERS", "STRATEGIC", "Try", "held"]
