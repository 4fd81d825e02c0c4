"""A site's Kubernetes release, and differences between minor releases."""

import re
from dataclasses import dataclass

from appliance.errors import ConfigError
from appliance.models.site import Site
from appliance.stages.context import RoleContext
from appliance.stages.kubernetes.site import KubernetesOptions

OLDEST, NEWEST = 28, 36
KUBEADM_API = {28: "v1beta3", 31: "v1beta4"}
"""kubeadm's configuration API from a minor release on (Kubernetes changelog 1.31)."""
LEARNERS = 29
"""First minor release whose kubeadm adds members of etcd as learners, which do not vote before they have caught up (changelog 1.29)."""
UPGRADE_PHASES = 32
"""First minor release whose kubeadm installs CoreDNS at every upgrade unless that phase is skipped; before, only if kube-system has a ConfigMap of CoreDNS or kube-dns (kubernetes pull requests 126032 and 89593, seen 2026-11-22)."""
VERSION = re.compile(r"^v?1\.(\d+)(?:\.(\d+))?")
SOCKET = "unix:///run/containerd/containerd.sock"
"""Socket of containerd."""
CIPHERS = tuple(
    f"TLS_ECDHE_{key}_WITH_AES_{bits}_GCM_SHA{digest}"
    for key in ("ECDSA", "RSA")
    for bits, digest in ((128, 256), (256, 384))
)
"""Ciphers of TLS 1.2 for the API server and kubelets; those of TLS 1.3 cannot be selected."""
CONTROL_TAINT = "node-role.kubernetes.io/control-plane"
"""Keeps pods off control planes."""


MUTATING = {"admissionregistration.k8s.io/v1": 36, "admissionregistration.k8s.io/v1beta1": 34}
"""API versions of MutatingAdmissionPolicy and their first minor release; the second is behind a feature gate (KEP 3962)."""


@dataclass(frozen=True)
class Release:
    """A release of Kubernetes 1.x; ``patch`` None: the newest in the repository."""

    minor: int
    patch: int | None = None

    def __str__(self) -> str:
        return f"1.{self.minor}" + ("" if self.patch is None else f".{self.patch}")

    @property
    def kubeadm_api(self) -> str:
        """Return the version of kubeadm's configuration API."""
        return [api for since, api in KUBEADM_API.items() if self.minor >= since][-1]

    @property
    def learners(self) -> bool:
        """Return whether etcd keeps its quorum while a second control plane joins."""
        return self.minor >= LEARNERS

    @property
    def upgrade_phases(self) -> bool:
        """Return whether phases of kubeadm's upgrade can be skipped."""
        return self.minor >= UPGRADE_PHASES

    def arguments(self, given: dict[str, str]) -> object:
        """Return extra arguments in the form of kubeadm's API: a list since v1beta4."""
        if self.kubeadm_api == "v1beta4":
            return [{"name": name, "value": value} for name, value in given.items()]
        return dict(given)


def mutating(minor: int) -> str:
    """Return the API version of policies that change objects; "" if this release has none."""
    stable, beta = MUTATING
    return stable if minor >= MUTATING[stable] else beta if minor >= MUTATING[beta] else ""


def gates(minor: int) -> dict[str, str]:
    """Return arguments that enable such policies in this release's API server."""
    api = mutating(minor)
    beta = {"feature-gates": "MutatingAdmissionPolicy=true", "runtime-config": f"{api}=true"}
    return beta if api.endswith("beta1") else {}


def options(site: Site) -> KubernetesOptions:
    """Return the site's section, or defaults if there is none."""
    return site.kubernetes or KubernetesOptions()


def release(context: RoleContext) -> Release:
    """Return the release of the site or its profile. Raises ConfigError if it is missing or not in the tables."""
    chosen = (
        options(context.site).version
        or context.site.software.get("kubernetes")
        or context.profile.software.kubernetes
    )
    if not chosen:
        raise ConfigError(
            "no release of Kubernetes is chosen", "set kubernetes.version in site.yml, as 1.35"
        )
    return parse(chosen)


def parsed_release(version: str) -> Release | None:
    """Parse a program's reported release, such as v1.35.2; None if it is not a release."""
    found = VERSION.match(version)
    if not found:
        return None
    return Release(int(found.group(1)), int(found.group(2)) if found.group(2) else None)


def is_older(present: str, wanted: Release) -> bool:
    """Return whether a kubelet has an earlier release than the site; False if unknown."""
    old = parsed_release(present)
    return old is not None and _distance(old, wanted) > (0, 0)


def refuse_leap(host: str, present: str, wanted: Release) -> None:
    """Raise ConfigError if a host's kubelet cannot be upgraded to the release: backwards, or by more than one minor release."""
    old = parsed_release(present)
    if old is None or (0, 0) <= _distance(old, wanted) < (2, 0):
        return
    shown = str(old) if wanted.minor == old.minor else f"1.{old.minor}"
    if _distance(old, wanted) < (0, 0):
        fix = (
            f'set kubernetes.version: "{shown}": kubeadm takes no cluster back; docs/kubernetes.md'
        )
    else:
        after = f"1.{old.minor + 1}"
        fix = f"upgrade to {after} first, one minor release after the other: docs/kubernetes.md"
    raise ConfigError(f"{host} runs Kubernetes {shown}, and the site asks for {wanted}", fix)


def _distance(old: Release, new: Release) -> tuple[int, int]:
    """Return the number of minor releases between both; within one, compare patch releases if both are known."""
    if old.minor != new.minor:
        return new.minor - old.minor, 0
    return 0, 0 if old.patch is None or new.patch is None else new.patch - old.patch


def parse(text: str) -> Release:
    """Parse ``1.35`` or ``1.35.2``. Raises ConfigError for a release without tables."""
    words = text.split(".")
    numbers = [int(word) for word in words if word.isdigit()]
    known = len(numbers) == len(words) and len(words) in (2, 3) and numbers[0] == 1
    if not known or not OLDEST <= numbers[1] <= NEWEST:
        raise ConfigError(
            f"Kubernetes {text} is not supported", f"use one of 1.{OLDEST} to 1.{NEWEST}"
        )
    return Release(numbers[1], numbers[2] if len(numbers) == 3 else None)
