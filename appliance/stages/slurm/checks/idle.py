"""Checks that GPUs of a host without jobs are idle; memory in use then belongs to no job."""

from collections.abc import Iterable

from appliance.checks.causes import UNASKED, Cause, is_unknown
from appliance.checks.check import (
    GPU_HOSTS,
    Check,
    HostCheck,
    Nature,
    View,
    failed,
    not_assessed,
    passed,
)
from appliance.models.bound import Bound
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement, place
from appliance.models.site import Host, Owner
from appliance.stages.gpu import ids as gpu_ids
from appliance.stages.gpu.facts import Gpu
from appliance.stages.slurm import ids
from appliance.stages.slurm.causes import NO_CONTROLLER
from appliance.stages.slurm.checks import AT_WORK, listed_by, state_words

GIB = 1 << 30
MOST_GIB = 2.0
SOURCE = "own choice: above the use of the driver and monitoring"


def judge_idle(view: View, host: Host, facts: HostFacts) -> Iterable[Judgement]:
    """Judge memory and processes of GPUs without jobs. Divided GPUs (MIG) report memory by instance, and are not checked."""
    if view.site.owner(host) is not Owner.SLURM:
        return []
    simulated = "gpu" in facts.simulated
    nodes, why = listed_by(view)
    node = nodes.get(host.name) if nodes else None
    if node is None:
        none = f"Slurm does not list {host.name}" if nodes is not None else why
        return [not_assessed(host.name, none, required=False, simulated=simulated)]
    if not AT_WORK.isdisjoint(state_words(node.state)):
        return [passed(host.name, evidence="jobs run on the host", simulated=simulated)]
    gpus = [gpu for gpu in (facts.gpus.devices if facts.gpus else ()) if not gpu.mig_enabled]
    known = [gpu for gpu in gpus if gpu.memory_used is not None]
    if not known:
        none = "the memory in use was not read"
        return [
            not_assessed(host.name, facts.gap("gpus", none), required=False, simulated=simulated)
        ]
    own = view.number(ids.IDLE_GPUS)
    most, source = own or (MOST_GIB, SOURCE)
    held = [gpu for gpu in known if (gpu.memory_used or 0) > most * GIB]
    if not held:
        return [passed(host.name, limit=most, unit="GiB", limit_source=source, simulated=simulated)]
    return [_held(host, gpu, most, source, simulated) for gpu in held]


def _held(host: Host, gpu: Gpu, most: float, source: str, simulated: bool) -> Judgement:
    used = round((gpu.memory_used or 0) / GIB, 1)
    busy = f", and it is {gpu.utilization} % busy" if gpu.utilization else ""
    count = f" by {gpu.processes} processes" if gpu.processes else ""
    return failed(
        place(host.name, f"GPU {gpu.index}"),
        f"{used:g} GiB of its memory are in use{count}{busy}, and no job runs on {host.name}",
        f"on {host.name}: nvidia-smi -i {gpu.index} lists the processes, ps -o pid,user,args -p PID their users; if they belong to no job: "
        f"kill PID; without one: nvidia-smi --gpu-reset -i {gpu.index}",
        value=used,
        unit="GiB",
        limit=most,
        limit_source=source,
        simulated=simulated,
    )


CHECKS: tuple[Check, ...] = (
    HostCheck(
        ids.IDLE_GPUS,
        "No GPU is used without a job",
        GPU_HOSTS,
        judge_idle,
        "GPU memory in use on a host without Slurm jobs. A process that outlived its job, or was started outside Slurm, uses memory that "
        "the next job needs. Hosts of Kubernetes are not checked.",
        limit="2 GiB in use of a GPU (own choice)",
        bound=Bound("GiB", most=1024),
        nature=Nature.SYMPTOM,
        causes=(
            UNASKED,
            NO_CONTROLLER,
            Cause(gpu_ids.DRIVER, "without a driver GPUs are unknown", when=is_unknown),
        ),
    ),
)
