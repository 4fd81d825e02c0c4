"""Requirements of a training, checked before it is started. Contacts no host."""

from collections.abc import Sequence

from appliance.actions.benchmarks.gpt3_logs import model_named
from appliance.actions.sites.opening import Target, locate
from appliance.benchmarks.gpt3.launch import GPUS
from appliance.benchmarks.gpt3.reference import load
from appliance.benchmarks.gpt3.trial import SMALL, Framework, Request
from appliance.errors import ConfigError
from appliance.models.events import Observer
from appliance.models.gpu_counts import gpu_least
from appliance.models.profile import Profile
from appliance.models.site import Owner, Site
from appliance.stages.slurm.site import JobContainer
from appliance.text import plural

BYTES = 16
"""Bytes of a weight in single precision, with its gradient and Adam's two moments."""
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
    """The requested training; ``way``: the scheduler of its GPU hosts; ``container``: the one given. Raises ConfigError if the site does not support it."""
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
                "use a smaller number; to see the owner of each host: appliance node show",
            )
        if not request.divides(count, each):
            raise ConfigError(
                f"the global batch of {request.model} is not divisible by {plural(count, 'host')}{of_each}",
                "use 1, 2, 4 or 8 hosts",
            )
    if small and framework is Framework.PYTORCH:
        raise ConfigError(
            "the small model is always trained with PyTorch alone", "remove --framework"
        )
    if small:
        return request
    if "gpu" in site.simulated:
        raise ConfigError(
            f"the GPUs of site {site.name} are simulated, but {request.model} needs real ones",
            "train the small model: remove --model",
        )
    if framework is Framework.PYTORCH:
        _refuse_alone(request, loaded.profile, way)
    else:
        contained = way is Owner.KUBERNETES or site.slurm_options.containers or container
        _refuse_nemo(request, site, gpus, contained=bool(contained))
    _refuse_none(request, site, way, each)
    return request


def _refuse_nemo(request: Request, site: Site, gpus: int, *, contained: bool) -> None:
    """Trainings that NeMo's container does not support. Raises ConfigError."""
    if not contained:
        raise ConfigError(
            f"{request.model} is trained in NeMo's container, but site {site.name} has no section slurm.containers",
            "add the section (docs/containers.md) and run appliance deploy --stage slurm, or train the small model: remove --model",
        )
    if gpus != GPUS:
        raise ConfigError(
            f"the published configuration of {request.model} needs {GPUS} GPUs per host, but site {site.name} has {gpus}",
            "train 126M with the hosts' software: --model 126m --framework pytorch; or judge your own logs: appliance validate gpt3-logs DIR",
        )


def _refuse_none(request: Request, site: Site, way: Owner, gpus: int) -> None:
    """Trainings without any host, which would end without an error. Raises ConfigError."""
    hosts = len(site.gpu_hosts_of(way))
    if not hosts and way is Owner.SLURM:
        raise ConfigError(
            f"Slurm has no GPU host at site {site.name}, so nothing would be trained",
            "appliance node assign HOST slurm; or use Kubernetes: --through kubernetes",
        )
    if hosts and not any(request.divides(count, gpus) for count in range(1, hosts + 1)):
        raise ConfigError(
            f"the global batch of {request.model} is not divisible by hosts of {plural(gpus, 'GPU')}",
            "judge your own logs: appliance validate gpt3-logs DIR",
        )


def _refuse_alone(request: Request, profile: Profile, way: Owner) -> None:
    """Trainings that PyTorch alone does not support. Raises ConfigError."""
    if way is not Owner.SLURM:
        raise ConfigError(
            "PyTorch alone trains only through Slurm", "remove --framework, or --through kubernetes"
        )
    gpu = profile.hardware.gpu
    takes = load().models[request.model].parameters * BYTES / (1 << 30)
    if takes > gpu.memory_gib * FREE:
        raise ConfigError(
            f"PyTorch alone keeps all of {request.model} on each GPU, {takes:.0f} GiB with its optimizer, but a GPU has {gpu.memory_gib}",
            "use --model 126m, or NeMo, which distributes the model: remove --framework",
        )
