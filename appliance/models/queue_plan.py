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
    """One resource that is not as the site says; ``details`` are fields in words, or the reason."""

    step: Step
    kind: str
    name: str
    namespace: str = ""
    title: str
    details: tuple[str, ...] = ()
    remedy: str = ""


class QueuePlan(Document):
    """All changes, in the order they are made, and how many resources are as they should be."""

    site: str
    server: str
    digest: str
    changes: tuple[Change, ...]
    unchanged: int

    @property
    def refused(self) -> tuple[Change, ...]:
        """What stands in the way."""
        return tuple(c for c in self.changes if c.step is Step.REFUSE)

    @property
    def work(self) -> tuple[Change, ...]:
        """What would be done."""
        return tuple(c for c in self.changes if c.step not in (Step.REFUSE, Step.LEAVE))


class QueueRow(Model):
    """One queue as people read it. GPUs, cores and GB; None is without bound."""

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


class PoolRow(Model):
    """One node pool: its hosts, its GPUs, and how many of them are guaranteed."""

    name: str
    hosts: tuple[str, ...]
    gpus: float
    guaranteed: float


class QueueTree(Document):
    """The site's queues by pool, parents before children. ``admission``: what becomes of work that asks for what is not its own."""

    site: str
    kind: str
    admission: str = "deny"
    pools: tuple[PoolRow, ...]
    queues: tuple[QueueRow, ...]
