"""The gates of serving: the limits that profile or site set."""

from collections.abc import Iterator, Mapping

from appliance.benchmarks.benchmark import Requirement, gpu_models, of_cluster
from appliance.checks.check import View
from appliance.models.acceptance import Level
from appliance.models.bound import Bound
from appliance.models.site import Role

ANSWERS, THROUGHPUT = "serving.answers", "serving.throughput"
TTFT, TPOT = "serving.ttft_p99", "serving.tpot_p99"
CHECKS = (ANSWERS, THROUGHPUT, TTFT, TPOT)
BOUNDS: Mapping[str, Bound] = {
    THROUGHPUT: Bound("tokens/s", above=0),
    TTFT: Bound("ms", above=0),
    TPOT: Bound("ms", above=0),
}
TITLES = {
    THROUGHPUT: "Output tokens per second of a served model",
    TTFT: "Time to the first token, 99th percentile",
    TPOT: "Time per output token, 99th percentile",
}
STAGES = ("gpu", "mig", "workloads")


def gates(view: View) -> tuple[Requirement, ...]:
    """One per limit; none where neither site nor profile sets one."""
    return tuple(_gates(view))


def _gates(view: View) -> Iterator[Requirement]:
    hosts = [host.name for host in view.site.with_role(Role.GPU)]
    for check, title in TITLES.items():
        limit = view.limit(check)
        if limit is not None:
            yield Requirement(
                id=check,
                title=title,
                level=Level.SERVING,
                benchmark="serving",
                check=check,
                targets=of_cluster(hosts),
                also=(ANSWERS,),
                close="appliance validate serving --endpoint URL",
                limit=limit,
                stages=STAGES,
                gpus=gpu_models(view),
            )
