"""CNCF's AI conformance for a cluster (checklist of Kubernetes 1.35): tests what can be tested, and lists what is
missing.
The checklist's text is not included: copy it from its repository for a submission, by the ids below.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from appliance.acceptance import access, gpus, placement, trial
from appliance.acceptance.capacity import MIG, Capacity
from appliance.acceptance.promise import Promise
from appliance.acceptance.sandbox import Clock, ClusterClient, Settings, clean, survey
from appliance.adapters.prometheus import REACHED
from appliance.checks.check import judged
from appliance.errors import ApplianceError
from appliance.models.result import CLUSTER, CheckResult, Status

PREFIX = "conformance."


class Level(StrEnum):
    """Level of a requirement."""

    MUST = "MUST"
    SHOULD = "SHOULD"


class Outcome(StrEnum):
    """The checklist's words; OPEN if it could not be shown."""

    IMPLEMENTED = "Implemented"
    PARTLY = "Partially Implemented"
    MISSING = "Not Implemented"
    NOT_APPLICABLE = "N/A"
    OPEN = ""


@dataclass(frozen=True)
class RequirementResult:
    """Result of a requirement. ``notes``: the reason, or how it was shown; ``fix``: what to do if it is missing."""

    outcome: Outcome
    notes: str
    fix: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)


class ServingCluster(access.Hearing, Protocol):
    """What the trials need of a cluster; all methods raise ApplianceError with a remedy."""

    def served(self, group: str) -> tuple[str, ...]:
        """Return the versions of an API group that the server serves, its preferred one first; empty if it has none."""
        ...

    def version(self) -> str:
        """Return the server's release, such as v1.35.4."""
        ...


@dataclass(frozen=True)
class Bench:
    """Tools of a trial. ``series``: queries Prometheus, if one was named; ``workloads``: tries the site's add-ons."""

    cluster: ServingCluster
    clock: Clock
    settings: Settings
    capacity: Capacity
    series: Callable[[str], bool] | None
    workloads: Callable[[], Iterable[CheckResult]]


@dataclass(frozen=True)
class Requirement:
    """One line of the checklist. ``area``: its section there."""

    id: str
    area: str
    level: Level
    title: str
    show: Callable[[Bench], RequirementResult]


@dataclass(frozen=True)
class Entry:
    """A requirement and its result."""

    requirement: Requirement
    shown: RequirementResult

    @property
    def result(self) -> CheckResult:
        """Return the verdict in the program's own form: a missing MUST fails, a missing SHOULD warns."""
        must = self.requirement.level is Level.MUST
        status = {
            Outcome.IMPLEMENTED: Status.PASS,
            Outcome.PARTLY: Status.NOT_ASSESSED,
            Outcome.MISSING: Status.FAIL if must else Status.WARN,
            Outcome.NOT_APPLICABLE: Status.SKIP,
            Outcome.OPEN: Status.NOT_ASSESSED,
        }[self.shown.outcome]
        told = {"evidence" if status is Status.PASS else "cause": self.shown.notes}
        fix = "" if status in {Status.PASS, Status.SKIP} else self.shown.fix
        return judged(CLUSTER, status, fix=fix, **told).of(f"{PREFIX}{self.requirement.id}")


def run(
    cluster: ServingCluster,
    clock: Clock,
    settings: Settings,
    *,
    series: Callable[[str], bool] | None = None,
    workloads: Callable[[], Iterable[CheckResult]] = tuple,
    told: Callable[[Requirement], None] = lambda _: None,
) -> Iterator[Entry]:
    """Yield each requirement with its result; the cluster is left clean. Raises ApplianceError if the cluster does not answer."""
    clean(cluster)
    capacity = survey(cluster, settings, metrics=series is not None)
    bench = Bench(cluster, clock, settings, capacity, series, workloads)
    try:
        for requirement in REQUIREMENTS:
            told(requirement)
            try:
                shown = requirement.show(bench)
            except ApplianceError as error:
                shown = RequirementResult(Outcome.OPEN, error.message, error.hint)
            yield Entry(requirement, shown)
    finally:
        clean(cluster)


