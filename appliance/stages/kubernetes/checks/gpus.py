"""Checks the allocatable GPUs of each host, and the chart that provides them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from appliance.checks.causes import UNASKED, Cause, Reach, no_value
from appliance.checks.check import (
    CONTROL_HOSTS,
    GPU_HOSTS,
    Check,
    ClusterCheck,
    HostCheck,
    View,
    failed,
    not_assessed,
    passed,
)
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement
from appliance.models.site import Host, Owner, Role
from appliance.stages.gpu import ids as gpu_ids
from appliance.stages.gpu.facts import Gpus
from appliance.stages.kubernetes import ids
from appliance.stages.kubernetes.causes import FULL, NO_API
from appliance.stages.kubernetes.charts import Release, mig_strategy, releases
from appliance.stages.kubernetes.facts import ReleasePod
from appliance.stages.scheduler.checks import judge_pods, judge_releases

GPU = "gpu"
"""Resource name of a whole GPU, after nvidia.com/."""
OWN = "kubernetes.device_plugin: own"


def wanted(view: View) -> tuple[Release, ...]:
    """Return the chart that provides the GPUs of the site's cluster."""
    return releases(view.site, view.profile)


def _releases(view: View, host: Host, facts: HostFacts) -> Iterator[Judgement]:
    """Judge the chart by the answer of the first control host, which installs it."""
    if host.name == view.site.with_role(Role.CONTROL)[0].name:
        known = View(view.profile, view.site, {host.name: facts})
        yield from judge_releases(known, wanted(view))


def _pods(view: View) -> Iterator[Judgement]:
    return judge_pods(view, wanted(view))


def _gpus(view: View, host: Host, facts: HostFacts) -> Iterator[Judgement]:
    if view.site.owner(host) is not Owner.KUBERNETES:
        return
    known, gpus = facts.kubernetes, facts.gpus
    if known is None:
        yield not_assessed(host.name, facts.gap("kubernetes", f"{host.name} has no kubelet"))
    elif known.gives is None:
        none = "the allocatable devices of this host were not read"
        yield not_assessed(host.name, facts.gap("kubernetes", none))
    elif gpus is None or all(gpu.error for gpu in gpus.devices):
        why = facts.gap("gpus", f"the driver reaches no GPU of {host.name}")
        yield not_assessed(host.name, why)
    elif any(g.mig_enabled and g.mig is None and not g.error for g in gpus.devices):
        cause = f"the MIG devices of {host.name} were not read"
        yield not_assessed(host.name, cause)
    else:
        yield _offered(view, host, gpus, known.gives, known.plugins or ())


def _offered(
    view: View,
    host: Host,
    gpus: Gpus,
    gives: Mapping[str, int],
    plugins: tuple[ReleasePod, ...],
) -> Judgement:
    """Return the number of offered GPUs: with strategy mixed, instances have their own names; with single, they count as GPUs.

    A GPU that the driver cannot reach is a fault of the machine (gpu.error), and no pod should get it.
    """
    reached = [gpu for gpu in gpus.devices if not gpu.error]
    whole = sum(1 for gpu in reached if not gpu.mig_enabled)
    cut = Counter(
        "mig-" + part.profile.replace("+", ".")
        for gpu in reached
        if gpu.mig_enabled
        for part in gpu.mig or ()
    )
    if mig_strategy(view.site) == "mixed":
        there, offered = {GPU: whole, **cut}, dict(gives)
    else:
        there, offered = {GPU: whole + cut.total()}, {GPU: gives.get(GPU, 0)}
    told: dict[str, Any] = {"value": _listed(offered), "limit": _listed(there)}
    has = _listed(there)
    if len(there) == len(offered) == 1:
        has = str(there[GPU])
        told = {"value": offered[GPU], "limit": there[GPU], "unit": "GPUs"}
    if offered == there:
        return passed(host.name, **told)
    cause = f"the cluster offers {_listed(offered)}, the host has {has}"
    dead = sum(offered.values()) > sum(there.values())
    why, fix = _remedy(view, host, plugins, none=not any(offered.values()), dead=dead)
    return failed(host.name, f"{cause}: {why}" if why else cause, fix, **told)


