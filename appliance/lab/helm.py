"""Helm for the rack: the real program, the real chart of KAI from its module, and look-alikes of the charts that are not available."""

import json
import os
import re
import shutil
from pathlib import Path

from appliance.errors import ApplianceError
from appliance.lab import charts
from appliance.lab.archives import with_digest
from appliance.lab.kubernetes_build import KAI_REGISTRY, PLACE
from appliance.lab.programs import HELM, KAI, Module, built
from appliance.lab.programs import source as source_of
from appliance.provision.building import Progress
from appliance.provision.sources import digest

KAI_CHART = "deployments/kai-scheduler"
"""Within KAI's module."""
RELEASED = (
    (r"^version: .*$", f"version: v{KAI.version}"),
    (r"^appVersion: .*$", f"appVersion: v{KAI.version}"),
    (r"^  registry: .*$", f"  registry: {KAI_REGISTRY}"),
)
"""Values that KAI's publishers write into the chart for a release."""


def layer(cache: Path, progress: Progress) -> Path:
    """The image layer that adds them to the cluster's offline source, created if the cache lacks it. To be called in
    ``one_build`` of the cluster's programs.
    """
    target = cache / f"charts-{fingerprint()}"
    if target.exists():
        os.utime(target)
        return target
    fresh = cache / f"making-{target.name}"
    source(cache, fresh / PLACE, progress)
    fresh.rename(target)
    return target


def source(cache: Path, place: Path, progress: Progress, program: Module = HELM) -> None:
    """Fill an offline source's folders ``bin`` and ``charts``, with Helm of one module."""
    (place / "bin").mkdir(parents=True, exist_ok=True)
    shutil.copy(built(cache, program, progress) / "helm", place / "bin")
    with_digest(place / "bin/helm")
    for chart in charts.pinned():
        chart.write(place / "charts")
    charts.archive("kai-scheduler", f"v{KAI.version}", kai(cache, progress), place / "charts")


def kai(cache: Path, progress: Progress) -> dict[str, str]:
    """The files of KAI's own chart, as published. Raises ApplianceError if the module no longer contains it."""
    folder = source_of(cache, KAI, progress) / KAI_CHART
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    found = {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in files}
    if "Chart.yaml" not in found:
        raise ApplianceError(f"{KAI.main} v{KAI.version} has no {KAI_CHART}/Chart.yaml", "")
    for name in ("Chart.yaml", "values.yaml"):
        for pattern, line in RELEASED:
            found[name] = re.sub(pattern, line, found[name], flags=re.MULTILINE)
    return {name: text for name, text in found.items() if not name.startswith("tests/")}


def fingerprint() -> str:
    """Names the content that ``source`` makes."""
    texts = [HELM.folder_name, KAI.folder_name, json.dumps(RELEASED)]
    texts += [text for chart in charts.pinned() for text in chart.files().values()]
    return digest("".join(texts))
