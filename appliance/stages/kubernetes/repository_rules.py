"""Rules over where a cluster's packages come from: whose key signs them, and whether they can be had at all."""

from collections.abc import Iterator

from appliance.config.finding import Finding
from appliance.config.rules.base import Case, Rule
from appliance.config.rules.repositories import signed
from appliance.stages.kubernetes.site import KubernetesOptions


def keys(case: Case) -> Iterator[Finding]:
    """Of containerd and of Kubernetes."""
    found = case.site.repositories
    yield from signed(case, ("repositories", "containerd"), found.containerd, "Docker's")
    yield from signed(case, ("repositories", "kubernetes"), found.kubernetes, "the project's")


def cluster(case: Case) -> Iterator[Finding]:
    """The packages of a cluster come from one place, and there is one."""
    own = case.site.kubernetes
    if own is None or own.external is not None or not case.checked.whole("kubernetes"):
        return
    if own.source is None and "source_parts" in own.model_fields_set:
        yield case.problem(
            ("kubernetes", "source_parts"),
            "is set, but kubernetes.source is not",
            "set kubernetes.source to the folder, or remove kubernetes.source_parts",
        )
    if own.offline("packages"):
        yield from _twice(case)
    else:
        yield from _nowhere(case, own)
    if own.dns == "supplied" and not own.offline("manifests"):
        yield case.problem(
            ("kubernetes", "dns"),
            "needs a manifest in the offline source, which contains none",
            "set kubernetes.source to its folder and add manifests to source_parts, or use coredns",
        )


def _twice(case: Case) -> Iterator[Finding]:
    found = case.site.repositories
    for name, section in (("containerd", found.containerd), ("kubernetes", found.kubernetes)):
        if section.model_fields_set:
            yield case.problem(
                ("repositories", name),
                "is not used: the packages come from kubernetes.source",
                "remove it, or list the other content of source in kubernetes.source_parts, without packages",
            )


def _nowhere(case: Case, own: KubernetesOptions) -> Iterator[Finding]:
    """Profiles ask for Docker's releases; which one a distribution carries only the owner knows."""
    if case.site.repositories.containerd.source != "distribution" or own.containerd:
        return
    asked = case.site.software.get("containerd")
    asked = asked or (case.profile.software.containerd if case.profile else "not known")
    yield case.problem(
        ("repositories", "containerd", "source"),
        f"is distribution, but the distribution may not package containerd {asked}",
        "set kubernetes.containerd to the distribution's release (apt-cache policy containerd on a host), or use docker",
    )


RULES: tuple[Rule, ...] = (keys, cluster)
