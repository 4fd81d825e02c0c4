"""The scheduler's checks: each trips on its fault, and a missing measurement is never a pass."""

import json
from typing import Any

import pytest

from appliance.checks.check import View
from appliance.config.load import load_profile
from appliance.models.result import CheckResult, Status
from appliance.stages.kubernetes.facts import Kubernetes, KubernetesNode, ReleasePod, Workload
from appliance.stages.scheduler import checks as scheduler
from appliance.stages.scheduler.facts import (
    HelmRelease,
    LiveQueue,
    SchedulerFacts,
    SharedTree,
)
from appliance.stages.scheduler.queues.trees import OPTIONS
from appliance.stages.scheduler.submissions import submissions_of
from tests.support.judging import said_by
from tests.support.kubernetes_facts import facts
from tests.support.scheduler_site import site

PROFILE = load_profile("hpc")
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
    "users": ["ada"],
    "queues": [{"name": "train"}],
    "trees": [{"name": "home", "export": "/srv/shared", "path": "home", "read_only": True}],
}


QUEUES = (
    LiveQueue(name="team", gpu_quota=0, gpu_limit=-1),
    LiveQueue(name="team-train", parent="team", gpu_quota=0, gpu_limit=-1),
)


def view(options: Any = None, head: Any = None, **known: Any) -> View:
    """A site whose control plane says this."""
    good = {
        "releases": RELEASES,
        "pods": PODS,
        "rdma": RDMA,
        "trees": (TREE,),
        "queues": QUEUES,
        "submissions": {"kai-team": ""},
        **known,
    }
    told = SchedulerFacts(**good).model_dump()
    seen = {name: facts(name, None) for name in ("gpu-1", "gpu-2", "gpu-3")}
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
    others = {
        "scheduler.rdma": {"gpu-1", "gpu-2"},
        "scheduler.trees": {"head/kai-team/appliance-tree-home"},
        "scheduler.members": {"head/project team", "head/queue team", "head/queue team-train"},
    }
    assert set(found) == others.get(check, {f"head/{r.name}" for r in WANTED})


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
    nodes = judge("scheduler.rdma", half)["gpu-1"]
    assert (nodes.status, nodes.cause) == (Status.NOT_ASSESSED, "kubectl: no answer")


def test_pods_nobody_asked_for_are_not_called_missing() -> None:
    others = tuple(r for r in RELEASES if r.name != "kai-scheduler")
    pods = tuple(p for p in PODS if p.namespace != "kai-scheduler")
    found = judge("scheduler.pods", view(releases=others, pods=pods))
    unasked = found.pop("head/kai-scheduler")
    assert (unasked.status, unasked.cause) == (
        Status.NOT_ASSESSED,
        "kai-scheduler is not installed, so its pods were not read",
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
        ReleasePod(
            name=f"p{i}", namespace="network-operator", ready=False, reason="ErrImagePull: x"
        )
        for i in range(5)
    ]
    pods = [p for p in PODS if p.namespace != "kai-scheduler"] + sick
    found = judge("scheduler.pods", view(pods=tuple(pods)))
    assert found["head/kai-scheduler"].cause == "namespace kai-scheduler has no pod"
    bad = found["head/network-operator"]
    assert bad.cause == (
        "not ready: p0 (ErrImagePull: x), p1 (ErrImagePull: x), p2 (ErrImagePull: x) and 2 more"
    )
    assert (bad.status, bad.value, bad.limit) == (Status.FAIL, 1, 6)


def test_pods_that_no_host_accepts_are_told_from_pods_that_fail_on_a_host() -> None:
    reason = "0/2 nodes are available: 2 node(s) had untolerated taint(s)."
    pod = ReleasePod(name="p", namespace="network-operator", ready=False, reason=reason)
    found = judge("scheduler.pods", view(pods=(*PODS, pod)))["head/network-operator"]
    assert (found.status, found.value) == (Status.FAIL, "Unschedulable")
    assert reason in found.cause


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
            "volume kai-team.appliance-tree-home of claim appliance-tree-home is missing",
        ),
        ({"phase": "Lost"}, "the claim appliance-tree-home is Lost"),
        ({"phase": ""}, "the claim appliance-tree-home is not bound"),
        (
            {"path": "/srv/shared"},
            "mounts 10.0.0.10:/srv/shared, the site has 10.0.0.10:/srv/shared/home",
        ),
        ({"server": "10.0.0.9"}, "mounts 10.0.0.9:/srv/shared/home, the site has 10.0.0.10:"),
        (
            {"options": OPTIONS},
            "is mounted with nfsvers=4.2,proto=tcp,hard,noatime,nconnect=8, the site has",
        ),
        ({"options": ()}, "is mounted with no option"),
        ({"held": False}, "is not reserved for kai-team/appliance-tree-home"),
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


