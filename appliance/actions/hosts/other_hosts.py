"""What a change of one host changes on the others: it is deployed there, and nothing that was pending before."""

import time

from appliance.actions.deployment import plan as planning
from appliance.actions.deployment.deploy import Deployed, deploy
from appliance.actions.sites.opening import Target, open_session
from appliance.engine.look.judge import judge_apart
from appliance.engine.look.probe_requests import ALL_CHECK_IDS
from appliance.engine.look.survey import survey, view_of
from appliance.engine.plan.selection import Filters
from appliance.engine.session import Session
from appliance.models.events import Message, Observer
from appliance.models.result import CheckResult, Kind, Status
from appliance.stages.catalog import STAGES

JUDGE_PATIENCE, PAUSE = 90.0, 3.0
"""Seconds for monitoring and scheduler to notice a host that is back, and between two looks."""
Pending = frozenset[tuple[str, str]]
"""Host stages that a deployment would run now, by stage and host."""


def pending(target: Target, observer: Observer, name: str) -> Pending:
    """What a deployment would run now on the hosts other than ``name``."""
    plan = planning.make(target, Filters(), _Quiet(observer))
    names = {stage.name for stage in STAGES}
    return frozenset(
        (c.stage, c.host)
        for c in plan.cells
        if c.action.changes and c.host != name and c.stage in names
    )


def deploy_others(
    target: Target, observer: Observer, name: str, before: Pending
) -> tuple[tuple[str, ...], Deployed | None]:
    """Deploy what became pending since ``before``: the hosts, and the deployment if it failed."""
    new = pending(target, observer, name) - before
    if not new:
        return (), None
    hosts = tuple(sorted({host for _, host in new}))
    stages = tuple(s.name for s in STAGES if any(stage == s.name for stage, _ in new))
    done = deploy(target, Filters(limit=hosts, stages=stages), observer, lambda _: True)
    return hosts, None if done.exit_code in {0, 3} else done


def failures_of(
    target: Target, observer: Observer, name: str, known: frozenset[str] = frozenset()
) -> tuple[CheckResult, ...]:
    """What the checks say against a host, except ``known`` by name; monitoring and scheduler get time to notice the host."""
    deadline = time.monotonic() + JUDGE_PATIENCE
    with open_session(target, "node", observer) as session:
        while True:
            bad = tuple(r for r in against(session, name) if r.name not in known)
            if not bad or time.monotonic() >= deadline:
                return bad
            time.sleep(PAUSE)


def against(session: Session, name: str) -> tuple[CheckResult, ...]:
    """What the checks say against a host now, whether it is in maintenance or not."""
    found = survey(session)
    results = judge_apart(view_of(session, found), found, ALL_CHECK_IDS)
    return tuple(session.redact.texts(tuple(r for r in results if is_against(r, name))))


def is_against(result: CheckResult, name: str) -> bool:
    """Whether a result is a failure of this host itself."""
    bad = result.status in {Status.FAIL, Status.ERROR}
    return bad and result.host == name and result.kind is not Kind.MAINTENANCE


class _Quiet:
    """Passes warnings on only: a plan that nobody asked for shows no progress."""

    def __init__(self, inner: Observer) -> None:
        self._inner = inner

    def handle(self, event: object) -> None:
        """See Observer."""
        if isinstance(event, Message) and event.level == "warning":
            self._inner.handle(event)
