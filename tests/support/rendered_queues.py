"""Rendered queues, as several test modules use it."""

from pathlib import Path
from typing import Any

import pytest

from appliance.config.load import load_site
from appliance.models.site import Site
from appliance.stages.kubernetes.site import KubeletOptions, KubernetesOptions
from appliance.stages.scheduler.queues.rendered import Rendered, rendered
from tests.support.impossible_queues import BASE, furnish

DATA = Path(__file__).parents[1] / "data/queues"


VARIANTS = ("departments", "flat", "managed", "pools", "trees")


PROFILES = ("balanced", "cost-efficient", "hpc")


def make(folder: Path, variant: str, profile: str = "hpc") -> Rendered:
    """The rendered resources of a variant of the site on a profile."""
    furnish(folder)
    text = (DATA / f"{variant}.yml").read_text()
    base = BASE[: BASE.index("secrets:")] if "\nsecrets:" in text else BASE
    (folder / "site.yml").write_text(base.replace("profile: hpc", f"profile: {profile}") + text)
    loaded = load_site(folder)
    return rendered(loaded.site, loaded.profile)


def of_places(site: Site, places: int, small_pods: str = "raise") -> Site:
    """The site with hosts of so many places for pods; ``small_pods``: what becomes of pods that request less than their part."""
    assert site.scheduler is not None
    own = KubernetesOptions(kubelet=KubeletOptions(max_pods=places))
    options = site.scheduler.model_copy(update={"small_pods": small_pods})
    return site.model_copy(update={"kubernetes": own, "scheduler": options})


def only(found: Rendered, kind: str, name: str) -> dict[str, Any]:
    (resource,) = (r for r in found.resources if (r["kind"], r["metadata"]["name"]) == (kind, name))
    return resource


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "site"
