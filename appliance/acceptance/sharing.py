"""Tests how queues share GPUs: guarantees, borrowing and reclaim, priority, elastic jobs."""

from appliance.acceptance.capacity import CLASSES, Capacity
from appliance.acceptance.promise import KEPT, Judgement, Promise, broken, unasked
from appliance.acceptance.sandbox import Sandbox
from appliance.acceptance.timeline import Timeline
from appliance.acceptance.workload import Work
from appliance.text import plural

QUEUES = "kubectl get queues.scheduling.run.ai -o yaml; appliance queue plan shows what differs from the site"


def half(capacity: Capacity) -> int:
    """Pods of the first of two queues."""
    return capacity.units // 2


def play_quota(sandbox: Sandbox) -> None:
    """A queue with a limit of half the GPUs requests all of them."""
    count, unit = half(sandbox.capacity), sandbox.capacity.unit
    sandbox.queue("fixed", count * unit, limit=count * unit)
    sandbox.submit(Work("work", pods=sandbox.capacity.units, gpus=unit, queue="fixed"))
    sandbox.until(lambda now: now.placed("work") >= count)
    sandbox.phase("settled")
    sandbox.watch()


def judge_quota(seen: Timeline, capacity: Capacity) -> Judgement:
    """It gets exactly its quota."""
    each = capacity.unit
    wanted, most = half(capacity), max(seen.most("start", "work"), seen.most("settled", "work"))
    if most > wanted:
        return broken(f"a queue limited to {plural(wanted * each, 'GPU')} was given {most * each}")
    if (placed := seen.last("settled").placed("work")) < wanted:
        return broken(
            f"a queue with a quota of {plural(wanted * each, 'GPU')} was given {placed * each}"
        )
    return KEPT


def play_reclaim(sandbox: Sandbox) -> None:
    """The first queue borrows idle GPUs; then their owner requests them."""
    total, own, unit = sandbox.capacity.units, half(sandbox.capacity), sandbox.capacity.unit
    sandbox.queue("first", own * unit)
    sandbox.queue("second", (total - own) * unit)
    sandbox.submit(Work("lent", pods=total, gpus=unit, queue="first"))
    sandbox.until_placed("lent", pods=total)
    sandbox.phase("owner is back")
    sandbox.submit(Work("owner", pods=total - own, gpus=unit, queue="second"))
    sandbox.until(lambda now: now.placed("owner") == total - own and now.placed("lent") == own)


def judge_reclaim(seen: Timeline, capacity: Capacity) -> Judgement:
    """They are lent while idle, returned on request, and never more than that."""
    total, own, each = capacity.units, half(capacity), capacity.unit
    if (lent := seen.last("start").placed("lent")) < total:
        given = f"{lent * each} of {total * each} idle GPUs"
        return broken(f"a queue was given {given} beyond its quota")
    end = seen.last("owner is back")
    if (back := end.placed("owner")) < total - own:
        given = f"{back * each} of the {(total - own) * each} GPUs"
        return broken(f"the owner got back {given} of its quota")
    if (kept := end.placed("lent")) < own:
        left = f"{kept * each} of the {own * each} GPUs"
        return broken(f"the other queue kept only {left} of its own quota")
    return KEPT


def play_fair_share(sandbox: Sandbox) -> None:
    """Two queues with the same weight and no quota; the second one starts late."""
    total, unit = sandbox.capacity.units, sandbox.capacity.unit
    for name in ("first", "second"):
        sandbox.queue(name, 0, weight=1)
    sandbox.submit(Work("early", pods=total, gpus=unit, queue="first"))
    sandbox.until_placed("early", pods=total)
    sandbox.phase("both")
    sandbox.submit(Work("late", pods=total, gpus=unit, queue="second"))
    sandbox.until(
        lambda now: (
            abs(now.placed("late") - now.placed("early")) <= total % 2
            and now.placed("late", "early") == total
        )
    )


def judge_fair_share(seen: Timeline, capacity: Capacity) -> Judgement:
    """Each gets half."""
    end = seen.last("both")
    early, late = end.placed("early"), end.placed("late")
    total, each = capacity.units, capacity.unit
    if abs(early - late) > total % 2:
        return broken(f"two queues with equal weight hold {early * each} and {late * each} GPUs")
    if early + late < total:
        idle = (total - early - late) * each
        return broken(f"{plural(idle, 'GPU is', 'GPUs are')} idle while both queues have work")
    return KEPT


def play_priority(sandbox: Sandbox) -> None:
    """More urgent work displaces a pod, which returns later; work that is never evicted stays."""
    total, unit = sandbox.capacity.units, sandbox.capacity.unit
    sandbox.submit(Work("unattended", pods=total, gpus=unit, kind="train"))
    sandbox.until_placed("unattended", pods=total)
    sandbox.phase("urgent")
    sandbox.submit(Work("urgent", gpus=unit, kind="inference"))
    sandbox.until_placed("urgent")
    sandbox.phase("resumed")
    sandbox.remove("urgent")
    sandbox.until_placed("unattended", pods=total)
    sandbox.phase("interactive")
    sandbox.remove("unattended")
    sandbox.submit(Work("interactive", pods=total, gpus=unit, kind="build"))
    sandbox.until_placed("interactive", pods=total)
    sandbox.phase("protected")
    sandbox.submit(Work("intruder", gpus=unit, kind="inference"))
    sandbox.watch()


