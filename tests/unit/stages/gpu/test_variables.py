"""Which driver a host gets, with which kernel modules, and when a change unloads it."""

from typing import Any

import pytest

from appliance.config import data
from appliance.config.load import LoadedSite, load_site
from appliance.config.rules.base import Case
from appliance.config.schema import Checked
from appliance.models.facts import HostFacts
from appliance.models.profile import Interconnect, Profile
from appliance.models.site import Repositories, Role
from appliance.stages.context import RoleContext
from appliance.stages.gpu.rules import RULES
from appliance.stages.gpu.stage import unloads
from appliance.stages.gpu.variables import kernel_modules, only_open, variables
from appliance.stages.kubernetes.site import KubernetesOptions
from appliance.stages.scheduler.site import SchedulerOptions
from tests.support.gpu_facts import facts

A100, H100, B200 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA B200"
V100 = "Tesla V100-SXM2-32GB"


@pytest.fixture(scope="module")
def example() -> LoadedSite:
    return load_site(data.root() / "inventories/example")


def changed(example: LoadedSite, **changes: Any) -> Profile:
    """The example's profile with other models, branch or interconnect."""
    gpu = example.profile.hardware.gpu.model_copy(
        update={k: v for k, v in changes.items() if k in {"models", "interconnect"}}
    )
    hardware = example.profile.hardware.model_copy(update={"gpu": gpu})
    software = example.profile.software.model_copy(
        update={k: v for k, v in changes.items() if k == "driver_branch"}
    )
    return example.profile.model_copy(update={"hardware": hardware, "software": software})


@pytest.mark.parametrize(
    ("model", "branch", "modules"),
    [
        (A100, "580", "open"),
        (A100, "535", "proprietary"),
        (A100, "580.95.05", "open"),
        (H100, "535", "open"),
        (B200, "575", "open"),
        (V100, "580", "proprietary"),
    ],
)
def test_kernel_modules_go_by_generation_and_branch(
    example: LoadedSite, model: str, branch: str, modules: str
) -> None:
    profile = changed(example, models=(model,), driver_branch=branch)
    assert kernel_modules(profile, "automatic") == modules
    assert kernel_modules(profile, "proprietary") == "proprietary"


def test_blackwell_has_no_proprietary_modules(example: LoadedSite) -> None:
    assert only_open(changed(example, models=(A100, B200))) == B200
    assert only_open(changed(example, models=(A100, H100))) == ""


@pytest.mark.parametrize(
    ("model", "branch", "modules", "refused"),
    [
        (V100, "580", "automatic", []),
        (V100, "590", "automatic", ["profile"]),
        (V100, "580", "proprietary", []),
        (V100, "580", "open", ["repositories.gpu.kernel_modules"]),
        (A100, "590", "open", []),
        (B200, "590", "open", []),
        (B200, "590", "proprietary", ["repositories.gpu.kernel_modules"]),
    ],
)
def test_a_driver_that_does_not_know_the_gpu_is_refused(
    example: LoadedSite, model: str, branch: str, modules: str, refused: list[str]
) -> None:
    gpu = example.site.repositories.gpu.model_copy(update={"kernel_modules": modules})
    repositories = example.site.repositories.model_copy(update={"gpu": gpu})
    site = example.site.model_copy(update={"repositories": repositories})
    case = Case(
        Checked(example.site_document, site),
        site,
        changed(example, models=(model,), driver_branch=branch),
    )
    assert [finding.key for rule in RULES for finding in rule(case)] == refused


def _variables(example: LoadedSite, seen: dict[str, HostFacts], **site: Any) -> dict[str, object]:
    changed_site = example.site.model_copy(update=site)
    host = changed_site.with_role(Role.GPU)[0]
    return variables(RoleContext(example.profile, changed_site, host, {}, seen))


def test_a_site_that_says_nothing_takes_nvidias_own_repository(example: LoadedSite) -> None:
    given = _variables(example, {})
    assert given["gpu_source"] == "nvidia"
    assert {given[f"gpu_{name}"] for name in ("mirror", "key", "fingerprint")} == {""}


def test_a_mirror_is_given_as_it_stands(example: LoadedSite) -> None:
    mirror = {"mirror": "http://10.0.0.9/cuda", "key": "acme.asc", "fingerprint": "AB" * 20}
    given = _variables(example, {}, repositories=Repositories.model_validate({"gpu": mirror}))
    assert {name: given[f"gpu_{name}"] for name in mirror} == mirror


def test_fabric_manager_comes_with_switches_only(example: LoadedSite) -> None:
    for interconnect, wanted in (("nvswitch", True), ("pcie", False), ("nvlink-bridge", False)):
        profile = changed(example, interconnect=Interconnect(interconnect))
        host = example.site.with_role(Role.GPU)[0]
        given = variables(RoleContext(profile, example.site, host, {}, {}))
        assert given["gpu_fabric_manager"] is wanted


@pytest.mark.parametrize(
    ("release", "expected"),
    [("580", False), ("580.95.05", False), ("580.82.07", True), ("595", True)],
)
def test_plan_says_whether_the_driver_is_unloaded(
    example: LoadedSite, release: str, expected: bool
) -> None:
    host = example.site.with_role(Role.GPU)[0]
    assert unloads(host, facts("gpu-1"), {"gpu_release": release}) is expected
    assert unloads(host, None, {"gpu_release": release}) is False


@pytest.mark.parametrize(
    ("plugin", "sharing", "told"),
    [
        ("", "none", ""),
        ("own", None, ""),
        ("own", "none", "privileged"),
        ("operator", None, "privileged"),
        ("plugin", None, "privileged"),
        ("operator", "none", "privileged"),
        ("operator", "unenforced", "all"),
        ("plugin", "unenforced", "all"),
    ],
)
def test_pods_see_gpus_by_a_variable_only_where_parts_are_given_that_way(
    example: LoadedSite, plugin: Any, sharing: Any, told: str
) -> None:
    site = example.site.model_copy(
        update={
            "kubernetes": KubernetesOptions(device_plugin=plugin) if plugin else None,
            "scheduler": SchedulerOptions(sharing=sharing) if sharing else None,
        }
    )
    host = site.with_role(Role.GPU)[0]
    known = RoleContext(example.profile, site, host, {}, {})
    assert variables(known)["gpu_by_variable"] == told
