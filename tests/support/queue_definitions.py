"""Queue definitions, as several test modules use it."""

import os
from functools import cache
from pathlib import Path

import yaml  # noqa: TID251 - the definitions are data of the test

from appliance.acceptance.hello_parts import Where
from appliance.adapters.kubernetes import Resource
from appliance.lab import charts
from appliance.stages.workloads.site import WorkloadsOptions
from appliance.stages.workloads.table import images
from tests.support.impossible_queues import BASE, furnish
from tests.support.rendered_queues import DATA

OWN = sorted(charts.SOURCES.glob("*.yml"))


OF_SITE = WorkloadsOptions(images={"mpi": "mirror.local/mpi:1", "dask": "mirror.local/dask:1"})


HOME = Where("kai-trial", "team-train", "kai-scheduler", images(OF_SITE), "nfs")


@cache
def definitions() -> list[Resource]:
    """Ours, and the projects' own in their place where they were given."""
    given = os.environ.get("APPLIANCE_DEFINITIONS")
    files = [*OWN, *(sorted(Path(given).glob("*.y*ml")) if given else ())]
    read = [d for file in files for d in yaml.load_all(file.read_text(), yaml.CSafeLoader) if d]
    return list({d["metadata"]["name"]: d for d in read}.values())


def site(folder: Path, variant: str, profile: str = "hpc") -> Path:
    furnish(folder)
    text = (DATA / f"{variant}.yml").read_text()
    base = BASE[: BASE.index("secrets:")] if "\nsecrets:" in text else BASE
    (folder / "site.yml").write_text(base.replace("profile: hpc", f"profile: {profile}") + text)
    return folder
