"""Variables of role workloads: releases of the first control host, and releases to remove."""

from appliance.stages.context import RoleContext, Variables
from appliance.stages.kubernetes.variables import control_hosts
from appliance.stages.kubernetes.variables.releases import options
from appliance.stages.workloads.network import policies
from appliance.stages.workloads.releases import (
    NAME,
    STAGE,
    digests,
    namespaces,
    releases,
    unwanted,
)
from appliance.stages.workloads.table import Addon


def variables(context: RoleContext) -> Variables:
    """Return all variables of role workloads. Other control hosts install nothing."""
    site = context.site
    first = context.host.name == control_hosts(site)[0].name
    known = digests(site)
    wanted = [
        {
            "name": release.name,
            "namespace": release.namespace,
            "chart": release.chart,
            "repository": release.repository,
            "version": release.version,
            "sha256": known[release.name],
            "values": release.values,
        }
        for release in releases(site)
    ]
    return {
        "workloads_first": first,
        "workloads_mark": f"{STAGE}={NAME}",
        "workloads_namespaces": list(namespaces(site)) if first else [],
        "workloads_policies": list(policies(site)) if first else [],
        "workloads_releases": wanted if first else [],
        "workloads_unwanted": [_unwanted(addon) for addon in unwanted(site)] if first else [],
        "workloads_source": options(site).offline("charts"),
    }


def _unwanted(addon: Addon) -> Variables:
    return {
        "name": addon.name,
        "namespace": addon.namespace,
        "chart": addon.chart,
        "version": addon.version,
        "holders": list(addon.holders),
        "driver": addon.driver,
    }
