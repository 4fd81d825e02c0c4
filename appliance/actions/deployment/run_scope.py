"""The scope of a limited run: it verifies its own part, and lists what it did not judge."""

from collections.abc import Iterable
from dataclasses import dataclass

from appliance.engine.look.judge import REACHABLE
from appliance.engine.plan.selection import Selection
from appliance.engine.run.cluster_stages import WORK
from appliance.models.result import CheckResult, Status
from appliance.models.site import Site
from appliance.report.formatting import fold
from appliance.stages.catalog import EVERY_STAGE, HARDWARE
from appliance.text import plural


@dataclass(frozen=True)
class Scope:
    """Hosts and check ids that a run judges; ``is_whole``: everything on all hosts, ``has_all_hosts``: all hosts.

    ``words``: the flags that limited it.
    """

    hosts: frozenset[str]
    ids: frozenset[str]
    is_whole: bool = True
    has_all_hosts: bool = True
    words: str = ""
    left_out: str = ""

    def judges(self, result: CheckResult) -> bool:
        """Whether ``result`` is in scope. Results of the whole cluster are in scope only if all hosts are."""
        if self.is_whole:
            return True
        return result.id in self.ids and (
            result.host in self.hosts if result.host else self.has_all_hosts
        )

    def sentences(self, results: Iterable[CheckResult]) -> tuple[str, ...]:
        """What remains open after this run, for the report; ``results``: everything that could be judged."""
        if self.is_whole:
            return ()
        beside = [r for r in results if r.status is Status.FAIL and not self.judges(r)]
        seen = f"{plural(len(beside), 'check')} outside of this run failed: appliance health"
        return (self.left_out, *([seen] if beside else []))


def scope_of(site: Site, selection: Selection) -> Scope:
    """The scope of a run of these hosts and stages."""
    names = frozenset(h.name for h in site.hosts)
    if selection.is_whole:
        return Scope(names, frozenset())
    filters, hosts = selection.filters, selection.hosts or names
    ids = {REACHABLE, *(f"stage.{name}" for name in selection.names)}
    ids |= {i for s in selection.stages for i in (*s.checks, *s.symptoms)}
    ids |= {i for s in selection.cluster for i in WORK[s.name].proofs(site)}
    if not (filters.stages or filters.until):
        ids |= {check.id for check in HARDWARE}
    return Scope(
        hosts,
        frozenset(ids),
        is_whole=False,
        has_all_hosts=not filters.limit,
        words=filters.words,
        left_out=_left_out(site, selection, hosts),
    )


def _left_out(site: Site, selection: Selection, hosts: frozenset[str]) -> str:
    absent = [s.name for s in EVERY_STAGE if s.wanted(site) and s.name not in selection.names]
    others = [h.name for h in site.hosts if h.name not in hosts]
    parts = [f"stages {', '.join(absent)}"] if absent else []
    parts += [f"hosts {fold(others)}"] if others else []
    return f"not judged, because of {selection.filters.words}: {'; '.join(parts) or 'nothing'}"
