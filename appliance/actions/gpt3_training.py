"""What a training must find at the site before it is begun. No host is contacted."""

from collections.abc import Sequence

from appliance.actions.opening import Target, locate
from appliance.actions.recorded_logs import model_named
from appliance.benchmarks.gpt3.launch import GPUS
from appliance.benchmarks.gpt3.reference import load
from appliance.benchmarks.gpt3.trial import SMALL, Framework, Request
from appliance.errors import ConfigError
from appliance.models.events import Observer
from appliance.models.gpus import gpu_least
from appliance.models.profile import Profile
from appliance.models.site import Owner, Site
from appliance.stages.slurm.site import JobContainer
from appliance.text import plural

BYTES = 16
"""Of a weight in single precision, with its gradient and Adam's two moments."""
FREE = 0.75
"""Share of a GPU's memory for these; activations need the rest."""


def asked(
    target: Target,
    model: str | None,
    nodes: Sequence[int],
    observer: Observer,
    way: Owner,
    container: JobContainer | None,
    framework: Framework = Framework.NEMO,
) -> Request:
    """The training that was asked for; ``way``: whose GPU hosts; ``container``: one that was named. Raises ConfigError where the site cannot carry it."""
    small = model is None or model.lower() == SMALL
    image = container.image if container and way is Owner.KUBERNETES else ""
    loaded = locate(target, raise_rack=False, observer=observer)
    site, hosts = loaded.site, len(loaded.site.gpu_hosts_of(way))
    gpus = gpu_least(loaded.profile, site)
    name = SMALL if small else model_named(model) or SMALL
    request = Request(name, tuple(nodes), image, framework)
    each = gpus if framework is Framework.PYTORCH else GPUS
    of_each = "" if small else f" of {plural(each, 'GPU')}"
    for count in nodes:
        if count > hosts:
            raise ConfigError(
                f"--nodes {count}: {way.title()} has {plural(hosts, 'GPU host')} at site {site.name}",
                "name at most as many; appliance node show says whose each host is",
            )
        if not request.divides(count, each):
            raise ConfigError(
                f"the global batch of {request.model} does not divide over {plural(count, 'host')}{of_each}",
                "take 1, 2, 4 or 8 hosts",
            )
    if small and framework is Framework.PYTORCH:
        raise ConfigError(
            "the small model is trained by PyTorch alone anyway", "leave --framework out"
        )
    if small:
        return request
    if "gpu" in site.simulated:
        raise ConfigError(
            f"the GPUs of site {site.name} are simulated, and {request.model} is trained on real ones",
            "train the small model: leave --model out",
        )
    if framework is Framework.PYTORCH:
        _refuse_alone(request, loaded.profile, way)
    else:
        contained = way is Owner.KUBERNETES or site.slurm.containers or container
        _refuse_nemo(request, site, gpus, contained=bool(contained))
    _refuse_none(request, site, way, each)
    return request


def _refuse_nemo(request: Request, site: Site, gpus: int, *, contained: bool) -> None:
    """What NeMo's container does not train. Raises ConfigError."""
    if not contained:
        raise ConfigError(
            f"{request.model} is trained in NeMo's container, and site {site.name} has no section slurm.containers",
            "add the section (docs/containers.md) and appliance deploy --stage slurm, or train the small model: leave --model out",
        )
    if gpus != GPUS:
        raise ConfigError(
            f"the published configuration of {request.model} takes {GPUS} GPUs a host, site {site.name} has {gpus}",
            "train 126M with what the hosts have: --model 126m --framework pytorch; or give logs of your own: --from-logs DIR",
        )


def _refuse_none(request: Request, site: Site, way: Owner, gpus: int) -> None:
    """What would train on no host at all, and end well. Raises ConfigError."""
    hosts = len(site.gpu_hosts_of(way))
    if not hosts and way is Owner.SLURM:
        raise ConfigError(
            f"Slurm has no GPU host at site {site.name}, so nothing would be trained",
            "appliance node assign HOST slurm; or train through the other: --through kubernetes",
        )
    if hosts and not any(request.divides(count, gpus) for count in range(1, hosts + 1)):
        raise ConfigError(
            f"the global batch of {request.model} does not divide over hosts of {plural(gpus, 'GPU')}",
            "give logs of your own: appliance validate gpt3 --from-logs DIR",
        )


def _refuse_alone(request: Request, profile: Profile, way: Owner) -> None:
    """What PyTorch alone does not train. Raises ConfigError."""
    if way is not Owner.SLURM:
        raise ConfigError(
            "PyTorch alone trains through Slurm", "leave out --framework, or --through kubernetes"
        )
    gpu = profile.hardware.gpu
    takes = load().models[request.model].parameters * BYTES / (1 << 30)
    if takes > gpu.memory_gib * FREE:
        raise ConfigError(
            f"PyTorch alone keeps all of {request.model} on each GPU, {takes:.0f} GiB with its optimizer, and a GPU has {gpu.memory_gib}",
            "take --model 126m, or NeMo, which shares it out: leave --framework out",
        )
