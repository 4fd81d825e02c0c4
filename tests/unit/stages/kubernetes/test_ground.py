"""What stops a later step of a cluster is seen before a host is changed; what is not known is not good."""

from typing import Any

import pytest

from appliance.checks.check import View
from appliance.config.load import load_profile
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult, Status
from appliance.models.site import Site
from appliance.stages.kubernetes.checks.ground import judge_ground, judge_swap
from tests.support.facts import facts_of
from tests.support.sites import site_of

GOOD: dict[str, Any] = {
    "ours": False,
    "swaps": {},
    "modules": {"br_netfilter": "there", "overlay": "loaded"},
    "routes": ["10.0.0.0/24 eno1"],
}
ROOM: list[dict[str, Any]] = [
    {
        "at": "/",
        "source": "/dev/sda1",
        "type": "ext4",
        "size": 1 << 40,
        "free": 1 << 39,
        "inodes_free": 1 << 20,
    }
]


def site(**more: Any) -> Site:
    cluster = {"version": "1.35", **more.pop("kubernetes", {})}
    return site_of("head", "gpu-1", kubernetes=cluster, **more)


def facts(host: str = "head", ground: dict[str, Any] | None = None, **more: Any) -> HostFacts:
    return facts_of(host, **{"ground": {**GOOD, **(ground or {})}, "filesystems": ROOM, **more})


def judged(found: HostFacts, given: Site | None = None) -> list[CheckResult]:
    given = given or site()
    view = View(load_profile("hpc"), given, {found.host: found})
    return [j.of("kubernetes.ground") for j in judge_ground(view, given.host(found.host), found)]


def test_a_fresh_host_is_fit() -> None:
    assert [r.status for r in judged(facts())] == [Status.PASS]


FAULTS: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    ({}, {"os": {"cgroup": "v1"}}, "cgroups", "control groups are v1"),
    ({}, {"os": {"cgroup": "hybrid"}}, "cgroups", "starts on version 2 only"),
    ({"modules": {"br_netfilter": "", "overlay": "there"}}, {}, "br_netfilter", "no module"),
    ({"listeners": {"6443": "haproxy"}}, {}, "6443", "used by haproxy, but the API server"),
    ({"listeners": {"2379": ""}}, {}, "2379", "used by another program, but etcd"),
    ({"clusters": ["/etc/rancher/k3s/k3s.yaml"]}, {}, "cluster", "already belongs to a cluster"),
    ({"routes": ["10.244.3.0/24 flannel.1"]}, {}, "pod_network", "10.244.3.0/24 by flannel.1"),
    ({"routes": ["10.96.0.0/12 vpn0"]}, {}, "service_network", "10.96.0.0/12 by vpn0"),
    ({"swaps": {"/swap.img": 1 << 35}}, {}, "swap", "swap cannot be turned off: /swap.img"),
    ({}, {"filesystems": [{**ROOM[0], "free": 1 << 30}]}, "/var/lib", "1024 MiB free (on /)"),
]


@pytest.mark.parametrize(("ground", "more", "part", "said"), FAULTS)
def test_each_obstacle_is_named_with_a_remedy(
    ground: dict[str, Any], more: dict[str, Any], part: str, said: str
) -> None:
    (found,) = judged(facts(ground=ground, **more))
    assert found.status is Status.FAIL
    assert found.parts == (part,)
    assert said in found.cause
    assert found.fix


def test_several_obstacles_are_all_named() -> None:
    found = judged(
        facts(ground={"listeners": {"6443": "nginx", "10250": "x"}}, os={"cgroup": "v1"})
    )
    assert {r.parts[0] for r in found} == {"cgroups", "6443", "10250"}


@pytest.mark.parametrize(
    "more",
    [
        {"ground": None},
        {"errors": {"ground": "/proc/swaps: Permission denied"}},
        {"os": {"cgroup": ""}},
        {"filesystems": []},
    ],
)
def test_what_was_not_measured_is_not_good(more: dict[str, Any]) -> None:
    given = {"ground": GOOD, "filesystems": ROOM, **more}
    (found,) = judged(facts_of("head", **given))
    assert found.status is Status.NOT_ASSESSED
    assert found.cause


