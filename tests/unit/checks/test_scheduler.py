"""The scheduler's checks: each trips on its fault, and a missing measurement is never a pass."""

from dataclasses import replace
from typing import Any

import pytest

from appliance.checks.check import View
from appliance.config.load import load_profile
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult, Status
from appliance.models.site import Site
from appliance.stages.scheduler import checks as scheduler
from appliance.stages.scheduler.facts import HelmRelease, ReleasePod, SchedulerFacts, SharedTree
from appliance.stages.scheduler.queues.trees import OPTIONS
from tests.judging import said_by
from tests.sites import site_of
from tests.unit.checks.test_kubernetes import facts

PROFILE = load_profile("hpc")
POOL = [{"name": "cut", "hosts": ["gpu-1"], "mig": "single"}]


def site(**scheduler_options: Any) -> Site:
    """Two GPU hosts of Kubernetes and one of Slurm."""
    theirs = {"name": "gpu-3", "owner": "slurm"}
    server = {"name": "head", "roles": ["control", "storage"]}
    shared = {"exports": [{"path": "/srv/shared"}]}
    return site_of(
        server, "gpu-1", "gpu-2", theirs, kubernetes={}, scheduler=scheduler_options, storage=shared
    )


def with_gpus(host: str, count: int, **first: Any) -> HostFacts:
    """A GPU host with so many GPUs, the first of which is as given."""
    devices = [
        {"index": i, "uuid": f"u{i}", "name": "g", "bus_id": "b", "memory": 1} for i in range(count)
    ]
    devices[0] |= first
    return facts(host, None, gpus={"driver": "580", "nvml": "12", "devices": devices})


WANTED = scheduler.wanted(View(PROFILE, site(), {}))
RELEASES = tuple(
    HelmRelease(
        name=r.name,
        namespace=r.namespace,
        revision=2,
        status="deployed",
        chart=r.name,
        version=r.version or "",
    )
    for r in WANTED
)
PODS = tuple(ReleasePod(name=f"{r.name}-0", namespace=r.namespace, ready=True) for r in WANTED)
GPUS = {"head": 0, "gpu-1": 8, "gpu-2": 8, "gpu-3": 8}
RDMA = {"head": 0, "gpu-1": 64, "gpu-2": 64, "gpu-3": 0}


TREE = SharedTree(
    name="appliance-tree-home",
    namespace="kai-team",
    phase="Bound",
    volume="kai-team.appliance-tree-home",
    server="10.0.0.10",
    path="/srv/shared/home",
    options=(*OPTIONS, "ro"),
    held=True,
)
TEAM = {
    "name": "team",
    "queues": [{"name": "train"}],
    "trees": [{"name": "home", "export": "/srv/shared", "path": "home", "read_only": True}],
}


def view(options: Any = None, head: Any = None, **known: Any) -> View:
    """A site whose control plane says this."""
    good = {
        "releases": RELEASES,
        "pods": PODS,
        "gpus": GPUS,
        "gpu_parts": {},
        "rdma": RDMA,
        "trees": (TREE,),
        **known,
    }
    told = SchedulerFacts(**good).model_dump()
    seen = {name: with_gpus(name, 8) for name in ("gpu-1", "gpu-2", "gpu-3")}
    said = {"scheduler": told} if head is None else head
    chosen = {"projects": [TEAM], **(options or {})}
    return View(PROFILE, site(**chosen), {**seen, "head": facts("head", None, **said)})


def judge(check_id: str, seen: View) -> dict[str, CheckResult]:
    return {r.target: r for r in said_by(check_id, seen)}


def changed(name: str, **given: Any) -> tuple[HelmRelease, ...]:
    return tuple(r.model_copy(update=given) if r.name == name else r for r in RELEASES)


@pytest.mark.parametrize("check", [c.id for c in scheduler.CHECKS])
def test_a_scheduler_in_order_passes(check: str) -> None:
    found = judge(check, view())
    assert {r.status for r in found.values()} == {Status.PASS}
    of_hosts = {name: {"gpu-1", "gpu-2"} for name in ("scheduler.gpus", "scheduler.rdma")}
    others = {**of_hosts, "scheduler.trees": {"head/kai-team/appliance-tree-home"}}
    assert set(found) == others.get(check, {f"head/{r.name}" for r in WANTED})


@pytest.mark.parametrize("gpus", [[], [{"mig_enabled": True, "mig": None}]])
def test_gpus_that_are_not_known_on_the_host_are_not_called_offered(gpus: Any) -> None:
    plain = {"index": 0, "uuid": "u", "name": "g", "bus_id": "b", "memory": 1}
    devices = [plain | gpu for gpu in gpus]
    own = facts("gpu-1", None, gpus={"driver": "580", "nvml": "12", "devices": devices})
    seen = view(gpus={**GPUS, "gpu-1": 0})
    result = judge("scheduler.gpus", replace(seen, facts={**seen.facts, "gpu-1": own}))["gpu-1"]
    assert result.status is Status.NOT_ASSESSED


