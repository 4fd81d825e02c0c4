"""What one check says, for tests."""

import re
from importlib import import_module
from pathlib import Path

from appliance.checks.check import ClusterCheck, View
from appliance.models.result import CheckResult
from appliance.stages.catalog import CHECKS


def said_by(check_id: str, view: View, *only: str) -> list[CheckResult]:
    """Of the cluster, or of its hosts: of those of its roles, or ``only`` these."""
    check = next(check for check in CHECKS if check.id == check_id)
    if isinstance(check, ClusterCheck):
        return check.results(view)
    hosts = [host for host in view.site.hosts if host.name in only or not only]
    return [
        result
        for host in hosts
        if check.roles.intersection(host.roles)
        for result in check.results(view, host, view.facts[host.name])
    ]


def ids_in(source: Path) -> set[str]:
    """The checks that a file of the program names by ``ids`` of their stages."""
    found = re.findall(r"\b([a-z]+)_ids\.([A-Z_]+)\b", source.read_text(encoding="utf-8"))
    return {getattr(import_module(f"appliance.stages.{stage}.ids"), name) for stage, name in found}
