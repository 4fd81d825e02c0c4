"""A folder that kubectl -k, Argo CD and Flux apply: everything that queue render writes, and each chart once."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml  # noqa: TID251 - reads what is written, as other programs do

from appliance.actions.kubernetes.gitops import KUSTOMIZATION, Tool, files
from appliance.adapters.process import run
from appliance.config.load import LoadedSite, load_site
from appliance.stages.scheduler.queues.rendered import Rendered, rendered
from appliance.stages.workloads.releases import releases
from tests.golden.record import SITES
from tests.support.command_line import run as appliance

CONTENT = {Tool.ARGOCD: "Application", Tool.FLUX: "HelmRelease"}


@pytest.fixture
def site(tmp_path: Path) -> tuple[LoadedSite, Rendered]:
    """A cluster with KAI that serves models."""
    loaded = load_site(SITES["balanced"](tmp_path))
    return loaded, rendered(loaded.site, loaded.profile)


def objects(text: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(text) if one]


def test_without_a_tool_the_queues_are_listed_for_kustomize(
    site: tuple[LoadedSite, Rendered],
) -> None:
    loaded, wanted = site
    found = files(loaded, wanted, None)
    assert {name: found[name] for name in wanted.files()} == wanted.files()
    assert yaml.safe_load(found[KUSTOMIZATION])["resources"] == ["resources.yml"]


@pytest.mark.parametrize("tool", Tool)
def test_each_chart_is_installed_once_at_its_version_with_its_values(
    tool: Tool, site: tuple[LoadedSite, Rendered]
) -> None:
    loaded, wanted = site
    found = files(loaded, wanted, tool)
    listed = yaml.safe_load(found[KUSTOMIZATION])["resources"]
    assert listed == ["resources.yml", f"{tool}.yml", "workloads.yml"]
    made = {
        one["metadata"]["name"]: one["spec"]
        for one in objects(found[f"{tool}.yml"])
        if one["kind"] == CONTENT[tool]
    }
    charts = {chart.name: chart for chart in (*wanted.charts, *releases(loaded.site))}
    assert set(made) == set(charts)
    for name, spec in made.items():
        chart = charts[name]
        source = spec["source"] if tool is Tool.ARGOCD else spec["chart"]["spec"]
        version = source["targetRevision"] if tool is Tool.ARGOCD else source["version"]
        values = source["helm"]["valuesObject"] if tool is Tool.ARGOCD else spec["values"]
        assert (version, values) == (chart.version, chart.values)
        assert chart.chart.endswith(source["chart"])
        assert "/" not in source["chart"]


def test_oci_registry_is_named_as_each_tool_does(site: tuple[LoadedSite, Rendered]) -> None:
    loaded, wanted = site
    kai = next(chart for chart in wanted.charts if chart.chart.startswith("oci://"))
    address = kai.chart.removeprefix("oci://").rpartition("/")[0]
    (application,) = (
        one
        for one in objects(files(loaded, wanted, Tool.ARGOCD)["argocd.yml"])
        if one["metadata"]["name"] == kai.name
    )
    assert application["spec"]["source"]["repoURL"] == address
    (repository,) = (
        one["spec"]
        for one in objects(files(loaded, wanted, Tool.FLUX)["flux.yml"])
        if (one["kind"], one["metadata"]["name"]) == ("HelmRepository", kai.name)
    )
    assert repository == {"interval": "1h", "url": f"oci://{address}", "type": "oci"}


@pytest.mark.skipif(not shutil.which("kubectl"), reason="needs kubectl")
@pytest.mark.parametrize("words", [(), ("--charts", "argocd"), ("--charts", "flux")])
def test_kubectl_builds_the_folder_without_a_loss(
    words: tuple[str, ...], site: tuple[LoadedSite, Rendered], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = site[0].folder / "rendered"
    argv = ("queue", "render", "-s", str(site[0].folder), "-o", str(folder), *words)
    assert appliance(monkeypatch, *argv) == 0
    listed = yaml.safe_load((folder / KUSTOMIZATION).read_text())["resources"]
    written = [one for name in listed for one in objects((folder / name).read_text())]
    built = objects(run(("kubectl", "kustomize", str(folder))).stdout)

    def key(one: dict[str, Any]) -> str:
        return yaml.safe_dump(one)

    assert sorted(built, key=key) == sorted(written, key=key)


@pytest.mark.skipif(not shutil.which("kubectl"), reason="needs kubectl")
def test_kubectl_makes_a_config_map_of_each_board() -> None:
    root = Path(__file__).parents[4] / "roles/observe/files/usr/local/share/appliance/boards"
    made = objects(run(("kubectl", "kustomize", str(root))).stdout)
    assert {one["metadata"]["name"] for one in made} == {
        f"appliance-{file.stem}" for file in root.glob("*.json")
    }
    for one in made:
        assert one["metadata"]["labels"] == {"grafana_dashboard": "1"}
        ((name, text),) = one["data"].items()
        assert text == (root / name).read_text()