def member(said: str) -> CheckResult:
    """The verdict on the project by what the API said of a member's pod."""
    return judge("scheduler.members", view(submissions={"kai-team": said}))["head/project team"]


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ('403: pods is forbidden: User "ada" cannot create resource "pods"', "queue apply"),
        ("403: no PriorityClass with name train was found", "queue apply"),
        ("403: exceeded quota: site, requested: pods=1", "-n kai-team delete resourcequota site"),
        ("403: maximum memory usage per Container is 1Mi", "-n kai-team get limitrange"),
        (
            '500: Internal error occurred: failed calling webhook "corp.example.com": refused',
            "start the service of corp.example.com",
        ),
    ],
)
def test_a_member_whose_pod_is_refused_has_a_remedy_of_its_kind(said: str, fix: str) -> None:
    result = member(said)
    assert (result.status, result.cause) == (Status.FAIL, f"ada cannot submit a pod: {said}")
    assert fix in result.fix


def test_a_project_that_has_all_that_the_site_gives_it_is_no_fault() -> None:
    said = "403: exceeded quota: appliance, requested: pods=1, used: pods=500, limited: pods=500"
    assert member(said).status is Status.PASS


@pytest.mark.parametrize("limited", ["pods=0", "count/pods=1k,pods=499", "", "pods=many"])
def test_a_quota_of_the_appliance_that_was_made_smaller_is_no_project_at_its_limit(
    limited: str,
) -> None:
    said = f"403: exceeded quota: appliance, requested: pods=1, used: pods=0, limited: {limited}"
    result = member(said)
    assert result.status is Status.FAIL
    assert "queue apply" in result.fix


@pytest.mark.parametrize(
    "said",
    [
        'webhook "x" does not support dry run',
        "10.0.0.1:6443 did not answer within 5 s",
        "no answer: no reason given",
    ],
)
def test_what_the_api_did_not_decide_is_not_assessed(said: str) -> None:
    assert member(said).status is Status.NOT_ASSESSED


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"gpu_quota": 4}, "a quota of 4 GPUs, limit -1; the site has 0 GPUs, limit -1"),
        ({"gpu_limit": 0}, "limit 0; the site has"),
        ({"parent": "other"}, "its parent is other"),
        ({"name": "another"}, "the cluster has no queue team-train"),
    ],
)
def test_a_queue_that_was_changed_by_hand_is_named(change: dict[str, Any], cause: str) -> None:
    live = (QUEUES[0], QUEUES[1].model_copy(update=change))
    result = judge("scheduler.members", view(queues=live))["head/queue team-train"]
    assert result.status is Status.FAIL
    assert cause in result.cause


def test_a_host_in_the_wrong_pool_is_named() -> None:
    seen = view(head=None)
    node = KubernetesNode(name="gpu-1", ready=True, pool="other")
    known = seen.facts["head"].model_copy(update={"kubernetes": Kubernetes(nodes=(node,))})
    found = judge("scheduler.members", View(PROFILE, seen.site, {**seen.facts, "head": known}))[
        "head/node gpu-1"
    ]
    assert found.cause == "gpu-1 is in the node pool other; the site has default"


def test_a_deployment_without_replicas_is_named() -> None:
    stopped = ("kai-scheduler/kai-scheduler-default",)
    found = judge("scheduler.pods", view(stopped=stopped))["head/kai-scheduler"]
    assert found.cause == "deployment kai-scheduler-default is scaled to 0 replicas"
    assert "-n kai-scheduler scale deployment kai-scheduler-default" in found.fix


def test_a_release_whose_pods_are_refused_fails_though_the_others_are_ready() -> None:
    refused = Workload(
        name="binder",
        namespace="kai-scheduler",
        kind="Deployment",
        wanted=1,
        ready=0,
        why="pods is forbidden: exceeded quota: site, requested: pods=1",
    )
    found = judge("scheduler.pods", view(lacking=(refused,)))["head/kai-scheduler"]
    assert found.status is Status.FAIL
    assert found.cause == f"kai-scheduler/binder has 0 of 1 pod: {refused.why}"
    assert "kubectl -n kai-scheduler delete resourcequota site;" in found.fix


def test_a_member_submits_the_pod_that_the_policies_admit() -> None:
    (user, group, pod), *others = submissions_of(view().site).values()
    assert (user, group, others) == ("ada", "", [])
    made = json.loads(pod)
    assert made["metadata"]["labels"] == {"kai.scheduler/queue": "team-train"}
    assert made["spec"]["securityContext"]["runAsNonRoot"]