def _dra(bench: Bench) -> RequirementResult:
    group = "resource.k8s.io"
    versions = bench.cluster.served(group)
    if "v1" not in versions:
        fix = "Kubernetes 1.34 and newer serve it unless it is switched off: kubernetes.version in the site"
        return RequirementResult(Outcome.MISSING, f"the API server serves no {group}/v1", fix)
    classes = _names(bench.cluster, f"{group}/v1", "DeviceClass")
    slices = _names(bench.cluster, f"{group}/v1", "ResourceSlice")
    found = {"versions": versions, "device classes": classes, "resource slices": slices}
    said = f"{group}/v1 is served"
    if not slices:
        fix = "install a DRA driver (NVIDIA's DRA driver for GPUs), then test a resource claim"
        return RequirementResult(Outcome.PARTLY, f"{said}; no driver publishes devices", fix, found)
    fix = "create a resource claim by hand and save the output of kubectl describe: this test creates none"
    return RequirementResult(
        Outcome.PARTLY, f"{said}; drivers publish {len(slices)} lists", fix, found
    )


def _driver(bench: Bench) -> RequirementResult:
    labels = {
        node.name: sorted(label for label in node.labels if "nvidia.com/cuda.driver" in label)
        for node in bench.capacity.gpu_nodes
    }
    policies = bench.cluster.find("nvidia.com/v1", "ClusterPolicy", "")
    states = [p.get("status", {}).get("state", "") for p in policies]
    found = {"labels by host": labels, "states of the GPU Operator": states}
    if not labels:
        return RequirementResult(Outcome.OPEN, "the cluster has no GPU host", "")
    if "ready" in states and all(labels.values()):
        said = (
            "the GPU Operator is ready, and the labels of each GPU host contain its driver version"
        )
        return RequirementResult(Outcome.IMPLEMENTED, said, evidence=found)
    said = "stage gpu keeps one driver version on all hosts, and health checks it: appliance health --check gpu"
    fix = "with the GPU Operator and GPU feature discovery, hosts also have labels with their driver version"
    return RequirementResult(Outcome.PARTLY, said, fix, found)


def _sharing(bench: Bench) -> RequirementResult:
    mig = {n.name: dict(n.mig) for n in bench.capacity.nodes if n.mig}
    chosen = [p for p in gpus.PROMISES if p.id in {"scheduler.fractions", "scheduler.mig"}]
    verdicts = _tried(bench, chosen)
    found = {"instances by host": mig, "verdicts": _verdict_rows(verdicts)}
    kept = [v.id for v in verdicts if v.status is Status.PASS]
    if kept:
        return RequirementResult(Outcome.IMPLEMENTED, f"kept: {', '.join(kept)}", evidence=found)
    lost = [v for v in verdicts if v.status is Status.FAIL]
    if lost:
        return RequirementResult(
            Outcome.MISSING, f"{lost[0].id}: {lost[0].cause}", str(lost[0].fix), found
        )
    fix = f"declare node_pools with mig, or scheduler.sharing; hosts offer {MIG}PROFILE then"
    return RequirementResult(Outcome.MISSING, "no GPU is shared on this cluster", fix, found)


def _virtual(bench: Bench) -> RequirementResult:
    del bench
    return RequirementResult(
        Outcome.NOT_APPLICABLE, "hosts are bare metal; GPUs are not virtualised"
    )


def _inference(bench: Bench) -> RequirementResult:
    group = "gateway.networking.k8s.io"
    versions = bench.cluster.served(group)
    if not versions:
        fix = "install the Gateway API's definitions with an implementation (Cilium, Envoy Gateway, kgateway)"
        return RequirementResult(Outcome.MISSING, f"the API server serves no {group}", fix)
    classes = bench.cluster.find(f"{group}/v1", "GatewayClass", "")
    taken = [c["metadata"]["name"] for c in classes if _accepted(c)]
    found = {"versions": versions, "accepted classes": taken}
    if not taken:
        fix = "kubectl describe gatewayclass: no controller has accepted one"
        return RequirementResult(
            Outcome.MISSING, "the Gateway API has no implementation", fix, found
        )
    said = f"class {taken[0]} is accepted; no request was split by weight or header"
    return RequirementResult(
        Outcome.PARTLY, said, "split requests by hand and save the counts", found
    )


