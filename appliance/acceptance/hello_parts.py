"""Parts of add-on trials: where they run, pods that comply with queue and rights, and how the end is detected."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from appliance.acceptance.workload import QUEUE_LABEL
from appliance.stages.scheduler.queues.kai import POOL_LABEL

Resource = dict[str, Any]
Ended = Callable[[Resource], bool | None]
HELLO = "appliance/hello"
NAME = "appliance-hello"
SMALL = {"cpu": "100m", "memory": "128Mi"}


@dataclass(frozen=True)
class Where:
    """A project's namespace and queue, its scheduler, and images by name; ``model``: the served model, and its address.

    ``pool``: the node pool label of the queue's pods; "" for none. ``client``: another project whose pods send
    requests to this one; None: the same project. ``cpu``: cores that each pod of the project requests at least.
    """

    namespace: str
    queue: str
    scheduler: str
    images: dict[str, str]
    storage_class: str = ""
    model: str = ""
    address: str = ""
    pool: str = ""
    client: "Where | None" = None
    cpu: float = 0.0

    @property
    def sides(self) -> "tuple[Where, ...]":
        """Return all projects in which a trial creates pods."""
        return (self,) if self.client is None else (self, self.client)

    def enough(self, cpu: str) -> str:
        """Return this CPU, or what a pod of the project requests at least."""
        millicores = round(float(cpu.removesuffix("m")) * (1 if cpu.endswith("m") else 1000))
        least = round(self.cpu * 1000)
        return cpu if least <= millicores else f"{least}m"


@dataclass(frozen=True)
class Hello:
    """``key``: its section in the site.

    ``ended``: whether the last resource of ``make`` succeeded; None: not finished.
    ``failed``, ``fix``: the meaning of a failure, if known. ``image``: by its name; ``needs``: what an image of
    the site must contain.
    """

    key: str
    title: str
    make: Callable[[Where], list[Resource]]
    ended: Ended
    failed: str = ""
    fix: str = ""
    image: str = "plain"
    needs: str = ""


def labels(where: Where, key: str) -> dict[str, str]:
    """Label of everything that a trial creates."""
    pool = {POOL_LABEL: where.pool} if where.pool else {}
    return {HELLO: key, QUEUE_LABEL: where.queue, **pool}


def resource(where: Where, key: str, api_version: str, kind: str, **body: Any) -> Resource:
    """Return a resource of a trial."""
    name = f"{NAME}-{key.replace('_', '-')}"
    meta = {"name": name, "namespace": where.namespace, "labels": labels(where, key)}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **body}


def pod(
    where: Where,
    key: str,
    image: str,
    *,
    name: str = "hello",
    command: list[str] | None = None,
    asked: dict[str, str] | None = None,
    restart: str = "Never",
    user: int = 1000,
    account: str = "",
    **container: Any,
) -> Resource:
    """Return a pod template with minimal rights; with ``account``, those of that account.

    An unnamed image is empty: such a trial is only cleaned up.
    """
    asked = asked or SMALL
    asked = {**asked, "cpu": where.enough(asked["cpu"])}
    confined = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    made = {
        "name": name,
        "image": where.images.get(image, ""),
        "resources": {"limits": asked, "requests": asked},
        "securityContext": confined,
        **({"command": command} if command else {}),
        **container,
    }
    return {
        "metadata": {"labels": labels(where, key)},
        "spec": {
            "schedulerName": where.scheduler,
            "restartPolicy": restart,
            "automountServiceAccountToken": bool(account),
            **({"serviceAccountName": account} if account else {}),
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": user,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [made],
        },
    }


def job(template: Resource, pods: int = 1) -> Resource:
    """Return the spec of Jobs, and of kinds made of Jobs."""
    return {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": template}


def condition(good: str, bad: str) -> Ended:
    """Read the end from the resource's conditions."""

    def judge(found: Resource) -> bool | None:
        said = found.get("status", {}).get("conditions") or []
        true = {c["type"] for c in said if c.get("status") == "True"}
        return True if good in true else False if bad in true else None

    return judge


def state(path: str, good: str, *bad: str) -> Ended:
    """Read the end from one word of the resource's status; ``path`` within it, separated by dots."""

    def judge(found: Resource) -> bool | None:
        said: Any = found.get("status", {})
        for key in path.split("."):
            said = said.get(key, {})
        return True if said == good else False if said in bad else None

    return judge
