"""The queues of a deployment: the site's own cluster is brought to them once its scheduler is there."""

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from appliance.actions.planned import Filters, Planned
from appliance.adapters import leftovers
from appliance.adapters.kubernetes import KubernetesApi
from appliance.engine import kubeconfig
from appliance.engine.session import Session
from appliance.errors import ApplianceError, ConfigError
from appliance.models.events import HostTask, StageDone, StageStarted
from appliance.models.plan import QUEUES, Action, HostStage, Plan
from appliance.models.queue_plan import Change
from appliance.models.run import StageOutcome, StageState
from appliance.models.site import Role
from appliance.stages.queues import changes as queue
from appliance.stages.scheduler.queues.namespaces import NGC_KEY
from appliance.stages.scheduler.queues.rendered import rendered
from appliance.text import plural

BROUGHT = "queues_brought"
MADE_BY = ("kubernetes", "scheduler")
"""Stages that may make the cluster anew, or its scheduler."""
MINUTES = 0.1
TOKEN = ("systemctl", "start", "appliance-limits-token.service")
"""What looks every two minutes whether there is an account for it by now (role limits)."""


def with_queues(session: Session, planned: Planned, filters: Filters) -> Planned:
    """The plan with the site's queues, on its first control host: brought where they are others than those brought last."""
    if not filters.brings_queues(session.site):
        return planned
    plan, last = planned.plan, session.journal.last(BROUGHT)
    anew = [s for s in MADE_BY if any(c.action.changes for c in plan.by_stage(s))]
    why = ""
    if last is None:
        why = "not brought yet"
    elif last.data.get("digest") != rendered(session.site, session.profile).digest:
        why = "others than those brought last: appliance queue plan"
    elif last.data.get("secrets", "") != _secrets(session):
        why = "the site's secrets are others"
    elif anew or _worked_since(session, last.seq):
        why = f"after stage {anew[-1] if anew else MADE_BY[-1]}"
    elif filters.full or QUEUES in filters.stages:
        why = "asked for"
    first = session.site.with_role(Role.CONTROL)[0]
    action = Action.RUN if why else Action.SKIP
    if first.name in planned.found.unanswered:
        action = Action.UNKNOWN
    cell = HostStage(
        stage=QUEUES,
        host=first.name,
        action=action,
        why=why if action is Action.RUN else "",
        minutes=MINUTES if action is Action.RUN else 0.0,
        known=last is not None,
    )
    rest = [
        HostStage(stage=QUEUES, host=h.name, action=Action.NOT_CONCERNED)
        for h in session.site.hosts
        if h.name != first.name
    ]
    whole = {"stages": (*plan.stages, QUEUES), "cells": (*plan.cells, cell, *rest)}
    return replace(planned, plan=plan.model_copy(update=whole))


def bring_queues(
    session: Session, plan: Plan, outcomes: tuple[StageOutcome, ...]
) -> tuple[StageOutcome, ...]:
    """Does what the plan says of them. ``outcomes``: of the stages before; those that make the cluster must be whole on control hosts."""
    cell = next((c for c in plan.by_stage(QUEUES) if c.action is not Action.NOT_CONCERNED), None)
    if cell is None or cell.action is Action.UNKNOWN:
        return ()
    host = cell.host
    if not cell.action.changes:
        return (StageOutcome(stage=QUEUES, host=host, state=StageState.SKIPPED),)
    control = {h.name for h in session.site.with_role(Role.CONTROL)}
    made = [o for o in outcomes if o.stage in MADE_BY and o.host in control]
    bad = [o.stage for o in made if o.state not in _WHOLE]
    if bad:
        why = f"stage {bad[0]} has to be whole first"
        return (StageOutcome(stage=QUEUES, host=host, state=StageState.NOT_RUN, why=why),)
    session.tell(StageStarted(stage=QUEUES, hosts=(host,), expected_seconds=MINUTES * 60))
    began = time.monotonic()
    changes, state, cause, fix = 0, StageState.DONE, "", ""
    try:
        changes = _brought(session, host)
    except ApplianceError as error:
        state, cause, fix = StageState.FAILED, session.redact(error.message), error.hint
    seconds = time.monotonic() - began
    session.tell(
        StageDone(
            stage=QUEUES,
            state=state,
            done=int(state is StageState.DONE),
            hosts=1,
            seconds=seconds,
            note=plural(changes, "change"),
        )
    )
    outcome = StageOutcome(
        stage=QUEUES,
        host=host,
        state=state,
        seconds=seconds,
        changes=changes,
        cause=cause,
        fix=fix,
    )
    return (outcome,)


_WHOLE = frozenset({StageState.DONE, StageState.SKIPPED})


def _brought(session: Session, host: str) -> int:
    """How many changes it took. Raises ApplianceError, before any where something stands in their way."""
    site = session.site
    plain = rendered(site, session.profile)
    wanted = queue.with_secrets(site, session.folder, plain)
    with _cluster(session) as cluster:
        made = queue.plan(site, wanted, cluster, cluster.server)
        if made.refused:
            raise _in_the_way(made.refused)
        done = queue.apply(
            made,
            wanted,
            cluster,
            lambda said: session.tell(HostTask(stage=QUEUES, host=host, task=said)),
        )
    session.journal.append(session.run, BROUGHT, digest=plain.digest, secrets=_secrets(session))
    if done:
        for control in site.with_role(Role.CONTROL):
            with suppress(ApplianceError):
                session.remote.run(control.name, TOKEN, timeout=90)
    return done


@contextmanager
def _cluster(session: Session) -> Iterator[KubernetesApi]:
    """The cluster, by a certificate for this run that nobody keeps: of a killed one the next run finds the folder."""
    folder = leftovers.private_folder(leftovers.mark(session.folder_of_run))
    try:
        made = kubeconfig.issue(session.remote, session.site, folder, 1)
        with KubernetesApi(made.file, keys_in=folder) as api:
            yield api
    finally:
        leftovers.discard(folder)


def _in_the_way(refused: tuple[Change, ...]) -> ConfigError:
    first, *others = refused
    more = f"; and {plural(len(others), 'more')}" if others else ""
    return ConfigError(
        f"{first.kind} {first.title}: {'; '.join(first.details)}{more}",
        first.remedy or "appliance queue plan names all that stands in the way",
    )


def _secrets(session: Session) -> str:
    """Tells one key of a registry from the next, and nothing of it; "" where the site has none.

    The salt is made of other secrets, too: where one of those changed, the queues are brought once more and nothing changes.
    """
    key = session.secrets.get(NGC_KEY)
    if key is None:
        return ""
    return hashlib.blake2b(str(key).encode(), key=session.salt, digest_size=12).hexdigest()


def _worked_since(session: Session, seq: int) -> bool:
    """Whether the cluster or its scheduler was deployed after the queues were brought, in whatever run."""
    last = (session.journal.last("host_started", stage=stage) for stage in MADE_BY)
    return any(entry is not None and entry.seq > seq for entry in last)
