"""Finds the owner of a pod, up to what a person created, and how to end each kind so that it does not come back at once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from appliance.limits.api import METADATA
from appliance.limits.pods import QUEUE, Owner, controller, grace_of
from appliance.limits.trouble import Unknown, Unowned

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from appliance.limits.api import Api, Resource
    from appliance.limits.pods import Pod

PLURALS = {
    ("apps/v1", "Deployment"): "deployments",
    ("apps/v1", "ReplicaSet"): "replicasets",
    ("apps/v1", "StatefulSet"): "statefulsets",
    ("batch/v1", "Job"): "jobs",
    ("v1", "Pod"): "pods",
}
"""Kinds that can be ended, by version. All others are left alone and reported."""
TOPMOST = frozenset({("batch/v1", "CronJob"), ("batch/v1beta1", "CronJob")})
"""Owners that create new work on a schedule: their work is ended, they stay."""
STEPS = 5
FEW = 20
"""Number of objects of a kind read one by one; beyond it, all objects of that kind are listed: 10,000 take 20 pages."""
NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
"""The API accepts any text as an owner's name, such as x/log, and a member may write it on a pod."""


class Known(NamedTuple):
    """An owner as read: its owner, and its queue label."""

    owner: Owner | None
    queue: str


def by_pod(one: Pod) -> bool:
    """Whether another pod owns it, as a driver of Spark does. Its queue is not judged with a template, and may differ."""
    return one.owner is not None and one.owner.kind == "Pod"


class Owners:
    """Reads each owner once, because an object's owner never changes.

    The key has all of its identity: a member may combine one resource's UID with another's name.
    """

    def __init__(self) -> None:
        self._known: dict[Owner, Known] = {}
        self._gone: set[Owner] = set()

    def root(self, api: Api, first: Owner, queue: str) -> tuple[Owner, str]:
        """Return the topmost owner that this program can end, and the queue of the work. Raises Unknown, Unowned.

        KAI reads the label of the topmost owner before that of the pod (v0.12), so a pod cannot name a queue without limits.
        """
        here = first
        for _ in range(STEPS):
            if _kind(here) not in PLURALS:
                raise Unknown(
                    f"it belongs to a {here.kind} ({here.api_version}), which this program does not support"
                )
            known = self._read(api, here)
            queue = known.queue or queue
            if known.owner is None or _kind(known.owner) in TOPMOST:
                return here, queue
            here = known.owner
        raise Unowned(f"it has more than {STEPS} levels of owners")

    def learn(self, api: Api, owners: Iterable[Owner]) -> None:
        """Read these and their owners in lists, if there are many. Raises Trouble."""
        self._gone.clear()
        for _ in range(STEPS):
            new: dict[tuple[str, str], set[Owner]] = {}
            for one in owners:
                if one not in self._known and _kind(one) in PLURALS:
                    new.setdefault(_kind(one), set()).add(one)
            owners = [
                known.owner
                for some in new.values()
                if len(some) > FEW
                for known in self._listed(api, some)
                if known.owner is not None
            ]

    def above(self, api: Api, first: Owner) -> tuple[Owner, ...]:
        """Return an owner and its owner. Raises Unknown."""
        known = self._read(api, first) if _kind(first) in PLURALS else None
        return (first, known.owner) if known and known.owner else (first,)

    def keep(self, uids: set[str]) -> None:
        """Forget all others."""
        self._known = {one: known for one, known in self._known.items() if one.uid in uids}

    def _read(self, api: Api, owner: Owner) -> Known:
        if owner not in self._known:
            if not NAME.fullmatch(owner.name):
                raise Unowned(f"its {owner.kind} has an invalid name")
            found = None if owner in self._gone else api.get(path(owner))
            if found is None or found["metadata"].get("uid") != owner.uid:
                raise Unowned(f"its {owner.kind} {owner.name} no longer exists")
            self._known[owner] = _known(found["metadata"], owner.namespace)
        return self._known[owner]

    def _listed(self, api: Api, wanted: set[Owner]) -> Iterator[Known]:
        """Return those of one kind that a complete list contains."""
        one = next(iter(wanted))
        for found in api.items(_base(one), accept=METADATA):
            meta = found["metadata"]
            owner = one._replace(namespace=meta["namespace"], name=meta["name"], uid=meta["uid"])
            if owner in wanted:
                self._known[owner] = _known(meta, owner.namespace)
                yield self._known[owner]
        self._gone |= wanted - self._known.keys()


def path(owner: Owner) -> str:
    """Return its path in the API."""
    base, _, plural = _base(owner).rpartition("/")
    return f"{base}/namespaces/{owner.namespace}/{plural}/{owner.name}"


def end(api: Api, root: Owner, pods: Sequence[Pod] = (), *, again: bool = False) -> str:
    """End it, and return how; "" if it is gone or was replaced.

    Raises Trouble.
    ``pods``: its pods as seen; ``again``: it was ended before. A StatefulSet that is scaled down deletes its
    pods one by one, and one that is not ready blocks the others. A controller does not shorten the grace
    period of a pod that a member deleted with a longer one.
    """
    how = _end(api, root)
    if how:
        for pod in pods:
            if pod.me != root and (pod.held or (again and root.kind == "StatefulSet")):
                api.delete(path(pod.me), pod.me.uid, pod.grace)
    return how


def _end(api: Api, root: Owner) -> str:
    found: Resource | None = api.get(path(root))
    if found is None or found["metadata"].get("uid") != root.uid:
        return ""
    if root.kind == "Pod":
        api.delete(path(root), root.uid, grace_of(found))
        return "deleted: a pod without a controller cannot be stopped otherwise"
    if root.kind == "Job":
        # The Job's controller ends its pods, within their grace periods, and creates no new ones: it has failed, DeadlineExceeded.
        api.patch(path(root), {"metadata": {"uid": root.uid}, "spec": {"activeDeadlineSeconds": 1}})
        return "its deadline has passed: the Job is kept as failed"
    before = found.get("spec", {}).get("replicas", 1)
    api.patch(f"{path(root)}/scale", {"spec": {"replicas": 0}})
    return f"scaled from {before} to 0; kubectl scale --replicas={before} starts it again"


def _base(owner: Owner) -> str:
    """Return the API path of its kind."""
    base = "/apis" if "/" in owner.api_version else "/api"
    return f"{base}/{owner.api_version}/{PLURALS[_kind(owner)]}"


def _kind(owner: Owner) -> tuple[str, str]:
    return owner.api_version, owner.kind


def _known(meta: Resource, namespace: str) -> Known:
    label = str((meta.get("labels") or {}).get(QUEUE, ""))
    return Known(controller(meta, namespace), label)
