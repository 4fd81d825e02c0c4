"""What a round needs of the cluster: limits, workloads, and exemptions."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from appliance.limits import owners as owning
from appliance.limits import rules
from appliance.limits.api import METADATA
from appliance.limits.pods import Pod, Work, places, pod
from appliance.limits.trouble import Trouble, Unknown, Unowned

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from appliance.limits.api import Api, Resource
    from appliance.limits.pods import Owner

HOME = "appliance-limits"
"""Namespace of this program; members of projects cannot change its objects."""
SELECTOR = "appliance/limits=true"
EXEMPT = "appliance/limits-exempt"
"""Annotation of a namespace, which members cannot set: names of workloads, or *."""
ALIVE = "status.phase!=Succeeded,status.phase!=Failed"


class Space(NamedTuple):
    """A namespace: its pods, and its exemptions."""

    name: str
    pods: tuple[Pod, ...]
    exempt: frozenset[str]

    def excuses(self, work: Work) -> bool:
        """Return whether an administrator exempted the work."""
        return bool(self.exempt & {"*", work.root.name})


def limits(
    api: Api, doubt: Callable[[str, str], None]
) -> tuple[dict[str, rules.Limits], list[str]]:
    """Return limits by queue, and their namespaces: one ConfigMap of ours each, with the queue's name."""
    found: dict[str, rules.Limits] = {}
    spaces = []
    for one in api.items(f"/api/v1/namespaces/{HOME}/configmaps", {"labelSelector": SELECTOR}):
        name = str(one["metadata"]["name"])
        spaces.append(name)
        for key, said in (one.get("data") or {}).items():
            try:
                queue, given = rules.parse(said)
            except Unknown as error:
                doubt(f"{name}/{key}", str(error))
                continue
            found[queue] = given
    return found, spaces


def spaces(
    api: Api,
    names: Sequence[str],
    doubt: Callable[[str, str], None],
    trouble: Callable[[Trouble], None],
) -> tuple[list[Space], frozenset[str]]:
    """Return the namespaces with these names that exist, and the hosts of all pods. Raises Trouble; a namespace with an error is reported and
    excluded.
    One request lists all of them and one all their pods: with 200 namespaces, single requests took longer than a
    round may.
    """
    exempt: dict[str, frozenset[str]] = {}
    for one in api.items("/api/v1/namespaces", accept=METADATA):
        said = str((one["metadata"].get("annotations") or {}).get(EXEMPT, ""))
        exempt[one["metadata"]["name"]] = frozenset(said.replace(",", " ").split())
    found: dict[str, list[Pod]] = {name: [] for name in names if name in exempt}
    hosts: frozenset[str] = frozenset()
    for one in api.items("/api/v1/pods", {"fieldSelector": ALIVE}):
        hosts |= places(one)
        inside = found.get(str(one["metadata"].get("namespace")))
        if inside is None:
            continue
        try:
            inside += [made] if (made := _pod(one, doubt)) else []
        except Trouble as error:
            del found[one["metadata"]["namespace"]]
            trouble(error)
    return [Space(name, tuple(pods), exempt[name]) for name, pods in found.items()], hosts


def learn(
    api: Api, spaces: Sequence[Space], known: Mapping[str, rules.Limits], owners: owning.Owners
) -> None:
    """Read the owners of all pods concerned in few requests. Raises Trouble."""
    asked = [one for one in spaces if any(not p.queue or p.queue in known for p in one.pods)]
    owners.learn(api, [p.owner for one in asked for p in one.pods if p.owner is not None])


def works(
    api: Api,
    pods: tuple[Pod, ...],
    known: dict[str, rules.Limits],
    owners: owning.Owners,
    doubt: Callable[[str, str], None],
) -> list[Work]:
    """Return the workloads that have a limit. Owners are read only if they can change the result."""
    grouped: dict[Owner, list[Pod]] = {}
    queues: dict[Owner, str] = {}
    unclear: set[Owner] = set()
    unlimited = []
    for one in pods:
        if one.queue and one.queue not in known and not owning.by_pod(one):
            unlimited.append(one)
            continue
        try:
            root, queue = (
                (one.me, one.queue) if one.owner is None else owners.root(api, one.owner, one.queue)
            )
        except Unowned as error:
            # If skipped, it would outlast every limit, through an owner that its author chose.
            doubt(str(one.me), str(error))
            root, queue = one.me, one.queue
        except Unknown as error:
            doubt(str(one.me), str(error))
            continue
        grouped.setdefault(root, []).append(one)
        if queues.setdefault(root, queue) != queue:
            unclear.add(root)
    unclear |= grouped.keys() & _shared(api, unlimited if grouped else [], owners)
    for root in unclear:
        doubt(str(root), "its pods name different queues")
    return [
        Work(root, queues[root], tuple(grouped[root]))
        for root in grouped
        if root not in unclear and queues[root] in known
    ]


def _shared(api: Api, unlimited: list[Pod], owners: owning.Owners) -> set[Owner]:
    """Return owners of pods in queues without a limit: they are not ended because of other pods they own."""
    found: set[Owner] = set()
    for one in unlimited:
        if one.owner is not None:
            with suppress(Unknown):
                found.update(owners.above(api, one.owner))
    return found


def _pod(found: Resource, doubt: Callable[[str, str], None]) -> Pod | None:
    try:
        return pod(found)
    except Unknown as error:
        doubt(f"Pod {found['metadata'].get('namespace')}/{found['metadata']['name']}", str(error))
        return None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Trouble("the API returned a pod that this program cannot read") from None
