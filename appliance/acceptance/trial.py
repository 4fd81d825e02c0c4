"""Runs promises one after the other on a cluster and gives each a verdict."""

from collections.abc import Callable, Iterable, Iterator

from appliance.acceptance import PROMISES
from appliance.acceptance.capacity import Capacity
from appliance.acceptance.promise import Promise
from appliance.acceptance.sandbox import (
    MINE,
    Clock,
    ClusterClient,
    Sandbox,
    Settings,
    clean,
    survey,
)
from appliance.acceptance.workload import NAMESPACE
from appliance.checks.check import judged
from appliance.errors import ApplianceError
from appliance.models.result import CLUSTER, CheckResult, Status
from appliance.text import plural

Series = Callable[[str], bool]
Told = Callable[[Promise], None]


def run(
    cluster: ClusterClient,
    clock: Clock,
    settings: Settings,
    *,
    series: Series | None = None,
    promises: Iterable[Promise] = PROMISES,
    told: Told = lambda _: None,
) -> Iterator[CheckResult]:
    """Yield a verdict for each promise as it is ready; its resources are removed when the last one is done.

    Raises ApplianceError if the cluster does not answer.
    """
    clean(cluster)
    await_empty(cluster, clock, settings)
    capacity = survey(cluster, settings, metrics=series is not None)
    try:
        for promise in promises:
            if reason := promise.lacks(capacity):
                yield result(promise, Status.NOT_ASSESSED, reason)
                continue
            told(promise)
            yield _tried(promise, Sandbox(cluster, clock, settings, capacity, series), capacity)
    finally:
        clean(cluster)


def await_empty(cluster: ClusterClient, clock: Clock, settings: Settings) -> None:
    """A namespace that is still being deleted accepts nothing new."""
    end = clock.now() + settings.patience
    while cluster.find("v1", "Namespace", MINE):
        if clock.now() >= end:
            raise ApplianceError(
                "the namespace of an earlier trial is still being deleted",
                f"kubectl describe namespace {NAMESPACE} shows what blocks the deletion",
            )
        clock.sleep(settings.beat)


def _tried(promise: Promise, sandbox: Sandbox, capacity: Capacity) -> CheckResult:
    try:
        sandbox.open()
        promise.play(sandbox)
    except ApplianceError as error:
        return result(promise, Status.NOT_ASSESSED, error.message, error.hint)
    kept, cause = promise.judge(sandbox.timeline, capacity)
    if kept is None:
        return result(promise, Status.NOT_ASSESSED, cause)
    seconds = sandbox.timeline.moments[-1].at
    evidence = f"{plural(len(sandbox.timeline.moments), 'observation')} in {seconds:.0f} s"
    if kept:
        return result(promise, Status.PASS, evidence=evidence)
    return result(promise, Status.FAIL, cause, promise.fix, evidence)


def result(
    promise: Promise, status: Status, cause: str = "", fix: str = "", evidence: str = ""
) -> CheckResult:
    """Return the verdict of a promise in the program's own form."""
    return judged(CLUSTER, status, cause=cause, fix=fix, evidence=evidence).of(promise.id)
