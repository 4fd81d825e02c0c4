"""What a narrowed run may speak of: it proves its own part, and names what it did not look at."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from appliance.actions.planned import Filters, has_queues
from appliance.benchmarks import OF_DEPLOYMENT
from appliance.engine.judge import REACHABLE
from appliance.engine.named import named
from appliance.models.plan import QUEUES, VALIDATE
from appliance.models.result import CheckResult, Status
from appliance.models.site import Site
from appliance.report.wording import fold
from appliance.stages.catalog import HARDWARE, STAGES
from appliance.stages.stage import Stage
from appliance.text import plural


@dataclass(frozen=True)
class Scope:
    """Hosts and check ids a run judges; ``is_whole``: of all hosts and everything, ``has_all_hosts``: of all hosts.

    ``words``: the flags that narrowed it.
    """

    hosts: frozenset[str]
    ids: frozenset[str]
    is_whole: bool = True
    has_all_hosts: bool = True
    words: str = ""
    left_out: str = ""

    def judges(self, result: CheckResult) -> bool:
        """Whether ``result`` counts. What speaks of the whole cluster counts only where all hosts are in."""
        if self.is_whole:
            return True
        return result.id in self.ids and (
            result.host in self.hosts if result.host else self.has_all_hosts
        )

    def sentences(self, results: Iterable[CheckResult]) -> tuple[str, ...]:
        """What stays open after this run, as the report says it; ``results``: all that could be judged."""
        if self.is_whole:
            return ()
        beside = [r for r in results if r.status is Status.FAIL and not self.judges(r)]
        seen = f"{plural(len(beside), 'check')} beside it failed: appliance health"
        return (self.left_out, *([seen] if beside else []))


def scope_of(site: Site, stages: Sequence[Stage], filters: Filters) -> Scope:
    """The scope of a run of these stages."""
    names = frozenset(h.name for h in site.hosts)
    if not (filters.limit or filters.stages or filters.until not in {None, VALIDATE}):
        return Scope(names, frozenset())
    hosts = frozenset(named(filters.limit, [h.name for h in site.hosts])) or names
    ids = {REACHABLE, *(i for s in stages for i in (f"stage.{s.name}", *s.checks, *s.symptoms))}
    if not (filters.stages or filters.until):
        ids |= {check.id for check in HARDWARE}
    if filters.brings_queues(site):
        ids |= {f"stage.{QUEUES}"}
    if filters.validates:
        ids |= {f"stage.{VALIDATE}", *(i for b in OF_DEPLOYMENT for i in b.checks)}
    return Scope(
        hosts,
        frozenset(ids),
        is_whole=False,
        has_all_hosts=not filters.limit,
        words=filters.words,
        left_out=_left_out(site, stages, hosts, filters),
    )


def _left_out(site: Site, stages: Sequence[Stage], hosts: frozenset[str], filters: Filters) -> str:
    absent = [s.name for s in STAGES if s.wanted(site) and s not in stages]
    if has_queues(site) and not filters.brings_queues(site):
        absent += [QUEUES]
    absent += [] if filters.validates else [VALIDATE]
    others = [h.name for h in site.hosts if h.name not in hosts]
    parts = [f"stages {', '.join(absent)}"] if absent else []
    parts += [f"hosts {fold(others)}"] if others else []
    return f"not judged, because of {filters.words}: {'; '.join(parts) or 'nothing'}"
