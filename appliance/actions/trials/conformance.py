"""Validate conformance: tests CNCF's AI conformance on a cluster, and writes the folder of evidence for a submission."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from appliance import __version__
from appliance.acceptance import conformance
from appliance.acceptance.conformance import Entry, Requirement
from appliance.acceptance.sandbox import Settings
from appliance.actions.sites.opening import Target
from appliance.actions.trials import workloads
from appliance.actions.trials.scheduler import Api, WallClock
from appliance.adapters.kubernetes import KubernetesApi
from appliance.adapters.prometheus import Prometheus
from appliance.config.document import text_of
from appliance.errors import ConfigError
from appliance.models.result import CheckResult

FOLDER = "conformance"
VENDORS = (
    "vendorName",
    "websiteUrl",
    "repoUrl",
    "documentationUrl",
    "productLogoUrl",
    "description",
    "contactEmailAddress",
    "k8sConformanceUrl",
)
"""Fields of the checklist that only the submitter can fill in; the last is the base conformance of the same release."""


def prove(
    target: Target,
    kubeconfig: Path,
    settings: Settings,
    prometheus: str,
    folder: Path,
    told: Callable[[Requirement], None],
) -> Iterator[CheckResult]:
    """Yields a verdict for each requirement; with the last one, the folder of evidence is written.

    Raises ApplianceError if the cluster does not answer at all, and ConfigError if the folder cannot be created.
    """
    _create(folder / "evidence")
    series = Prometheus(prometheus).has if prometheus else None
    entries: list[Entry] = []
    with KubernetesApi(kubeconfig) as api:
        door = Api(api)
        release = door.version()
        for entry in conformance.run(
            door,
            WallClock(),
            settings,
            series=series,
            workloads=lambda: _addons(target, kubeconfig),
            told=told,
        ):
            entries.append(entry)
            yield entry.result
    write(folder, release, entries)


def write(folder: Path, release: str, entries: Sequence[Entry]) -> None:
    """PRODUCT.yaml in the checklist's form, and a file of evidence for each requirement that has some."""
    for entry in entries:
        if entry.shown.evidence:
            text = json.dumps(entry.shown.evidence, indent=1, ensure_ascii=False) + "\n"
            (folder / _file(entry)).write_text(text, encoding="utf-8")
    (folder / "PRODUCT.yaml").write_text(text_of(product(release, entries)), encoding="utf-8")


def product(release: str, entries: Iterable[Entry]) -> dict[str, Any]:
    """The checklist, filled in with the results."""
    spec: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        wanted, shown = entry.requirement, entry.shown
        line = {
            "id": wanted.id,
            "level": wanted.level.value,
            "status": shown.outcome.value,
            "evidence": [_file(entry)] if shown.evidence else [],
            "notes": shown.notes,
        }
        spec.setdefault(wanted.area, []).append(line)
    known = {
        "kubernetesVersion": release,
        "platformName": "appliance",
        "platformVersion": __version__,
    }
    return {"metadata": {**known, **dict.fromkeys(VENDORS, "")}, "spec": spec}


def _file(entry: Entry) -> str:
    return f"evidence/{entry.requirement.id}.json"


def _create(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be created ({error.strerror})", "name another folder: --evidence DIR"
        ) from None


def _addons(target: Target, kubeconfig: Path) -> list[CheckResult]:
    """Verdicts of the site's add-ons; none if it has none, or without a site."""
    try:
        return list(workloads.prove(target, kubeconfig, lambda _: None))
    except ConfigError:
        return []
