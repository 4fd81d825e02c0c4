"""What the Network Operator is told: which adapters pods share, and that a site may leave them to the host's network."""

import json
from pathlib import Path
from typing import Any

import pytest

from appliance.config.load import load_profile, load_site
from appliance.models.profile import Profile
from appliance.models.site import Site
from appliance.stages.context import RoleContext
from appliance.stages.kubernetes.site import KubernetesOptions
from appliance.stages.scheduler.collect import scheduler as collector
from appliance.stages.scheduler.queues.network import PODS, RESOURCE, policy, shared
from appliance.stages.scheduler.site import SchedulerOptions
from appliance.stages.scheduler.variables import variables
from tests.support.impossible_queues import BASE, furnish


@pytest.fixture
def site(tmp_path: Path) -> Site:
    furnish(tmp_path)
    (tmp_path / "site.yml").write_text(BASE + "scheduler: {}\n")
    return load_site(tmp_path).site


def without(profile: Profile, **software: Any) -> Profile:
    """A profile with other software."""
    return profile.model_copy(update={"software": profile.software.model_copy(update=software)})


@pytest.mark.parametrize(
    ("name", "link"), [("hpc", "infiniband"), ("balanced", "ether"), ("cost-efficient", "ether")]
)
def test_adapters_of_the_fabrics_kind_are_shared_under_one_name(
    site: Site, name: str, link: str
) -> None:
    made = policy(site, load_profile(name), SchedulerOptions())
    assert made is not None
    plugin = made["spec"]["rdmaSharedDevicePlugin"]
    (pool,) = json.loads(plugin["config"])["configList"]
    # rdma is the plugin's own prefix; the operator's admission takes none that is no domain.
    assert f"rdma/{pool['resourceName']}" == RESOURCE == collector.RDMA
    assert "resourcePrefix" not in pool
    assert pool["selectors"] == {"vendors": ["15b3"], "linkTypes": [link]}
    assert pool["rdmaHcaMax"] == PODS
    assert (made["kind"], made["metadata"]["name"]) == ("NicClusterPolicy", "nic-cluster-policy")


def test_its_image_is_of_the_operators_own_release(site: Site) -> None:
    made = policy(site, without(load_profile("hpc"), network_operator="26.4"), SchedulerOptions())
    assert made is not None
    assert made["spec"]["rdmaSharedDevicePlugin"]["version"] == "network-operator-v26.4.1"


def test_nothing_is_shared_by_choice_or_without_the_operator(site: Site) -> None:
    hpc, host = load_profile("hpc"), SchedulerOptions(rdma="host")
    assert policy(site, hpc, host) is None
    assert not shared(site, hpc, host)
    assert policy(site, without(hpc, network_operator=None), SchedulerOptions()) is None
    assert not shared(site, without(hpc, network_operator=None), SchedulerOptions())


@pytest.mark.parametrize(("rdma", "count"), [("shared", 1), ("host", 0)])
def test_the_first_control_host_brings_it(site: Site, rdma: str, count: int) -> None:
    options = SchedulerOptions.model_validate({"rdma": rdma})
    chosen = site.model_copy(update={"scheduler": options, "kubernetes": KubernetesOptions()})
    context = RoleContext(load_profile("hpc"), chosen, chosen.host("head"), {}, {})
    network = variables(context)["scheduler_network"]
    assert isinstance(network, list)
    assert len(network) == count
