"""Judges one machine without its site: only by checks whose verdict needs nothing but the machine and its class."""

from collections.abc import Iterable

from appliance.adapters.this_machine import ThisMachine
from appliance.checks.causes import explain
from appliance.checks.check import View
from appliance.engine.look.gather import ask
from appliance.engine.look.judge import OF_HARDWARE, judge_host, unread_receipts
from appliance.engine.look.probe_requests import Request
from appliance.errors import ApplianceError
from appliance.models.facts import HostFacts
from appliance.models.profile import Profile
from appliance.models.result import CheckResult, Kind
from appliance.models.site import Role, Site
from appliance.probe.collect import AREAS, NAMED_ONLY
from appliance.stages.base import ids as base
from appliance.stages.base.advisories import PACKAGES
from appliance.stages.base.kernel_log import asked
from appliance.stages.catalog import CAUSES, WATCHED_UNITS
from appliance.stages.fabric import ids as fabric
from appliance.stages.gpu import ids as gpu
from appliance.stages.kubernetes import ids as kubernetes
from appliance.stages.slurm import ids as slurm

OF_ANY = frozenset(
    {
        base.ACCESS,
        base.CLOCK,
        base.DISK,
        base.FAILED_UNITS,
        base.KERNEL_LOG,
        base.MEMORY,
        base.MEMORY_ERRORS,
        base.NVME,
        base.PCIE_ERRORS,
    }
)
OF_CLASS = (OF_HARDWARE - {gpu.VBIOS_SPREAD}) | {
    base.CPU,
    base.MEMORY_SIZE,
    base.NUMA,
    base.PCIE_FIRMWARE,
    base.PCIE_TUNING,
    base.TUNING,
    fabric.ACTIVE,
    fabric.ERRORS,
    fabric.PCIE,
    fabric.PORTS,
    fabric.RATE,
    fabric.STATE,
    gpu.FABRIC_MANAGER,
    gpu.PERSISTENCE,
}
"""Checks that compare the machine with its class, or its GPUs with each other."""
OF_STAGE = {
    "base": frozenset({base.DRIFT, base.WEEKLY}),
    "kubernetes": frozenset({kubernetes.KUBELET, kubernetes.SWAP}),
    "slurm": frozenset({slurm.MUNGE, slurm.WATCH}),
}
"""Checks of a stage, if the machine has its receipt."""
ALONE = frozenset().union(OF_ANY, OF_CLASS, *OF_STAGE.values())
"""Every check that can be judged without a site."""


def facts_of_this_machine(name: str) -> HostFacts:
    """Read this machine. Raises ApplianceError if the probe gives no answer."""
    request: Request = {
        "areas": [area for area in AREAS if area not in NAMED_ONLY],
        "units": list(WATCHED_UNITS),
        "packages": list(PACKAGES),
        "kernel_log": asked(),
    }
    answer = ask(ThisMachine(), name, request)
    if not isinstance(answer, HostFacts):
        raise ApplianceError(f"this machine was not read: {answer.cause}", answer.fix)
    return answer


def is_gpu_host(facts: HostFacts) -> bool:
    """Return whether to judge a machine as a GPU host: all machines but those that were deployed without GPUs.

    A GPU host that has lost every GPU still has the receipt of its stage.
    """
    return "gpu" in facts.receipts or not facts.receipts or facts.pci_gpus != 0


def judge_alone(facts: HostFacts, profile: Profile, ids: Iterable[str]) -> list[CheckResult]:
    """Judge a machine of class ``profile`` by the checks among ``ids`` that need no site."""
    is_gpu = is_gpu_host(facts)
    wanted = OF_ANY | (OF_CLASS if is_gpu else frozenset())
    wanted = wanted.union(*(OF_STAGE.get(stage, frozenset()) for stage in facts.receipts))
    site = Site.model_validate(
        {
            "version": 2,
            "name": facts.host,
            "profile": profile.name,
            "networks": {"management": {"cidr": "127.0.0.0/8"}},
            "hosts": [
                {
                    "name": facts.host,
                    "roles": [Role.GPU if is_gpu else Role.CONTROL],
                    "address": "127.0.0.1",
                }
            ],
        }
    )
    view = View(profile, site, {facts.host: facts})
    asked = frozenset(ids)
    results = judge_host(view, site.hosts[0], wanted & asked)
    # Without receipts it is unknown which stages there are to judge.
    results += unread_receipts(facts, asked & OF_ANY)
    return explain([_with_remedy(result, facts) for result in results], CAUSES)


def _with_remedy(result: CheckResult, facts: HostFacts) -> CheckResult:
    """Add the remedy for what an ordinary user may not read."""
    if result.kind is not Kind.DENIED or result.fix or facts.user == "root":
        return result
    return result.model_copy(update={"fix": "run it as root"})
