"""Tests time limits: interactive work that lasts too long, and idle GPUs."""

from appliance.acceptance.capacity import Capacity
from appliance.acceptance.promise import KEPT, Judgement, Promise, broken, unknown
from appliance.acceptance.sandbox import Sandbox
from appliance.acceptance.timeline import Timeline
from appliance.acceptance.workload import NAMESPACE, Work

LIMIT = "1m"
LIMIT_S = 60.0
EARLY_S = 10.0
"""Tolerance of observations at either end."""
LATE_S = 120.0
"""Time after a limit by which work must have ended: a controller checks once a minute."""


USE = "use"
"""Whether Prometheus has GPU metrics of the trial's pods."""
SERIES = " or ".join(
    f'{{__name__=~"DCGM_FI_DEV_GPU_UTIL|DCGM_FI_PROF_GR_ENGINE_ACTIVE",{label}="{NAMESPACE}"}}'
    for label in ("namespace", "exported_namespace")
)


def _play(sandbox: Sandbox, limit: str) -> None:
    sandbox.queue("limited", 1)
    sandbox.queue("free", 1)
    sandbox.limits("limited", {limit: LIMIT})
    sandbox.submit(
        Work("limited", gpus=1, kind="build", queue="limited"),
        Work("free", gpus=1, kind="build", queue="free"),
    )
    sandbox.until_placed("limited", "free")
    sandbox.phase("limited")
    sandbox.watch(LIMIT_S + LATE_S)


def play_time(sandbox: Sandbox) -> None:
    """Two pods that sleep, one of them in a queue with a limit of one minute."""
    _play(sandbox, "timeLimit")


def play_idle(sandbox: Sandbox) -> None:
    """Two pods with idle GPUs, one of them in a queue that ends idle work after one minute."""
    _play(sandbox, "idleLimit")
    sandbox.note_series(USE, SERIES)


def judge_limit(seen: Timeline, capacity: Capacity) -> Judgement:
    """Only the pod with the limit ends."""
    del capacity
    if not all(seen.most("start", name) for name in ("limited", "free")):
        return unknown("two pods with one GPU each were not placed")
    held = [moment.at for moment in seen.moments if moment.placed("limited")]
    end = seen.last("limited")
    if not any(pod.phase == "Running" for m in seen.moments for pod in m.of("limited")):
        return unknown("the pods were placed, but their host did not run them")
    if not end.placed("limited") and (lasted := held[-1] - held[0]) < LIMIT_S - EARLY_S:
        return broken(f"work was ended after {lasted:.0f} s, before its limit of {LIMIT}")
    if end.placed("limited"):
        return broken(f"work still runs {LATE_S:g} s after its limit of {LIMIT}")
    if not end.placed("free"):
        return broken("work without a limit was also ended")
    return KEPT


def judge_idle(seen: Timeline, capacity: Capacity) -> Judgement:
    """The same; if the use of the GPUs is unknown, they do not count as idle, and such work is rightly left alone."""
    found = judge_limit(seen, capacity)
    if found.kept is False and seen.last("limited").placed("limited") and not seen.notes.get(USE):
        return unknown(
            "GPU utilization of its pods is not known: specify the Prometheus that has dcgm-exporter's metrics (--prometheus)"
        )
    return found


FIX = "appliance queue apply, then appliance health --check limits: appliance-limits of the control hosts ends such work"

PROMISES = (
    Promise(
        "scheduler.time_limit",
        "Interactive work ends at its time limit",
        "Two interactive pods sleep, one of them in a queue with a limit of one minute. KAI has no such limit: the program "
        "appliance-limits enforces it.",
        lambda capacity: capacity.lacks(gpus=2, queues=True),
        play_time,
        judge_limit,
        FIX,
    ),
    Promise(
        "scheduler.idle",
        "Work whose GPUs are idle ends",
        "Two pods hold a GPU and do nothing, one of them in a queue that ends idle work after one minute.",
        lambda capacity: capacity.lacks(gpus=2, queues=True),
        play_idle,
        judge_idle,
        FIX + "; it needs the metrics of dcgm-exporter",
    ),
)