def test_a_module_nobody_looked_for_is_not_good() -> None:
    (found,) = judged(facts(ground={"modules": {"overlay": "loaded"}}))
    assert (found.status, found.target) == (Status.NOT_ASSESSED, "head/br_netfilter")


def test_swap_whose_memory_nobody_knows_is_not_good() -> None:
    found = judged(facts(ground={"swaps": {"/swap.img": 1}}, memory={"total": 0, "available": 0}))
    assert [r.status for r in found] == [Status.NOT_ASSESSED]


def test_swap_that_can_be_turned_off_is_no_obstacle() -> None:
    assert judged(facts(ground={"swaps": {"/swap.img": 1 << 20}}))[0].status is Status.PASS


def test_a_gpu_host_needs_kubelets_ports_alone() -> None:
    assert judged(facts("gpu-1", {"listeners": {"6443": "x"}}))[0].status is Status.PASS
    assert judged(facts("gpu-1", {"listeners": {"10250": "x"}}))[0].status is Status.FAIL


def test_a_release_before_takes_older_control_groups() -> None:
    older = site(kubernetes={"version": "1.34"})
    assert judged(facts(os={"cgroup": "v1"}), older)[0].status is Status.PASS


def test_a_container_answers_for_what_is_its_own() -> None:
    inside: dict[str, Any] = {"os": {"cgroup": "v1", "container": "nspawn"}, "filesystems": []}
    machine = {"modules": {"overlay": ""}, "swaps": {"/dev/sda2": 1 << 40}}
    assert judged(facts(ground=machine, **inside))[0].status is Status.PASS
    assert judged(facts(ground={"listeners": {"6443": "x"}}, **inside))[0].status is Status.FAIL


def test_a_host_of_the_cluster_is_judged_by_what_stops_its_next_start() -> None:
    ours = {"ours": True, "swaps": {"/swap.img": 1 << 40}}
    assert judged(facts(ground=ours, filesystems=[]))[0].status is Status.PASS
    assert judged(facts(ground=ours, os={"cgroup": "v1"}))[0].status is Status.FAIL


@pytest.mark.parametrize(
    ("os", "release", "said"),
    [
        ({"id": "debian", "version_id": "12"}, "1.6", ""),
        ({"id": "debian", "version_id": "13"}, "1.7", ""),
        ({"id": "debian", "version_id": "12"}, "2.3", "debian 12 carries containerd 1.6"),
        ({"id": "rocky", "version_id": "9.5", "like": ["rhel"]}, "1.7", "rocky 9 carries no"),
        ({"id": "ubuntu", "version_id": "24.04"}, "1.7", ""),
    ],
)
def test_a_distribution_without_that_containerd_is_told(
    os: dict[str, Any], release: str, said: str
) -> None:
    given = site(
        kubernetes={"containerd": release},
        repositories={"containerd": {"source": "distribution"}},
    )
    (found,) = judged(facts(os=os), given)
    assert (found.status is Status.FAIL) == bool(said)
    assert said in found.cause


def swap(found: HostFacts) -> CheckResult:
    view = View(load_profile("hpc"), site(), {found.host: found})
    (result,) = judge_swap(view, site().host(found.host), found)
    return result.of("kubernetes.swap")


def test_swap_that_is_on_again_is_a_fault() -> None:
    result = swap(facts(ground={"ours": True, "swaps": {"/dev/zram0": 0}}))
    assert result.status is Status.FAIL
    assert "/dev/zram0" in result.cause
    assert swap(facts(ground={"ours": True})).status is Status.PASS


def test_swap_nobody_looked_at_is_not_good() -> None:
    assert swap(facts_of("head")).status is Status.NOT_ASSESSED
    broken = facts_of("head", ground=GOOD, errors={"ground": "no answer within 5 s"})
    assert swap(broken).status is Status.NOT_ASSESSED


def test_swap_of_a_container_is_its_machines() -> None:
    inside = facts(ground={"swaps": {"/dev/sda2": 1}}, os={"container": "nspawn"})
    assert swap(inside).status is Status.PASS