@pytest.mark.parametrize("check", [c.id for c in scheduler.CHECKS])
@pytest.mark.parametrize("head", [{}, {"errors": {"scheduler": "connection refused"}}])
def test_what_was_not_asked_is_not_assessed(check: str, head: dict[str, Any]) -> None:
    found = judge(check, view(head=head))
    assert {r.status for r in found.values()} == {Status.NOT_ASSESSED}
    assert all(r.cause for r in found.values())
    silent = view()
    found = judge(check, View(PROFILE, silent.site, {}))
    assert {r.cause for r in found.values()} == {"head, a control plane, did not answer"}


def test_what_was_read_in_part_is_not_assessed_for_the_rest() -> None:
    known = SchedulerFacts(releases=RELEASES).model_dump()
    half = view(head={"scheduler": known, "errors": {"scheduler": "kubectl: no answer"}})
    assert judge("scheduler.releases", half)["head/kai-scheduler"].status is Status.PASS
    pods = judge("scheduler.pods", half)["head/kai-scheduler"]
    assert (pods.status, pods.cause) == (Status.NOT_ASSESSED, "kubectl: no answer")
    for check in ("scheduler.gpus", "scheduler.rdma"):
        nodes = judge(check, half)["gpu-1"]
        assert (nodes.status, nodes.cause) == (Status.NOT_ASSESSED, "kubectl: no answer")


def test_pods_nobody_asked_for_are_not_called_missing() -> None:
    others = tuple(r for r in RELEASES if r.name != "kai-scheduler")
    pods = tuple(p for p in PODS if p.namespace != "kai-scheduler")
    found = judge("scheduler.pods", view(releases=others, pods=pods))
    unasked = found.pop("head/kai-scheduler")
    assert (unasked.status, unasked.cause) == (
        Status.NOT_ASSESSED,
        "kai-scheduler is not installed, so its pods were not asked for",
    )
    assert {r.status for r in found.values()} == {Status.PASS}


@pytest.mark.parametrize(
    ("found", "cause"),
    [
        (changed("kai-scheduler", namespace="other"), "kai-scheduler is not installed"),
        (
            changed("kai-scheduler", status="pending-upgrade"),
            "revision 2 of kai-scheduler is pending-upgrade",
        ),
        (changed("kai-scheduler", version="v0.1.0"), "kai-scheduler is v0.1.0, the site's is "),
    ],
)
def test_a_release_that_is_not_the_sites_fails(found: tuple[HelmRelease, ...], cause: str) -> None:
    results = judge("scheduler.releases", view(releases=found))
    bad = results.pop("head/kai-scheduler")
    assert (bad.status, bad.fix) == (Status.FAIL, "appliance deploy")
    assert bad.cause.startswith(cause)
    assert {r.status for r in results.values()} == {Status.PASS}


def test_a_chart_that_leaves_the_v_out_of_its_version_is_the_same() -> None:
    found = tuple(r.model_copy(update={"version": r.version.lstrip("v")}) for r in RELEASES)
    results = judge("scheduler.releases", view(releases=found))
    assert {r.status for r in results.values()} == {Status.PASS}


def test_pods_that_are_not_ready_fail_by_name_and_so_does_a_release_without_any() -> None:
    sick = [
        ReleasePod(name=f"p{i}", namespace="gpu-operator", ready=False, reason="ErrImagePull: x")
        for i in range(5)
    ]
    pods = [p for p in PODS if p.namespace != "kai-scheduler"] + sick
    found = judge("scheduler.pods", view(pods=tuple(pods)))
    assert found["head/kai-scheduler"].cause == "namespace kai-scheduler has no pod"
    bad = found["head/gpu-operator"]
    assert bad.cause == (
        "not ready: p0 (ErrImagePull: x), p1 (ErrImagePull: x), p2 (ErrImagePull: x) and 2 more"
    )
    assert (bad.status, bad.value, bad.limit) == (Status.FAIL, 1, 6)


def test_gpus_that_the_cluster_does_not_give_out_fail() -> None:
    found = judge("scheduler.gpus", view(gpus={"head": 0, "gpu-1": 7}))
    assert found["gpu-1"].cause == "the cluster may give out 7 nvidia.com/gpu, the host has 8"
    assert found["gpu-2"].cause == "the cluster has no node gpu-2"
    assert {r.status for r in found.values()} == {Status.FAIL}


def test_a_host_whose_gpus_are_unknown_is_not_assessed() -> None:
    seen = view()
    without = {**seen.facts, "gpu-1": facts("gpu-1", None)}
    found = judge("scheduler.gpus", View(PROFILE, seen.site, without))
    assert found["gpu-1"].status is Status.NOT_ASSESSED


def divided(
    strategy: str, offered: int, parts: Any, profile: str = "3g.40gb", host: str = "gpu-1"
) -> CheckResult:
    """A host with two parts in one of its eight GPUs, gpu-1 in a pool of that strategy, and what the cluster may give out of it."""
    made = [
        {"profile": profile, "profile_id": 9, "start": i * 4, "size": 4, "id": i} for i in range(2)
    ]
    cut = with_gpus(host, 8, mig_enabled=True, mig=made)
    pools = [{**POOL[0], "mig": strategy}]
    seen = view({"node_pools": pools}, gpus={**GPUS, host: offered}, gpu_parts=parts)
    return judge("scheduler.gpus", View(PROFILE, seen.site, {**seen.facts, host: cut}))[host]


