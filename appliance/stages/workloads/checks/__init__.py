"""Checks add-ons for users: releases, their pods, the default StorageClass, and network access."""

from collections.abc import Iterator

from appliance.checks.causes import UNASKED, Cause, Reach, is_of
from appliance.checks.check import Check, ClusterCheck, View, failed, not_assessed, passed
from appliance.models.result import Judgement
from appliance.stages.kubernetes.causes import FULL, NO_API
from appliance.stages.kubernetes.charts import Release
from appliance.stages.scheduler import checks as scheduler
from appliance.stages.workloads import ids
from appliance.stages.workloads.checks import network as workloads_network
from appliance.stages.workloads.releases import releases


def wanted(view: View) -> tuple[Release, ...]:
    """Return the releases of the site."""
    return releases(view.site)


def default_classes(view: View) -> tuple[str, ...]:
    """Return the StorageClasses that the site makes the default."""
    options = view.site.workloads
    given = (options.nfs_csi, options.local_path) if options else ()
    return tuple(section.class_name for section in given if section and section.default_class)


def _releases(view: View) -> Iterator[Judgement]:
    return scheduler.judge_releases(view, wanted(view))


def _pods(view: View) -> Iterator[Judgement]:
    return scheduler.judge_pods(view, wanted(view))


def _storage_class(view: View) -> Iterator[Judgement]:
    for name in default_classes(view):
        _, known, _ = scheduler.scheduler_facts(view)
        if known is None or known.default_classes is None:
            yield not_assessed("cluster", scheduler.missing(view, "StorageClasses"), aspect=name)
        elif known.default_classes == (name,):
            yield passed("cluster", name, limit=name)
        else:
            found = ", ".join(known.default_classes) or "none"
            more = "; the class of a claim is undefined" if len(known.default_classes) > 1 else ""
            cause = f"default StorageClass is {found}, the site's is {name}{more}"
            others = [c for c in known.default_classes if c != name]
            # Kubernetes heeds the old annotation, too; taken away it does no harm where it never was.
            mark = "is-default-class"
            unmark = f"storageclass.kubernetes.io/{mark}=false storageclass.beta.kubernetes.io/{mark}- --overwrite"
            fix = f"kubectl annotate storageclass {' '.join(others)} {unmark}" if others else ""
            missing = name not in known.default_classes
            remedy = " && ".join(w for w in (fix, scheduler.DEPLOY if missing else "") if w)
            yield failed("cluster", cause, remedy, aspect=name, value=found, limit=name)


CHECKS: tuple[Check, ...] = (
    ClusterCheck(
        ids.RELEASES,
        "Every add-on is installed at its pinned version",
        _releases,
        "Each add-on in the site's section workloads is a Helm release. It must be deployed at the version in the site or in "
        "appliance/stages/workloads/table.yml. Pending means that an installation was interrupted; failed means that it was not rolled "
        "back.",
        "the pinned version",
        causes=(
            UNASKED,
            NO_API,
            FULL,
        ),
    ),
    ClusterCheck(
        ids.PODS,
        "The pods of every add-on are ready",
        _pods,
        "All pods in an add-on's namespace. Usual causes of a pod that is not ready: its image cannot be pulled, no host has room for it, "
        "or its volume cannot be mounted.",
        causes=(
            UNASKED,
            NO_API,
            FULL,
            Cause(ids.RELEASES, "what is not installed has no pods", Reach.PART),
        ),
    ),
    ClusterCheck(
        ids.STORAGE_CLASS,
        "Claims without a class get the site's class",
        _storage_class,
        "Kubernetes uses the default StorageClass for a claim without a class. Without a default, such claims stay pending. With two, the "
        "newer one is used (Kubernetes 1.26 and newer), or claims are refused.",
        "the default StorageClass of the site",
        causes=(
            UNASKED,
            NO_API,
            Cause(
                ids.RELEASES,
                "the chart installs the StorageClass",
                Reach.SITE,
                is_of("csi-driver-nfs", "local-path-provisioner"),
            ),
        ),
    ),
    *workloads_network.CHECKS,
)
