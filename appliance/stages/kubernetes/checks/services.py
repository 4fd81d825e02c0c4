"""Services that a cluster needs in addition to kubelet and API: without them, running pods continue, but nothing new starts."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from appliance.checks.causes import Cause, is_of, on
from appliance.checks.check import Check, HostCheck, View, failed, not_assessed, passed
from appliance.models.facts import HostFacts
from appliance.models.result import Judgement, place
from appliance.models.site import Host, Role
from appliance.stages.base.causes import FULL_DISK, unit_failed
from appliance.stages.kubernetes import checks as kubernetes
from appliance.stages.kubernetes import ids
from appliance.stages.kubernetes.causes import EXPIRED, FULL, NO_SPARE, WRONG_TIME

RUNTIME = "containerd"
EVERYWHERE = ("kube-proxy",)
OF_CONTROL = ("kube-scheduler", "kube-controller-manager")
WITHOUT: Mapping[str, str] = {
    RUNTIME: "no pod starts or stops on this host",
    "kube-proxy": "changes of services do not reach this host",
    "kube-scheduler": "no pod is scheduled",
    "kube-controller-manager": "no pods are created or replaced",
}


def judge_services(view: View, host: Host, facts: HostFacts) -> Iterator[Judgement]:
    """containerd by its unit, the others by /healthz."""
    yield _runtime(host, facts)
    known = facts.kubernetes
    for name in EVERYWHERE + (OF_CONTROL if Role.CONTROL in host.roles else ()):
        target = place(host.name, name)
        said = known.services.get(name) if known else None
        if said is None:
            why = facts.gap("kubernetes", "it was not queried")
            yield not_assessed(target, why if known else f"{host.name} has no kubelet")
        elif said == "ok":
            yield passed(target, "ok", evidence="/healthz")
        else:
            cause = f"{said}: {WITHOUT[name]}"
            silent = kubernetes.silent_members(view) if name in OF_CONTROL else ()
            yield failed(target, cause, _fix(name, host), names=silent)


def _runtime(host: Host, facts: HostFacts) -> Judgement:
    unit, target = facts.units.get(f"{RUNTIME}.service"), place(host.name, RUNTIME)
    if unit is None:
        return not_assessed(target, facts.gap("units", "its unit was not read"))
    if unit.active == "active":
        return passed(target, unit.active)
    cause = f"the unit is {unit.active}: {WITHOUT[RUNTIME]}"
    fix = f"journalctl -u {RUNTIME} on {host.name} shows why; {kubernetes.DEPLOY} starts it"
    return failed(target, cause, fix)


def _fix(name: str, host: Host) -> str:
    if name in EVERYWHERE:
        return f"kubectl -n kube-system get pods -l k8s-app={name} -o wide, and the log of the one on {host.name}"
    phase = name.removeprefix("kube-")
    return (
        f"on {host.name}: crictl ps -a and journalctl -u kubelet; without /etc/kubernetes/manifests/{name}.yaml: "
        f"kubeadm init phase control-plane {phase} --config /etc/kubernetes/appliance/kubeadm.yml"
    )


CHECKS: tuple[Check, ...] = (
    HostCheck(
        ids.SERVICES,
        "containerd, kube-proxy, scheduler and controller manager are healthy",
        kubernetes.MEMBERS,
        judge_services,
        "Running pods continue without these services, and the API answers, so such a cluster looks healthy although nothing new happens. "
        "containerd must be active on each host, and kube-proxy must report that it follows the services. On each control host, the "
        "scheduler and the controller manager must report that they are healthy. Usual causes: a static pod's manifest was moved or is "
        "invalid, a certificate has expired, or an image is missing after an upgrade.",
        causes=(
            replace(FULL, when=on(*OF_CONTROL)),
            Cause(
                ids.API,
                "they stop if they cannot renew their lease in the API",
                when=on(*OF_CONTROL),
            ),
            WRONG_TIME,
            EXPIRED,
            FULL_DISK,
            NO_SPARE,
        ),
        explains=(unit_failed("containerd", when=is_of("containerd")),),
    ),
)
