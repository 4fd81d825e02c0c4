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
            "wants a manifest of the offline source, which brings none",
            "name its folder under kubernetes.source with manifests among source_parts, or write coredns",
        )


def _twice(case: Case) -> Iterator[Finding]:
    found = case.site.repositories
    for name, section in (("containerd", found.containerd), ("kubernetes", found.kubernetes)):
        if section.model_fields_set:
            yield case.problem(
                ("repositories", name),
                "is not asked: the packages come from kubernetes.source",
                "leave it out, or name what else source brings in kubernetes.source_parts, without packages",
            )


def _nowhere(case: Case, own: KubernetesOptions) -> Iterator[Finding]:
    """Profiles ask for Docker's releases; which one a distribution carries only the owner knows."""
    if case.site.repositories.containerd.source != "distribution" or own.containerd:
        return
    asked = case.site.software.get("containerd")
    asked = asked or (case.profile.software.containerd if case.profile else "not known")
    yield case.problem(
        ("repositories", "containerd", "source"),
        f"takes the distribution's containerd, and the release asked for is {asked}, which may come from nowhere",
        "name the distribution's in kubernetes.containerd, as apt-cache policy containerd shows it on a host, or write docker",
    )


RULES: tuple[Rule, ...] = (keys, cluster)
