"""The scope of a run: hosts and stages that the user named, and stages that are removed from hosts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from shlex import quote

from appliance.engine.host_names import named_hosts
from appliance.errors import ConfigError
from appliance.models.facts import HostFacts
from appliance.models.site import Site
from appliance.stages import NAMES
from appliance.stages.catalog import CLUSTER_STAGES, EVERY_STAGE, STAGES
from appliance.stages.stage import ClusterStage, Stage


@dataclass(frozen=True)
class Filters:
    """Selection on the command line. Empty means everything, except ``accept_facts``: nothing is accepted."""

    limit: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    until: str | None = None
    full: bool = False
    accept_facts: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The options that narrow a run, as typed."""
        flags = [f"--hosts {quote(name)}" for name in self.limit]
        flags += [f"--stage {name}" for name in self.stages]
        return " ".join(flags + ([f"--until {self.until}"] if self.until else []))

    def reaches(self, stage: str) -> bool:
        """Return whether ``--stage`` and ``--until`` include this stage."""
        last = self.until or NAMES[-1]
        return stage in (self.stages or NAMES) and NAMES.index(stage) <= NAMES.index(last)


@dataclass(frozen=True)
class Selection:
    """The hosts and stages of a run, in their order; empty ``hosts`` means all. ``cluster``: stages of the cluster."""

    hosts: frozenset[str] = frozenset()
    stages: tuple[Stage, ...] = ()
    full: bool = False
    cluster: tuple[ClusterStage, ...] = ()
    filters: Filters = Filters()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its stages."""
        return (*(s.name for s in self.stages), *(s.name for s in self.cluster))

    @property
    def is_whole(self) -> bool:
        """Whether it covers all hosts and all stages."""
        has_all_stages = not self.filters.stages and self.filters.reaches(NAMES[-1])
        return has_all_stages and not self.filters.limit

    def asks_for(self, stage: str) -> bool:
        """Return whether the user wants this stage to run although nothing has changed."""
        return self.full or stage in self.filters.stages

    def with_departing(self, site: Site, facts: Mapping[str, HostFacts]) -> "Selection":
        """Add the stages that hosts still have and the site no longer asks for."""
        hosts = [h for h in site.hosts if not self.hosts or h.name in self.hosts]
        gone = [
            s
            for s in STAGES
            if self.filters.reaches(s.name)
            and any(s.is_removal(site, h, facts.get(h.name)) for h in hosts)
        ]
        return replace(self, stages=tuple(s for s in STAGES if s in self.stages or s in gone))


def select(site: Site, filters: Filters) -> Selection:
    """Return the selected hosts and stages. Raises ConfigError for an unknown name."""
    hosts = frozenset(named_hosts(filters.limit, [h.name for h in site.hosts], flag="--hosts"))
    for name in (*filters.stages, *([filters.until] if filters.until else [])):
        if name not in NAMES:
            raise ConfigError(f"no stage is called {name}", f"stages: {', '.join(NAMES)}")
    here = [stage.name for stage in EVERY_STAGE if stage.wanted(site)]
    for name in filters.stages:
        if name not in here:
            raise ConfigError(
                f"--stage {name}: stage is not enabled for site {site.name}",
                f"the section of site.yml that enables it is in docs/site.md; stages here: {', '.join(here)}",
            )
    chosen = [name for name in here if filters.reaches(name)]
    # Some of the hosts prove nothing about the cluster, unless an option names a stage of the cluster.
    speaks_of_cluster = filters.stages or filters.until or not filters.limit
    return Selection(
        hosts,
        tuple(s for s in STAGES if s.name in chosen),
        filters.full,
        tuple(s for s in CLUSTER_STAGES if s.name in chosen and speaks_of_cluster),
        filters,
    )
