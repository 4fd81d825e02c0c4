"""The gates of loading models: the limits that profile or site set, on the first GPU host and each place."""

from collections.abc import Iterator, Mapping

from appliance.benchmarks.benchmark import Requirement, per_host
from appliance.checks.check import View
from appliance.models.acceptance import Level
from appliance.models.site import Role

TENSORS, SPEEDUP, SHARE = "model_load.tensors", "model_load.speedup", "model_load.share"
TITLES: Mapping[str, str] = {
    SPEEDUP: "Model Streamer against safetensors",
    SHARE: "Model Streamer against the storage's own rate",
}
STAGES = ("storage",)


def places(view: View) -> tuple[str, ...]:
    """All storage that models are loaded from: local scratch, and every mount."""
    storage = view.site.storage
    local = (storage.scratch.at,) if storage.scratch else ()
    return (*local, *(mount.at for mount in storage.mounts))


def part(at: str) -> str:
    """The notation of a place in results."""
    return at.strip("/") or "/"


def gates(view: View) -> tuple[Requirement, ...]:
    """One per limit; none where neither site nor profile sets one."""
    return tuple(_gates(view))


def _gates(view: View) -> Iterator[Requirement]:
    hosts = [host.name for host in view.site.with_role(Role.GPU)[:1]]
    found = [part(at) for at in places(view)]
    for check, title in TITLES.items():
        limit = view.limit(check)
        if limit is not None and hosts and found:
            yield Requirement(
                id=check,
                title=title,
                level=Level.STORAGE,
                benchmark="model-load",
                check=check,
                targets=per_host(hosts, *found),
                also=(TENSORS,),
                close="appliance validate model-load",
                limit=limit,
                stages=STAGES,
                of_gpus=False,
            )
