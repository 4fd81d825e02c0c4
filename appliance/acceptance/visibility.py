"""Tests work without GPUs next to full GPUs, and the metrics of dashboards."""

from appliance.acceptance.capacity import GROUPS, Capacity
from appliance.acceptance.promise import KEPT, Judgement, Promise, broken, unasked, unknown
from appliance.acceptance.sandbox import Sandbox
from appliance.acceptance.timeline import Timeline
from appliance.acceptance.workload import Work

SHAPES = ("spark", "ray", "dask")
PODS = 3
SERIES = {
    "allocated": "kai_queue_allocated_gpus",
    "quota": "kai_queue_deserved_gpus",
    "fair share": "kai_queue_fair_share_gpu",
}


def play_cpu_only(sandbox: Sandbox) -> None:
    """Three jobs of one leader and two workers without GPUs, while every GPU is held; before, a job that cannot start completely."""
    total = 0 if sandbox.capacity.taken else sandbox.capacity.units
    if total:
        sandbox.submit(Work("held", pods=total, gpus=sandbox.capacity.unit))
        sandbox.until_placed("held", pods=total)
    sandbox.phase("incomplete")
    sandbox.submit(Work("incomplete", pods=PODS, gang=PODS, nowhere=1))
    sandbox.watch()
    sandbox.phase("together")
    sandbox.remove("incomplete")
    sandbox.submit(*(Work(name, pods=PODS, gang=PODS, seconds=10) for name in SHAPES))
    sandbox.until(
        lambda now: all(
            sum(pod.phase == "Succeeded" for pod in now.of(name)) == PODS for name in SHAPES
        )
    )


def judge_cpu_only(seen: Timeline, capacity: Capacity) -> Judgement:
    """No pod of the job that cannot start completely runs, and all of the others succeed."""
    if part := seen.most("incomplete", "incomplete"):
        return broken(f"{part} of {PODS} pods without GPUs were placed although not all could be")
    if not seen.asked("incomplete", "incomplete", PODS):
        return unasked("the job that cannot start")
    end = seen.last("together")
    full = 0 if capacity.taken else capacity.units
    for name in SHAPES:
        done = sum(pod.phase == "Succeeded" for pod in end.of(name))
        if done == PODS:
            continue
        if end.placed(name) == PODS and not seen.ever("Running"):
            return unknown("pods were placed, but the hosts ran none of them")
        return broken(f"{done} of {PODS} pods of a job without GPUs ({name}) succeeded")
    if (held := end.placed("held")) < full:
        return unknown(
            f"only {held * capacity.unit} of {full * capacity.unit} GPUs could be held during the test"
        )
    return KEPT


def lacks_groups(capacity: Capacity) -> str:
    """Needs hosts and groups, but no GPUs."""
    if not capacity.nodes:
        return "the cluster has no host that takes pods"
    return "" if capacity.groups else f"the cluster has no pod groups ({GROUPS})"


def play_metrics(sandbox: Sandbox) -> None:
    """One pod in a queue of its own; then Prometheus is queried for it."""
    sandbox.submit(Work("seen", gpus=1))
    sandbox.until_placed("seen")
    # Prometheus scrapes every 10 to 60 seconds.
    sandbox.watch(90)
    for name, metric in SERIES.items():
        sandbox.note_series(name, f'{metric}{{queue_name="appliance-acceptance-work"}}')


def judge_metrics(seen: Timeline, capacity: Capacity) -> Judgement:
    """Prometheus has the queue's allocation, quota and fair share."""
    del capacity
    if any(answer is None for answer in seen.notes.values()) or not seen.notes:
        return unknown("no Prometheus is available")
    missing = [name for name in SERIES if not seen.notes.get(name)]
    if missing:
        return broken(f"Prometheus has no series of the queue's {', '.join(missing)}")
    return KEPT


PROMISES = (
    Promise(
        "scheduler.cpu_only",
        "Work without GPUs runs while all GPUs are in use",
        "Three jobs in the shape of Spark, Ray and Dask (one leader, two workers, started together) run while every GPU is "
        "held. A job with one pod that requests a missing host must not start at all. The frameworks themselves are not tested.",
        lacks_groups,
        play_cpu_only,
        judge_cpu_only,
        "kubectl describe pods -n appliance-acceptance shows why pods wait, during: appliance validate scheduler",
    ),
    Promise(
        "scheduler.metrics",
        "Dashboards have their metrics",
        "The trial queries Prometheus for the allocation, quota and fair share of one of its queues.",
        lambda capacity: (
            capacity.lacks(gpus=1, queues=True)
            or ("" if capacity.metrics else "no Prometheus was named (--prometheus)")
        ),
        play_metrics,
        judge_metrics,
        "let Prometheus scrape queuecontroller and scheduler in namespace kai-scheduler",
    ),
)
