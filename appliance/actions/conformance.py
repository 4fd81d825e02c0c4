"""Validate conformance: CNCF's AI conformance tried on a cluster, and the folder of evidence that a submission is made of."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from appliance import __version__
from appliance.acceptance import conformance
from appliance.acceptance.conformance import Entry, Requirement
from appliance.acceptance.sandbox import Settings
from appliance.actions import workloads
from appliance.actions.opening import Target
from appliance.actions.scheduler import Api, WallClock
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
"""Fields of the checklist that only who submits can fill; the last is the base conformance of the same release."""


def prove(
    target: Target,
    kubeconfig: Path,
    settings: Settings,
    prometheus: str,
    folder: Path,
    told: Callable[[Requirement], None],
) -> Iterator[CheckResult]:
    """A verdict for each requirement, as it comes; with the last one the folder of evidence is written.

    Raises ApplianceError where the cluster does not answer at all, and ConfigError where the folder cannot be made.
    """
    _made(folder / "evidence")
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
    """The checklist, filled in as far as it was shown."""
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


def _made(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be made ({error.strerror})", "name another folder: --evidence DIR"
        ) from None


def _addons(target: Target, kubeconfig: Path) -> list[CheckResult]:
    """Verdicts of the site's add-ons; none where it installs none, or where there is no site."""
    try:
        return list(workloads.prove(target, kubeconfig, lambda _: None))
    except ConfigError:
        return []