@pytest.mark.parametrize(
    ("strategy", "offered", "parts", "value"),
    [
        ("single", 9, None, 9),
        ("none", 9, None, 9),
        ("mixed", 7, {"gpu-1": {"mig-3g.40gb": 2}}, "7 nvidia.com/gpu, 2 nvidia.com/mig-3g.40gb"),
    ],
)
def test_a_divided_gpu_counts_as_the_strategy_says(
    strategy: str, offered: int, parts: Any, value: Any
) -> None:
    found = divided(strategy, offered, parts)
    assert (found.status, found.value, found.limit) == (Status.PASS, value, value)


def test_the_strategy_is_the_clusters_on_hosts_of_no_pool_too() -> None:
    found = divided("mixed", 7, {"gpu-2": {"mig-1g.10gb.me": 2}}, "1g.10gb+me", "gpu-2")
    assert found.status is Status.PASS


@pytest.mark.parametrize(
    "parts", [{}, {"gpu-1": {"mig-3g.40gb": 1}}, {"gpu-1": {"mig-1g.10gb": 2}}]
)
def test_parts_the_cluster_may_not_give_out_are_missing(parts: Any) -> None:
    found = divided("mixed", 7, parts)
    assert found.status is Status.FAIL
    assert found.cause.endswith("the host has 7 nvidia.com/gpu, 2 nvidia.com/mig-3g.40gb")


def test_parts_nobody_read_are_not_assessed() -> None:
    assert divided("mixed", 7, None).status is Status.NOT_ASSESSED


def test_adapters_are_counted_on_hosts_of_kubernetes_alone() -> None:
    found = judge("scheduler.rdma", view())
    assert {name: r.status for name, r in found.items()} == {
        "gpu-1": Status.PASS,
        "gpu-2": Status.PASS,
    }


@pytest.mark.parametrize(
    ("rdma", "status", "said"),
    [
        ({**RDMA, "gpu-1": 0}, Status.FAIL, "pods there do not reach the fabric"),
        ({"gpu-2": 64}, Status.FAIL, "no node gpu-1"),
        (None, Status.NOT_ASSESSED, "not read"),
    ],
)
def test_a_host_whose_adapters_pods_cannot_have_is_no_pass(
    rdma: Any, status: Status, said: str
) -> None:
    found = judge("scheduler.rdma", view(rdma=rdma))["gpu-1"]
    assert (found.status, said in found.cause) == (status, True)


def test_a_host_that_gives_out_no_adapter_says_which_pods_to_look_at() -> None:
    fix = judge("scheduler.rdma", view(rdma={**RDMA, "gpu-1": 0}))["gpu-1"].fix
    assert fix == (
        "kubectl get nicclusterpolicy nic-cluster-policy -o yaml; kubectl -n network-operator get pods -o wide "
        "--field-selector spec.nodeName=gpu-1"
    )


def test_adapters_left_to_the_hosts_network_are_not_judged() -> None:
    assert judge("scheduler.rdma", view({"rdma": "host"}, rdma=None)) == {}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (None, "kai-team has no claim appliance-tree-home"),
        ({"namespace": "kai-other"}, "kai-team has no claim appliance-tree-home"),
        (
            {"server": ""},
            "volume kai-team.appliance-tree-home of claim appliance-tree-home is gone",
        ),
        ({"phase": "Lost"}, "the claim appliance-tree-home is Lost"),
        ({"phase": ""}, "the claim appliance-tree-home is not bound"),
        (
            {"path": "/srv/shared"},
            "mounts 10.0.0.10:/srv/shared, the site says 10.0.0.10:/srv/shared/home",
        ),
        ({"server": "10.0.0.9"}, "mounts 10.0.0.9:/srv/shared/home, the site says 10.0.0.10:"),
        (
            {"options": OPTIONS},
            "is mounted with nfsvers=4.2,proto=tcp,hard,noatime,nconnect=8, the site says",
        ),
        ({"options": ()}, "is mounted with no option"),
        ({"held": False}, "is not kept for kai-team/appliance-tree-home alone"),
    ],
)
def test_a_tree_that_is_missing_or_another_fails(changed: Any, said: str) -> None:
    trees = () if changed is None else (TREE.model_copy(update=changed),)
    found = judge("scheduler.trees", view(trees=trees))["head/kai-team/appliance-tree-home"]
    assert (found.status, said in found.cause) == (Status.FAIL, True), found.cause
    assert "appliance queue apply" in found.fix


def test_trees_nobody_read_are_not_assessed_and_a_site_without_has_none() -> None:
    (found,) = judge("scheduler.trees", view(trees=None)).values()
    assert (found.status, "were not read" in found.cause) == (Status.NOT_ASSESSED, True)
    assert judge("scheduler.trees", view({"projects": []})) == {}
