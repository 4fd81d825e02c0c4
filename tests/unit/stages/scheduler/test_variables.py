"""Variables of role scheduler: pinned releases for one host, and no stage where there is nothing to install."""

from pathlib import Path

import pytest

from appliance.config.load import LoadedSite, load_site
from appliance.errors import ConfigError
from appliance.stages.context import RoleContext
from appliance.stages.kubernetes.site import KubernetesOptions
from appliance.stages.scheduler import stage as scheduler
from appliance.stages.scheduler.site import RunaiOptions, SchedulerOptions
from appliance.stages.scheduler.variables import variables
from tests.support.impossible_queues import BASE, furnish
from tests.support.rendered_queues import DATA


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedSite:
    furnish(tmp_path)
    (tmp_path / "site.yml").write_text(BASE + (DATA / "flat.yml").read_text())
    return load_site(tmp_path)


def context(loaded: LoadedSite, **changes: object) -> RoleContext:
    site = loaded.site.model_copy(update=changes)
    return RoleContext(loaded.profile, site, site.host("head"), {}, {})


def test_the_operator_comes_before_the_scheduler_each_at_its_version(loaded: LoadedSite) -> None:
    given = variables(context(loaded, kubernetes=KubernetesOptions(source="/opt/source")))
    releases = given["scheduler_releases"]
    assert isinstance(releases, list)
    assert [r["name"] for r in releases] == ["network-operator", "kai-scheduler"]
    assert all(r["version"] for r in releases)
    assert (given["scheduler_first"], given["scheduler_source"]) == (True, "/opt/source")


@pytest.mark.parametrize(
    ("line", "place"),
    [("0.12", "nvidia/kai-scheduler"), ("0.16", "kai-scheduler/kai-scheduler")],
)
def test_a_chart_is_looked_for_where_its_line_was_published(
    loaded: LoadedSite, line: str, place: str
) -> None:
    software = loaded.profile.software.model_copy(update={"kai": line})
    other = loaded.profile.model_copy(update={"software": software})
    given = variables(RoleContext(other, loaded.site, loaded.site.host("head"), {}, {}))
    releases = given["scheduler_releases"]
    assert isinstance(releases, list)
    assert releases[-1]["chart"] == f"oci://ghcr.io/{place}/kai-scheduler"
    assert releases[-1]["version"].startswith(f"v{line}.")


def test_a_release_line_without_an_exact_version_is_refused(loaded: LoadedSite) -> None:
    software = loaded.profile.software.model_copy(update={"kai": "0.13"})
    other = loaded.profile.model_copy(update={"software": software})
    site = loaded.site
    with pytest.raises(ConfigError, match=r"kai-scheduler is known for release 0\.13"):
        variables(RoleContext(other, site, site.host("head"), {}, {}))


def test_run_ai_of_another_program_is_not_installed(loaded: LoadedSite) -> None:
    options = SchedulerOptions(kind="runai", runai=RunaiOptions(url="https://runai.example.com"))
    with pytest.raises(ConfigError, match="Run:ai is installed by another program") as refused:
        variables(context(loaded, scheduler=options))
    assert "--until kubernetes" in refused.value.hint


def test_the_stage_is_for_a_scheduler_on_a_cluster_of_the_sites_own(loaded: LoadedSite) -> None:
    own = KubernetesOptions()
    brought = KubernetesOptions(external="kubeconfig")
    assert scheduler.wanted(loaded.site.model_copy(update={"kubernetes": own}))
    assert not scheduler.wanted(loaded.site.model_copy(update={"kubernetes": None}))
    assert not scheduler.wanted(loaded.site.model_copy(update={"kubernetes": brought}))
    without = {"kubernetes": own, "scheduler": None}
    assert not scheduler.wanted(loaded.site.model_copy(update=without))