def judge_priority(seen: Timeline, capacity: Capacity) -> Judgement:
    """The pod is displaced and resumed, and no other."""
    total = capacity.units
    if not seen.last("urgent").placed("urgent"):
        return broken("urgent work waits behind unattended work of the same queue")
    left = seen.last("start").uids("unattended") & seen.last("urgent").uids("unattended")
    if len(left) < total - 1:
        return broken(f"one urgent pod displaced {plural(total - len(left), 'other')}")
    if (back := seen.last("resumed").placed("unattended")) < total:
        return broken(f"{back} of {total} pods run again after the urgent work ended")
    if (placed := seen.last("interactive").placed("interactive")) < total:
        return broken(f"{placed} of {total} interactive pods were placed")
    before = seen.last("interactive").uids("interactive")
    gone = len(before - seen.last("protected").uids("interactive"))
    if gone := max(gone, total - seen.least("protected", "interactive")):
        return broken(
            f"{plural(gone, 'interactive pod was', 'interactive pods were')} evicted, which must never happen"
        )
    return KEPT if seen.asked("protected", "intruder") else unasked("the more urgent work")


def lacks_classes(capacity: Capacity) -> str:
    """Needs KAI's priority classes."""
    missing = [name for name in CLASSES if name not in capacity.classes]
    if missing:
        return f"the cluster has no priority class {', '.join(missing)}"
    return capacity.lacks(gpus=2)


def play_elastic(sandbox: Sandbox) -> None:
    """A job that can run with one pod yields the rest to an owner, and grows again."""
    total, unit = sandbox.capacity.units, sandbox.capacity.unit
    sandbox.queue("first", unit)
    sandbox.queue("second", (total - 1) * unit)
    sandbox.submit(Work("elastic", pods=total, gang=1, gpus=unit, queue="first"))
    sandbox.until_placed("elastic", pods=total)
    sandbox.phase("shrunk")
    sandbox.submit(Work("owner", pods=total - 1, gang=total - 1, gpus=unit, queue="second"))
    sandbox.until_placed("owner", pods=total - 1)
    sandbox.phase("grown")
    sandbox.remove("owner")
    sandbox.until_placed("elastic", pods=total)


def judge_elastic(seen: Timeline, capacity: Capacity) -> Judgement:
    """It shrinks to its minimum, never below, and takes back what is free."""
    total, each = capacity.units, capacity.unit
    if (placed := seen.last("start").placed("elastic")) < total:
        return broken(f"an elastic job was given {placed * each} of {total * each} idle GPUs")
    if (owner := seen.last("shrunk").placed("owner")) < total - 1:
        given = f"{owner * each} of {(total - 1) * each} GPUs"
        return broken(f"the owner was given {given}: the job did not shrink")
    if not seen.last("start").uids("elastic") & seen.last("shrunk").uids("elastic"):
        return broken("the whole job was ended instead of shrinking to its minimum")
    if (grown := seen.last("grown").placed("elastic")) < total:
        return broken(f"the job grew back to {grown} of {total} pods")
    return KEPT


def _shared(capacity: Capacity) -> str:
    return capacity.lacks(gpus=2, queues=True)


PROMISES = (
    Promise(
        "scheduler.quota",
        "A queue gets its quota and stays within its limit",
        "A queue with half of the GPUs as quota and limit requests all of them.",
        _shared,
        play_quota,
        judge_quota,
        QUEUES,
    ),
    Promise(
        "scheduler.reclaim",
        "Queues can borrow idle GPUs beyond their quota, and return them",
        "One queue uses every GPU while the other is idle; then the other requests its quota.",
        _shared,
        play_reclaim,
        judge_reclaim,
        QUEUES,
    ),
    Promise(
        "scheduler.fair_share",
        "Two projects share fairly",
        "Two queues with equal weight and no quota both request all GPUs, the second one later.",
        _shared,
        play_fair_share,
        judge_fair_share,
        QUEUES,
    ),
    Promise(
        "scheduler.priority",
        "Urgent work runs first, and the evicted work starts again",
        "Unattended work fills every GPU, one urgent pod is submitted and ended. Then interactive work, which is never "
        "evicted, is tried the same way.",
        lacks_classes,
        play_priority,
        judge_priority,
        "kubectl get priorityclasses: train 50, build 100, inference 125; pods with 100 or more are never evicted",
    ),
    Promise(
        "scheduler.elastic",
        "Elastic work shrinks and grows",
        "A job that needs one pod but can use all GPUs must give up the other pods, and gets them back.",
        _shared,
        play_elastic,
        judge_elastic,
        "check the minimum number of pods of the job's group: kubectl get podgroups -A -o yaml",
    ),
)
