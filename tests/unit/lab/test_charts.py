"""The rack's look-alike charts: every pinned version, marked as such, the same bytes each time."""

import io
import json
import tarfile
from pathlib import Path

from appliance.lab import charts
from appliance.lab.charts import LookAlike
from appliance.lab.programs import KAI
from appliance.stages.kubernetes.charts import charts as of_cluster
from appliance.stages.scheduler.queues.charts import charts as table
from appliance.stages.workloads.table import table as addons


def test_there_is_one_for_every_version_of_the_table() -> None:
    wanted = {
        f"{chart.chart.rsplit('/', 1)[-1]}-{version}.tgz"
        for chart in (*of_cluster().values(), *table().values())
        for version in chart.versions.values()
    } | {f"{addon.name}-{addon.version}.tgz" for addon in addons().addons}
    # The one chart that is to be had is the real one.
    wanted.discard(f"kai-scheduler-v{KAI.version}.tgz")
    assert {chart.file_name for chart in charts.pinned()} == wanted


def test_an_archive_is_the_same_each_time_and_has_its_digest(tmp_path: Path) -> None:
    chart = LookAlike("kai-resource-management", "v0.18.6")
    one, other = chart.write(tmp_path / "a"), chart.write(tmp_path / "b")
    assert one.read_bytes() == other.read_bytes()
    assert one.with_name(f"{one.name}.sha256").read_text().endswith(f"  {one.name}\n")
    with tarfile.open(fileobj=io.BytesIO(one.read_bytes())) as opened:
        names = opened.getnames()
    assert "kai-resource-management/Chart.yaml" in names
    assert "kai-resource-management/charts/kai-scheduler/crds/definitions.yaml" in names


def test_a_look_alike_says_that_it_is_one() -> None:
    for chart in charts.pinned():
        files = chart.files()
        assert json.loads(files["Chart.yaml"])["description"] == charts.MARK
        assert charts.MARK in files["templates/objects.yaml"]
