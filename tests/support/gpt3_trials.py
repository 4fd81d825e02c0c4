"""Gpt3 trials, as several test modules use it."""

from appliance.benchmarks.gpt3 import launch
from appliance.checks.check import View
from tests.support.facts import facts_of, gpus_of
from tests.support.gpt3_logs import megatron
from tests.support.gpt3_runs import IMAGE, view

GPU = "NVIDIA A100-SXM4-80GB"


def steps_of(seconds: float) -> list[float]:
    """As many as a training on GPUs has, whose counted ones average to ``seconds``."""
    start = [seconds * (2 - 0.2 * i) for i in range(5)]
    return start + [seconds * (1 + 0.01 * (i % 3 - 1)) for i in range(launch.STEPS - 5)]


def log_of(seconds: float) -> str:
    return megatron(steps_of(seconds), 2048).decode()


def real(hosts: int = 1) -> View:
    """GPU hosts that say what they have."""
    seen = view(hosts, simulated=False, container=IMAGE)
    told = {f"gpu-{n}": facts_of(f"gpu-{n}", gpus=gpus_of(GPU, 8)) for n in range(1, hosts + 1)}
    return View(seen.profile, seen.site, {**seen.facts, **told})