def _gangs(bench: Bench) -> RequirementResult:
    (verdict,) = _tried(bench, [p for p in placement.PROMISES if p.id == "scheduler.gang"])
    found = {"verdicts": _verdict_rows([verdict])}
    if verdict.status is Status.PASS:
        said = f"all pods of a group start together or none does ({verdict.evidence})"
        return RequirementResult(Outcome.IMPLEMENTED, said, evidence=found)
    outcome = Outcome.MISSING if verdict.status is Status.FAIL else Outcome.OPEN
    return RequirementResult(outcome, str(verdict.cause), str(verdict.fix), found)


def _hosts(bench: Bench) -> RequirementResult:
    del bench
    return RequirementResult(
        Outcome.NOT_APPLICABLE, "the number of hosts is fixed; no autoscaler is offered"
    )


def _pods(bench: Bench) -> RequirementResult:
    groups = ("autoscaling", "metrics.k8s.io", "custom.metrics.k8s.io")
    found = {group: bench.cluster.served(group) for group in groups}
    if not found["custom.metrics.k8s.io"]:
        said = "the HorizontalPodAutoscaler has no metrics of GPUs: custom.metrics.k8s.io is not served"
        fix = "install an adapter of Prometheus for custom metrics, and dcgm-exporter for those of GPUs"
        return RequirementResult(Outcome.MISSING, said, fix, found)
    said = "custom metrics are served; no autoscaler was tested under load"
    return RequirementResult(
        Outcome.PARTLY, said, "test one under load by hand and save its events", found
    )


def _metrics(bench: Bench) -> RequirementResult:
    if bench.series is None:
        fix = f"name the Prometheus that has the metrics: {REACHED}"
        return RequirementResult(Outcome.OPEN, "no Prometheus is available", fix)
    total = bench.capacity.gpus
    if not total:
        return RequirementResult(Outcome.OPEN, "the cluster has no GPU", "")
    asked = {
        "use": "DCGM_FI_DEV_GPU_UTIL",
        "memory": "DCGM_FI_DEV_FB_USED",
        "temperature": "DCGM_FI_DEV_GPU_TEMP",
        "power": "DCGM_FI_DEV_POWER_USAGE",
    }
    seen = {
        name: bench.series(f"count(count by (instance, gpu) ({metric})) >= {total}")
        for name, metric in asked.items()
    }
    found = {"GPUs of the cluster": total, "series of all GPUs": seen, "metrics": asked}
    if missing := [name for name in ("use", "memory") if not seen[name]]:
        said = f"Prometheus has no {' and '.join(missing)} of each of the {total} GPUs"
        fix = "let dcgm-exporter run on every GPU host: the GPU Operator's, or stage observe's"
        return RequirementResult(Outcome.MISSING, said, fix, found)
    return RequirementResult(
        Outcome.IMPLEMENTED, f"use and memory of each of {total} GPUs in Prometheus", evidence=found
    )


def _service_metrics(bench: Bench) -> RequirementResult:
    known = _names(bench.cluster, "apiextensions.k8s.io/v1", "CustomResourceDefinition")
    monitors = [n for n in known if n.endswith("monitors.monitoring.coreos.com")]
    found = {"definitions": monitors}
    if not monitors:
        said = "no monitoring in the cluster discovers endpoints of workloads (PodMonitor, ServiceMonitor)"
        fix = "install the Prometheus Operator; the appliance's own Prometheus scrapes only the platform"
        return RequirementResult(Outcome.MISSING, said, fix, found)
    said = "monitors of workloads can be declared; none was tested"
    return RequirementResult(
        Outcome.PARTLY, said, "query a model server's metrics by hand and save the answer", found
    )


def _access(bench: Bench) -> RequirementResult:
    if reason := access.lacks(bench.capacity):
        return RequirementResult(Outcome.OPEN, reason)
    trial.await_empty(bench.cluster, bench.clock, bench.settings)
    seen = access.watched(bench.cluster, bench.clock, bench.settings, bench.capacity)
    kept, cause = access.judge(seen)
    found = {"devices seen": access.evidence(seen)}
    if kept:
        said = "containers see only the GPUs that they requested"
        return RequirementResult(Outcome.IMPLEMENTED, said, evidence=found)
    fix = (
        "in the container toolkit's config.toml set accept-nvidia-visible-devices-envvar-when-unprivileged = false, "
        "and let the device plugin pass devices (DEVICE_LIST_STRATEGY: volume-mounts or cdi-cri)"
    )
    return RequirementResult(Outcome.OPEN if kept is None else Outcome.MISSING, cause, fix, found)


