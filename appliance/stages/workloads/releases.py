"""The releases of a site's section ``workloads``, and releases to remove."""

from pathlib import Path

from appliance.models.site import Site
from appliance.stages.kubernetes.charts import Release
from appliance.stages.scheduler.queues.manifest import Manifest, digest, manifest, text
from appliance.stages.workloads.site import Addon as Section
from appliance.stages.workloads.site import WorkloadsOptions
from appliance.stages.workloads.table import Addon, table
from appliance.stages.workloads.values import values

STAGE = "appliance/stage"
NAME = "workloads"
SECURITY = "pod-security.kubernetes.io/enforce"


def section(options: WorkloadsOptions, addon: Addon) -> Section | None:
    """Return the site's section of an add-on."""
    found: Section | None = getattr(options, addon.key)
    return found


def wanted(site: Site) -> tuple[Addon, ...]:
    """Return the add-ons of the site, in order of installation."""
    options = site.workloads
    return tuple(a for a in table().addons if options and section(options, a) is not None)


def unwanted(site: Site) -> tuple[Addon, ...]:
    """Return the add-ons to remove, in reverse order of installation."""
    return tuple(a for a in reversed(table().addons) if a not in wanted(site))


def releases(site: Site) -> tuple[Release, ...]:
    """Return the releases in order of installation."""
    options = site.workloads
    return tuple(_release(site, options, a) for a in wanted(site)) if options else ()


def digests(site: Site) -> dict[str, str]:
    """Return the digest of each release's archive, by name; empty if only the offline source has it."""
    options = site.workloads or WorkloadsOptions()
    found: dict[str, str] = {}
    for addon in wanted(site):
        given = section(options, addon)
        assert given is not None
        own = addon.sha256 if given.version in (None, addon.version) else ""
        found[addon.name] = given.sha256 or own
    return found


def namespaces(site: Site) -> tuple[Manifest, ...]:
    """Return their namespaces, marked as this stage's; only releases in marked namespaces are ever removed."""
    return tuple(
        manifest(
            site.name,
            "v1",
            "Namespace",
            addon.namespace,
            labels={STAGE: NAME, SECURITY: addon.security},
        )
        for addon in wanted(site)
    )


def _release(site: Site, options: WorkloadsOptions, addon: Addon) -> Release:
    given = section(options, addon)
    assert given is not None
    made = values(addon.key, site, options)
    version = given.version or addon.version
    return Release(
        name=addon.name,
        chart=addon.chart,
        repository=addon.repository,
        namespace=addon.namespace,
        line=version,
        version=version,
        values_file=str(Path("values") / f"{addon.name}.yml"),
        values_digest=digest(text(made)),
        values=made,
    )
