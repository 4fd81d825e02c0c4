"""Where the console's figures come from: the functions that the verbs call."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from appliance.actions.deployment import plan
from appliance.actions.hosts.partitions import Partitions, partitions
from appliance.actions.kubernetes.queue_state import state
from appliance.actions.kubernetes.queues import cluster_of
from appliance.actions.monitoring import health
from appliance.actions.monitoring.explain import explained
from appliance.actions.monitoring.health import Health
from appliance.actions.monitoring.reference_day import BASELINE, HANDOVER
from appliance.actions.sites.last_deployment import SiteRecord, site_record
from appliance.actions.sites.opening import Target, locate, runs_of
from appliance.config.load import LoadedSite
from appliance.console.loaded import Failure
from appliance.engine.look.posture import ACCEPTED
from appliance.engine.plan.selection import Filters
from appliance.errors import ApplianceError, ConfigError
from appliance.hidden import hidden
from appliance.journal import Journal
from appliance.models.events import Event, Message
from appliance.models.plan import Plan
from appliance.models.queue_plan import QueueState
from appliance.report.advice import Address, told

T = TypeVar("T")
NO_QUEUES = "no queues of Kubernetes: site.yml has no section scheduler"
NO_PARTITIONS = "no partitions of Slurm: site.yml has no section slurm"


@dataclass(frozen=True)
class Looked:
    """One look at the hosts. ``warnings``: what the verb would have printed to standard error."""

    health: Health
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Waiting:
    """Work that waits, by scheduler. None: the site declares none, as ``absent`` says, or it did not answer, as ``missing`` says."""

    queues: QueueState | None = None
    partitions: Partitions | None = None
    missing: tuple[Failure, ...] = ()
    absent: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sources:
    """The loads of the console; each may take seconds, contacts hosts or files, and raises ApplianceError."""

    site: str
    look: Callable[[], Looked]
    record: Callable[[], SiteRecord]
    waiting: Callable[[], Waiting]
    plan: Callable[[], Plan]
    explain: Callable[[str], str] = explained


@dataclass
class Warnings:
    """An observer that keeps warnings."""

    texts: list[str] = field(default_factory=list)

    def handle(self, event: Event) -> None:
        """Keep a warning."""
        if isinstance(event, Message) and event.level == "warning":
            self.texts.append(event.text)


def of_target(target: Target) -> Sources:
    """The sources of a site, whose files each load reads again. Raises ConfigError for a site that cannot be read."""

    def advised(load: Callable[[Target], T]) -> Callable[[], T]:
        return lambda: _advised(load(target), target.address)

    return Sources(
        site=locate(target).site.name,
        look=advised(_look),
        record=advised(lambda known: site_record(runs_of(known))),
        waiting=advised(_waiting),
        plan=advised(lambda known: plan.make(known, Filters(), Warnings())),
        explain=lambda check: _advised(explained(check), target.address),
    )


def _look(target: Target) -> Looked:
    """As ``appliance health``, with gates and hosts, compared with the last accepted state if there is one."""
    warnings = Warnings()
    since = _accepted_day(target)
    try:
        found = _health(target, warnings, since)
    except ConfigError as error:
        if not since:
            raise
        # A baseline that cannot be read must not hide the state of the hosts.
        found = _health(target, warnings, "")
        warnings.texts.append(f"not compared with the {since}: {error.message}")
    return Looked(found, tuple(warnings.texts))


def _health(target: Target, warnings: Warnings, since: str) -> Health:
    return health.look(target, warnings, since=since, gates=True, records=True)


def _accepted_day(target: Target) -> str:
    """The newest of hand-over and baseline in the journal; "" if there is neither."""
    runs = runs_of(target)
    if not (runs / "journal.sqlite").exists():
        return ""
    with Journal(runs, needed=False) as journal:
        found = {HANDOVER: journal.last("handover"), BASELINE: journal.last(ACCEPTED)}
    dated = {name: entry.seq for name, entry in found.items() if entry}
    return max(dated, key=dated.__getitem__, default="")


def _waiting(target: Target) -> Waiting:
    """Queues and partitions; the failure of one does not hide the other."""
    loaded = locate(target)
    queues = _queues(loaded) if loaded.site.scheduler else None
    slurm = _partitions(target) if loaded.site.slurm else None
    return Waiting(
        None if isinstance(queues, Failure) else queues,
        None if isinstance(slurm, Failure) else slurm,
        tuple(one for one in (queues, slurm) if isinstance(one, Failure)),
        (
            *(() if loaded.site.scheduler else (NO_QUEUES,)),
            *(() if loaded.site.slurm else (NO_PARTITIONS,)),
        ),
    )


def _queues(loaded: LoadedSite) -> QueueState | Failure:
    try:
        with cluster_of(loaded, None) as cluster:
            return state(loaded, cluster)
    except ApplianceError as error:
        return Failure(f"queues: {error.told_of()}", error.hint)


def _partitions(target: Target) -> Partitions | Failure:
    try:
        return partitions(target, Warnings())
    except ApplianceError as error:
        return Failure(f"partitions: {error.told_of()}", error.hint)


def _advised(value: T, address: Address) -> T:
    """The same with the site in its commands and without secrets, also within dataclasses."""
    return cast(T, _advised_any(value, address))


def _advised_any(value: Any, address: Address) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        own = {f.name: _advised_any(getattr(value, f.name), address) for f in fields(value)}
        return replace(value, **own)
    if isinstance(value, dict):
        return {key: _advised_any(item, address) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_advised_any(item, address) for item in value)
    return told(hidden(value), address) if isinstance(value, str | BaseModel) else value