OPERATORS = frozenset(
    f"workloads.{key}"
    for key in (
        "dask_operator",
        "jobset",
        "kuberay",
        "lws",
        "mpi_operator",
        "spark_operator",
        "trainer",
    )
)
"""Add-ons with custom resources and a controller."""


def _operator(bench: Bench) -> RequirementResult:
    verdicts = [v for v in bench.workloads() if v.id in OPERATORS]
    found = {"verdicts": _verdict_rows(verdicts)}
    good = [v.id for v in verdicts if v.status is Status.PASS]
    if good:
        said = f"its smallest workload was created, reconciled and completed: {', '.join(good)}"
        return RequirementResult(Outcome.IMPLEMENTED, said, evidence=found)
    if not verdicts:
        fix = "name one under workloads in the site (trainer, kuberay, jobset), as docs/workloads.md shows"
        return RequirementResult(
            Outcome.MISSING, "the site installs no operator with its own resource definitions", fix
        )
    worst = next((v for v in verdicts if v.status is Status.FAIL), verdicts[0])
    outcome = Outcome.MISSING if worst.status is Status.FAIL else Outcome.OPEN
    return RequirementResult(outcome, f"{worst.id}: {worst.cause}", str(worst.fix), found)


def _tried(bench: Bench, promises: Iterable[Promise]) -> list[CheckResult]:
    return list(trial.run(bench.cluster, bench.clock, bench.settings, promises=promises))


def _verdict_rows(verdicts: Iterable[CheckResult]) -> list[dict[str, str]]:
    return [
        {"id": v.id, "status": v.status.value, "said": str(v.evidence or v.cause)} for v in verdicts
    ]


def _names(cluster: ClusterClient, api_version: str, kind: str) -> list[str]:
    return sorted(found["metadata"]["name"] for found in cluster.find(api_version, kind, ""))


def _accepted(gateway_class: dict[str, Any]) -> bool:
    said = gateway_class.get("status", {}).get("conditions", [])
    return any(c["type"] == "Accepted" and c["status"] == "True" for c in said)


REQUIREMENTS = (
    Requirement("dra_support", "accelerators", Level.MUST, "Devices are claimed (DRA)", _dra),
    Requirement(
        "driver_runtime_management",
        "accelerators",
        Level.SHOULD,
        "The platform manages driver and runtime",
        _driver,
    ),
    Requirement("gpu_sharing", "accelerators", Level.SHOULD, "GPUs can be shared", _sharing),
    Requirement(
        "virtualized_accelerator", "accelerators", Level.SHOULD, "GPUs can be virtual", _virtual
    ),
    Requirement(
        "ai_inference",
        "networking",
        Level.MUST,
        "Requests are split by weight and header",
        _inference,
    ),
    Requirement(
        "gang_scheduling",
        "schedulingOrchestration",
        Level.MUST,
        "All pods of a group start together",
        _gangs,
    ),
    Requirement(
        "cluster_autoscaling",
        "schedulingOrchestration",
        Level.MUST,
        "An autoscaler, if present, supports GPUs",
        _hosts,
    ),
    Requirement(
        "pod_autoscaling",
        "schedulingOrchestration",
        Level.MUST,
        "Pods are scaled by GPU metrics",
        _pods,
    ),
    Requirement(
        "accelerator_metrics", "observability", Level.MUST, "Metrics of each GPU", _metrics
    ),
    Requirement(
        "ai_service_metrics",
        "observability",
        Level.MUST,
        "Metrics of workloads are discovered",
        _service_metrics,
    ),
    Requirement(
        "secure_accelerator_access",
        "security",
        Level.MUST,
        "A container sees only its own GPUs",
        _access,
    ),
    Requirement(
        "robust_controller",
        "operator",
        Level.MUST,
        "An AI operator reconciles its workloads",
        _operator,
    ),
)
"""All requirements, in the checklist's order."""