def _remedy(
    view: View, host: Host, plugins: tuple[ReleasePod, ...], *, none: bool, dead: bool
) -> tuple[str, str]:
    """Return the cause shown by a pod, and the command that shows it."""
    release = next(iter(wanted(view)), None)
    given = view.site.kubernetes
    if release is None or (given is not None and given.device_plugin == "own"):
        look = f"start the site's own device plugin on {host.name} ({OWN}), then appliance deploy"
        return ("no device plugin has registered" if none else ""), look
    space = release.namespace
    here = f"-n {space} get pods -o wide --field-selector spec.nodeName={host.name}"
    waiting = next((p for p in plugins if p.namespace == space and not p.ready), None)
    if waiting:
        why = f"pod {waiting.name} is not ready ({waiting.reason})"
        return why, f"kubectl -n {space} describe pod {waiting.name}, then appliance deploy"
    if none and not any(p.namespace == space for p in plugins):
        why = f"no pod of {release.name} runs there"
        return why, f"kubectl -n {space} get pods,daemonsets -o wide, then appliance deploy"
    why = "the device plugin has not registered " + ("one" if none else "all of them")
    why = "pods can get GPUs that the driver cannot reach" if dead else why
    return (
        why,
        f"kubectl {here}; delete its pod there, because it counts the GPUs only when it starts",
    )


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[name]} nvidia.com/{name}" for name in sorted(counts))


CHECKS: tuple[Check, ...] = (
    HostCheck(
        ids.RELEASES,
        "The chart that provides GPUs is installed at its pinned version",
        CONTROL_HOSTS,
        _releases,
        "The GPU Operator, or NVIDIA's device plugin without it (kubernetes.device_plugin), is a Helm release. It must be deployed at the "
        "version in appliance/stages/kubernetes/charts.yml. Pending means that an installation was interrupted.",
        "the pinned version of the release line the site or its profile chose",
        causes=(UNASKED, NO_API, FULL),
    ),
    ClusterCheck(
        ids.GPU_PODS,
        "The pods that provide GPUs are ready",
        _pods,
        "All pods in the namespace of the release, including those that the operator creates. Usual causes of a pod that is not ready: its "
        "image cannot be pulled, no host has room for it, or it waits for a driver.",
        causes=(
            UNASKED,
            NO_API,
            FULL,
            Cause(ids.RELEASES, "what is not installed has no pods", Reach.SITE),
        ),
    ),
    HostCheck(
        ids.GPUS,
        "The cluster offers every GPU",
        GPU_HOSTS,
        _gpus,
        "The device plugin registers the GPUs of a host with kubelet, and only these can be scheduled. Each host reads the allocatable "
        "devices of its own node and compares them with the GPUs and MIG devices that the driver lists. Usual causes of a difference: the "
        "device plugin does not run there, or it started before the driver was ready. The stage is not finished on a host where this is not "
        "assessed.",
        "GPUs that the driver reaches on the host",
        must_know=True,
        causes=(
            NO_API,
            FULL,
            Cause(ids.NODES, "a node that is not ready offers nothing"),
            Cause(ids.KUBELET, "the device plugin registers with kubelet"),
            Cause(gpu_ids.COUNT, "the device plugin offers the previous GPUs"),
            Cause(gpu_ids.ERROR, "the device plugin does not offer lost GPUs"),
            Cause(gpu_ids.DRIVER, "without a driver the device plugin finds no GPU", when=no_value),
            Cause(ids.RELEASES, "the chart installs the device plugin", Reach.SITE),
            Cause(ids.GPU_PODS, "the device plugin is a pod of this chart", Reach.SITE),
        ),
    ),
)
