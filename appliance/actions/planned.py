"""Facts and plan, as ``plan`` shows them and ``deploy`` carries them out."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from shlex import quote

from appliance.engine.earlier import known_facts, remember
from appliance.engine.fingerprint import files_of
from appliance.engine.gather import Round
from appliance.engine.named import named
from appliance.engine.planning import Selection, make_plan
from appliance.engine.posture import keep_postures
from appliance.engine.prepare import Preparation, prepare
from appliance.engine.remaining import remaining
from appliance.engine.requests import Beside
from appliance.engine.session import Session
from appliance.engine.survey import survey
from appliance.errors import ConfigError
from appliance.models.events import FactsTaken
from appliance.models.plan import OF_CLUSTER, QUEUES, VALIDATE, Plan
from appliance.models.site import Site
from appliance.stages.catalog import STAGES
from appliance.stages.scheduler import stage as scheduler
from appliance.stages.stage import Stage


@dataclass(frozen=True)
class Filters:
    """What the user asked for on the command line; empty means everything, but for ``accept_facts``: nothing is accepted."""

    limit: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    until: str | None = None
    full: bool = False
    accept_facts: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """What narrows a run, as it is typed."""
        flags = [f"--limit {quote(name)}" for name in self.limit]
        flags += [f"--stage {name}" for name in self.stages]
        return " ".join(flags + ([f"--until {self.until}"] if self.until else []))

    @property
    def validates(self) -> bool:
        """Whether the benchmarks belong to this run: a part of the cluster proves nothing about all of it."""
        named = VALIDATE in self.stages or self.until == VALIDATE
        return named or not (self.limit or self.stages or self.until)

    def brings_queues(self, site: Site) -> bool:
        """Whether the queues belong to this run."""
        named = QUEUES in self.stages or self.until in OF_CLUSTER
        return has_queues(site) and (named or not (self.limit or self.stages or self.until))


@dataclass(frozen=True)
class Planned:
    """A plan with all that is needed to carry it out."""

    found: Round
    plan: Plan
    stages: tuple[Stage, ...]
    prepared: Preparation


def has_queues(site: Site) -> bool:
    """Whether a deployment brings the site's queues: to a cluster of its own that keeps them itself."""
    options = site.scheduler
    return options is not None and options.kind != "runai" and scheduler.wanted(site)


def stage_names() -> tuple[str, ...]:
    """All stages in their order."""
    return (*(s.name for s in STAGES), QUEUES, VALIDATE)


def select(session: Session, filters: Filters) -> Selection:
    """The hosts and stages asked for. Raises ConfigError for a name that does not exist."""
    limit = named(filters.limit, [h.name for h in session.site.hosts], flag="--limit")
    names = stage_names()
    for name in (*filters.stages, *([filters.until] if filters.until else [])):
        if name not in names:
            raise ConfigError(f"no stage is called {name}", f"stages: {', '.join(names)}")
    wanted = [s for s in STAGES if s.wanted(session.site)]
    here = [s.name for s in wanted] + ([QUEUES] if has_queues(session.site) else [])
    for name in filters.stages:
        if name != VALIDATE and name not in here:
            raise ConfigError(
                f"--stage {name}: site {session.site.name} does not ask for it",
                f"see docs/site.md for the section of site.yml that does; stages here: {', '.join(here)}",
            )
    last = names.index(filters.until) if filters.until else len(names)
    chosen = tuple(
        s
        for s in wanted
        if (not filters.stages or s.name in filters.stages) and names.index(s.name) <= last
    )
    return Selection(frozenset(limit), chosen, filters.full)


def departing(session: Session, found: Round, chosen: Selection, filters: Filters) -> Selection:
    """The same selection with the stages that hosts still have and the site no longer wants."""
    names = stage_names()
    last = names.index(filters.until) if filters.until else len(names)
    hosts = [h for h in session.site.hosts if not chosen.hosts or h.name in chosen.hosts]
    gone = [
        s
        for s in STAGES
        if not filters.stages
        and names.index(s.name) <= last
        and any(s.is_removal(session.site, h, found.facts.get(h.name)) for h in hosts)
    ]
    stages = tuple(s for s in STAGES if s in chosen.stages or s in gone)
    return Selection(chosen.hosts, stages, chosen.full)


def names_of(selection: Selection, filters: Filters, site: Site) -> tuple[str, ...]:
    """The stages a run will look at, those of the whole cluster included where they belong to it."""
    queues = [QUEUES] if filters.brings_queues(site) else []
    return (
        *(s.name for s in selection.stages),
        *queues,
        *([VALIDATE] if filters.validates else []),
    )


def take_facts(
    session: Session,
    enough: Callable[[Round], bool] = lambda _: True,
    seconds: float = 0.0,
    beside: Beside = Beside.NOTHING,
    meanwhile: Callable[[], object] = lambda: None,
) -> Round:
    """Facts of all hosts, remembered in the journal; asked for anew until ``enough`` or ``seconds`` are over."""
    started = time.monotonic()
    found = survey(session, beside=beside, meanwhile=meanwhile)
    while not enough(found) and time.monotonic() < started + seconds:
        if session.cancelled.wait(1.0):
            break
        found = survey(session, beside=beside)
    remember(session, found)
    keep_postures(session, found)
    session.tell(
        FactsTaken(
            hosts=tuple(h.name for h in session.site.hosts),
            unreachable={n: u.cause for n, u in found.unanswered.items()},
            seconds=time.monotonic() - started,
        )
    )
    return found


def plan_session(
    session: Session, filters: Filters, meanwhile: Callable[[], object] = lambda: None
) -> Planned:
    """Takes facts and plans; changes nothing. ``meanwhile``: what the caller can do while hosts are asked."""
    selection = select(session, filters)

    def ready() -> None:
        for stage in selection.stages:
            files_of(stage, session.data)
        meanwhile()

    found = take_facts(session, meanwhile=ready)
    selection = departing(session, found, selection, filters)
    prepared = prepare(session, known_facts(session, found), selection.stages)
    plan = make_plan(session, found, prepared, selection)
    left = remaining(session, found, selection, plan)
    return Planned(found, plan.model_copy(update={"results": left}), selection.stages, prepared)
