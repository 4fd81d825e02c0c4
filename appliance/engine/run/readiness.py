"""What a change that drains hosts needs, proved before the first host is drained: a refused change touches nothing."""

from collections.abc import Iterator

from appliance.engine.look.gather import Round, Unanswered, ask, each
from appliance.engine.look.judge import judge_host
from appliance.engine.look.survey import view_of
from appliance.engine.plan.prepare import Preparation
from appliance.engine.run.rollout import is_left_drained
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.models.plan import HostStage, Plan
from appliance.models.result import Status
from appliance.stages.stage import Readiness, Stage

MOST = 3
"""Problems that one line names."""
SOUND = frozenset({Status.PASS, Status.WARN, Status.SKIP})


def refuse_unready(
    session: Session, found: Round, plan: Plan, stages: tuple[Stage, ...], prepared: Preparation
) -> None:
    """Raises ConfigError where hosts would be drained for a change that cannot succeed. Interrupted changes continue."""
    for stage in stages:
        cells = [c for c in plan.by_stage(stage.name) if c.drain and c.action.changes]
        if stage.readiness is None or not cells:
            continue
        fresh = [c for c in cells if not is_left_drained(session, found, c.host)]
        problems = [*_of_hosts(session, stage.readiness, found, stage, fresh, prepared)]
        if len(fresh) == len(cells):
            problems += _of_leaders(session, stage.readiness, found, stage)
            hosts = tuple(c.host for c in cells)
            problems += stage.readiness.place(session.site, hosts, found.facts)
        if problems:
            raise _refusal(stage, problems)


def _of_hosts(
    session: Session,
    readiness: Readiness,
    found: Round,
    stage: Stage,
    cells: list[HostStage],
    prepared: Preparation,
) -> Iterator[ApplianceError]:
    requests = {
        cell.host: readiness.request(
            found.facts[cell.host], prepared[stage.name, cell.host].variables
        )
        for cell in cells
    }
    for name, answer in each(requests, lambda host: ask(session.remote, host, requests[host])):
        if isinstance(answer, Unanswered):
            yield ConfigError(f"{name}: {answer.cause}", answer.fix)
            continue
        variables = prepared[stage.name, name].variables
        yield from readiness.lacks(session.site.host(name), found.facts[name], answer, variables)


def _of_leaders(
    session: Session, readiness: Readiness, found: Round, stage: Stage
) -> Iterator[ApplianceError]:
    """Hosts that come first must be sound, also those that the change is not about: one of three that is lost leaves no other."""
    view = view_of(session, found)
    for host in session.site.hosts:
        if stage.rolls_first.isdisjoint(host.roles) or host.name not in found.facts:
            continue
        for result in judge_host(view, host, readiness.proofs):
            if result.status not in SOUND:
                text = f"{host.name}: {result.id} does not pass: {result.cause}"
                yield ConfigError(text, result.fix or f"appliance health --hosts {host.name}")


def _refusal(stage: Stage, problems: list[ApplianceError]) -> ConfigError:
    more = f"; and {len(problems) - MOST} more" if len(problems) > MOST else ""
    text = "; ".join(problem.message for problem in problems[:MOST])
    return ConfigError(
        f"stage {stage.name} cannot run, so no host was drained: {text}{more}",
        f"{problems[0].hint}; nothing was changed",
    )
