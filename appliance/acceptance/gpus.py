"""Tests parts of GPUs: fractions with and without a memory limit, and MIG instances."""

from appliance.acceptance.capacity import Capacity
from appliance.acceptance.promise import KEPT, Judgement, Promise, broken, unasked, unknown
from appliance.acceptance.sandbox import Sandbox
from appliance.acceptance.timeline import Timeline
from appliance.acceptance.workload import ALLOCATE, SUCCEEDED_OVER_CAP, Work
from appliance.text import plural

MEMORY = "nvidia.com/gpu.memory"
"""MiB of one GPU, a label that GPU feature discovery sets on hosts."""


PULL_S = 900.0
"""Maximum time to pull an image with PyTorch: 10 GB at 100 Mb/s."""


def play_fractions(sandbox: Sandbox) -> None:
    """All GPUs but one are held: two halves must share the last one, and a third half must wait."""
    whole, single = sandbox.capacity.units - 1, sandbox.capacity.unit - 1
    if whole:
        sandbox.submit(Work("held", pods=whole, gpus=sandbox.capacity.unit))
        sandbox.until_placed("held", pods=whole)
    if single:
        sandbox.submit(Work("held-too", pods=single, gpus=1))
        sandbox.until_placed("held-too", pods=single)
    sandbox.phase("two")
    sandbox.submit(Work("half-1", part=0.5), Work("half-2", part=0.5))
    sandbox.until_placed("half-1", "half-2")
    sandbox.phase("three")
    sandbox.submit(Work("half-3", part=0.5))
    sandbox.watch()


def judge_fractions(seen: Timeline, capacity: Capacity) -> Judgement:
    """Two pods share it, the third waits."""
    held = seen.last("two").placed("held") * capacity.unit + seen.last("two").placed("held-too")
    if held < capacity.gpus - 1:
        return unknown("the other GPUs could not be held")
    if (halves := seen.last("two").placed("half-1", "half-2")) < 2:
        return broken(f"{halves} of 2 pods with half a GPU each were placed on one GPU")
    if seen.most("three", "half-3"):
        return broken("a third pod with half a GPU was placed although only two fit")
    if seen.least("three", "half-1") + seen.least("three", "half-2") < 2:
        return broken("a third pod evicted another one")
    return KEPT if seen.asked("three", "half-3") else unasked("the third half")


def lacks_fractions(capacity: Capacity) -> str:
    """Needs a scheduler that shares GPUs; otherwise its admission refuses the pods, as configured."""
    if not capacity.shared:
        return "the site shares no GPUs (scheduler.sharing: none)"
    return capacity.lacks(gpus=1)


def play_memory(sandbox: Sandbox) -> None:
    """A pod with half a GPU allocates three quarters of its memory."""
    size = int(_memory(sandbox.capacity) * 2**20 * 0.75)
    command = ("python3", "-c", ALLOCATE.format(size=size))
    image = sandbox.capacity.gpu_image
    sandbox.submit(Work("greedy", part=0.5, image=image, command=command))
    sandbox.until(lambda now: any(pod.exit_code is not None for pod in now.of("greedy")), PULL_S)


def judge_memory(seen: Timeline, capacity: Capacity) -> Judgement:
    """The allocation fails."""
    del capacity
    pods = seen.last("start").of("greedy")
    codes = [pod.exit_code for pod in pods if pod.exit_code is not None]
    if SUCCEEDED_OVER_CAP in codes:
        return broken("a pod with half a GPU took three quarters of its memory")
    if 0 in codes:
        return KEPT
    if codes:
        return unknown(f"the program that allocates memory ended with exit code {codes[0]}")
    return unknown("the program that allocates memory did not end")


def lacks_memory(capacity: Capacity) -> str:
    """Needs an image that can allocate GPU memory, and the size of a GPU."""
    if not capacity.gpu_image:
        return "no image with PyTorch was named (--gpu-image)"
    if not _memory(capacity):
        return f"hosts have no label {MEMORY} (GPU feature discovery)"
    return lacks_fractions(capacity)


def _memory(capacity: Capacity) -> int:
    return min((int(n.labels.get(MEMORY, 0)) for n in capacity.gpu_nodes), default=0)


def instances(capacity: Capacity) -> tuple[str, int]:
    """Return the most frequent MIG profile and its number; "" if there is none."""
    counts: dict[str, int] = {}
    for node in capacity.nodes:
        for name, count in node.mig.items():
            counts[name] = counts.get(name, 0) + count
    return max(counts.items(), key=lambda item: item[1], default=("", 0))


def play_mig(sandbox: Sandbox) -> None:
    """One pod more than there are instances of a profile."""
    profile, count = instances(sandbox.capacity)
    sandbox.submit(Work("instances", pods=count + 1, resource=profile))
    sandbox.until(lambda now: now.placed("instances") >= count)
    sandbox.phase("full")
    sandbox.watch()


def judge_mig(seen: Timeline, capacity: Capacity) -> Judgement:
    """As many pods run as there are instances, on hosts that have them."""
    profile, count = instances(capacity)
    end = seen.last("full")
    if (placed := end.placed("instances")) != count:
        return broken(
            f"{plural(placed, 'pod was', 'pods were')} placed on {plural(count, 'instance')} {profile}"
        )
    strangers = set(end.nodes("instances")) - {n.name for n in capacity.nodes if profile in n.mig}
    if strangers:
        return broken(f"placed on {', '.join(sorted(strangers))}, which have no {profile}")
    return KEPT


def lacks_mig(capacity: Capacity) -> str:
    """Needs MIG instances with resource names of their own, as with strategy mixed."""
    if not instances(capacity)[1]:
        return "no host offers MIG instances by their profile (strategy mixed)"
    return capacity.lacks(gpus=0, hosts=0)


PROMISES = (
    Promise(
        "scheduler.fractions",
        "Two pods share a GPU, a third one waits",
        "All GPUs but one are held. Two pods that request half a GPU must share the last one; a third must wait.",
        lacks_fractions,
        play_fractions,
        judge_fractions,
        "set scheduler.sharing in the site, then appliance deploy --stage scheduler; kubectl get pods -n kai-resource-reservation",
    ),
    Promise(
        "scheduler.memory_cap",
        "A GPU fraction cannot exceed its memory",
        "A pod with half a GPU tries to take three quarters of the GPU's memory with PyTorch, and must be denied.",
        lacks_memory,
        play_memory,
        judge_memory,
        "scheduler.sharing: nvidia limits memory; unenforced does not",
    ),
    Promise(
        "scheduler.mig",
        "MIG instances are assigned to the pods that request them",
        "One pod more than there are instances of a MIG profile: each instance gets one pod, one pod waits.",
        lacks_mig,
        play_mig,
        judge_mig,
        "compare kubectl describe node with appliance mig show",
    ),
)
