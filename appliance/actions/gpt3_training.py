"""What a training must find at the site before it is begun. No host is contacted."""

from collections.abc import Sequence

from appliance.actions.opening import Target, locate
from appliance.actions.recorded_logs import model_named
from appliance.benchmarks.gpt3.launch import GPUS
from appliance.benchmarks.gpt3.trial import SMALL, Request
from appliance.errors import ConfigError
from appliance.models.events import Observer
from appliance.models.gpus import gpu_least
from appliance.models.site import Owner
from appliance.stages.slurm.site import JobContainer
from appliance.text import plural


def asked(
    target: Target,
    model: str | None,
    nodes: Sequence[int],
    observer: Observer,
    way: Owner,
    container: JobContainer | None,
) -> Request:
    """The training that was asked for; ``way``: whose GPU hosts; ``container``: one that was named. Raises ConfigError where the site cannot carry it."""
    small = model is None or model.lower() == SMALL
    image = container.image if container and way is Owner.KUBERNETES else ""
    request = Request(SMALL if small else model_named(model) or SMALL, tuple(nodes), image)
    loaded = locate(target, raise_rack=False, observer=observer)
    site, hosts = loaded.site, len(loaded.site.gpu_hosts_of(way))
    for count in nodes:
        if count > hosts:
            raise ConfigError(
                f"--nodes {count}: {way.title()} has {plural(hosts, 'GPU host')} at site {site.name}",
                "name at most as many; appliance node show says whose each host is",
            )
        if not request.divides(count):
            raise ConfigError(
                f"the global batch of {request.model} does not divide over {plural(count, 'host')}",
                "take 1, 2, 4 or 8 hosts",
            )
    if small:
        return request
    if "gpu" in site.simulated:
        raise ConfigError(
            f"the GPUs of site {site.name} are simulated, and {request.model} is trained on real ones",
            "train the small model: leave --model out",
        )
    if way is Owner.SLURM and site.slurm.containers is None and not container:
        raise ConfigError(
            f"{request.model} is trained in NeMo's container, and site {site.name} has no section slurm.containers",
            "add the section (docs/containers.md) and appliance deploy --stage slurm, or train the small model: leave --model out",
        )
    if (count := gpu_least(loaded.profile, site)) != GPUS:
        raise ConfigError(
            f"the published configuration of {request.model} takes {GPUS} GPUs a host, site {site.name} has {count}",
            "train it by hand and give its logs: appliance validate gpt3 --from-logs DIR",
        )
    return request
