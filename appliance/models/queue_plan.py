"""What applying the site's queues would do to a cluster."""

from enum import StrEnum

from appliance.models.base import Document, Model


class Step(StrEnum):
    """What happens to one resource."""

    CREATE = "create"
    CHANGE = "change"
    REPLACE = "replace"
    DELETE = "delete"
    REFUSE = "refuse"
    LEAVE = "leave"


class Change(Model):
    """One resource that differs from the site; ``details`` are fields for people, or the reason."""

    step: Step
    kind: str
    name: str
    namespace: str = ""
    title: str
    details: tuple[str, ...] = ()
    remedy: str = ""


class QueuePlan(Document):
    """All changes, in their order, and the number of unchanged resources."""

    site: str
    server: str
    digest: str
    changes: tuple[Change, ...]
    unchanged: int

    @property
    def refused(self) -> tuple[Change, ...]:
        """What blocks the changes."""
        return tuple(c for c in self.changes if c.step is Step.REFUSE)

    @property
    def work(self) -> tuple[Change, ...]:
        """What would be done."""
        return tuple(c for c in self.changes if c.step not in (Step.REFUSE, Step.LEAVE))


class QueueRow(Model):
    """One queue for people. GPUs, cores and GB; None is unlimited."""

    name: str
    title: str
    pool: str
    depth: int
    work: str = ""
    gpu_quota: float
    gpu_limit: float | None
    weight: float
    cpu_quota: float | None
    memory_quota: float | None
    rules: tuple[str, ...] = ()


class QueueUse(Model):
    """A leaf queue's GPUs as its scheduler counts them, parts of GPUs as parts; None where the cluster has no such queue."""

    name: str
    pool: str
    gpu_quota: float
    gpu_limit: float | None
    gpu_allocated: float | None
    gpu_requested: float | None
    waiting: int


class WaitingPod(Model):
    """A pod without a host: what it requests, since when it waits (seconds), why, and what to do."""

    name: str
    namespace: str
    queue: str
    pool: str
    requests: str
    waits_s: float
    cause: str
    fix: str = ""


class QueueState(Document):
    """Leaf queues of the cluster, and the pods that wait in them, longest first."""

    site: str
    server: str
    queues: tuple[QueueUse, ...]
    waiting: tuple[WaitingPod, ...]


class PoolRow(Model):
    """One node pool: its hosts, its GPUs, and how many of them are guaranteed."""

    name: str
    hosts: tuple[str, ...]
    gpus: float
    guaranteed: float


class QueueTree(Document):
    """The site's queues by pool, parents before children. ``admission``: what happens to work that violates its project's rules."""

    site: str
    kind: str
    admission: str = "deny"
    pools: tuple[PoolRow, ...]
    queues: tuple[QueueRow, ...]
