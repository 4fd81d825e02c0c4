"""Kubernetes' checks: each trips on its fault, and a missing measurement is never a pass."""

from typing import Any

import pytest

from appliance.checks.check import HostCheck, View
from appliance.config.load import load_profile
from appliance.mig.node import REASON
from appliance.models.drain import Why
from appliance.models.result import CheckResult, Status
from appliance.stages.fabric.cabling import Known, Plug, Socket, found_cables
from appliance.stages.fabric.checks import subnet
from appliance.stages.fabric.facts import Topology
from appliance.stages.fabric.switch_tree import FAMILY
from appliance.stages.kubernetes import checks as kubernetes
from appliance.stages.kubernetes.facts import Kubernetes, KubernetesNode
from tests.support.judging import said_by
from tests.support.kubernetes_facts import SITE, facts
from tests.support.sites import site_of

NAMES = tuple(host.name for host in SITE.hosts)


def node(name: str, **given: Any) -> KubernetesNode:
    owner = SITE.owner(SITE.host(name)).value if name in NAMES else "kubernetes"
    good = {"name": name, "ready": True, "version": "v1.35.2", "owner": owner}
    return KubernetesNode(**{**good, **given})


ALL = tuple(node(name) for name in NAMES)


def answer(control: bool = False, **given: Any) -> Kubernetes:
    good: dict[str, Any] = {
        "version": "v1.35.2",
        "kubelet": "ok",
        "dns": "ok",
        "certificates": {"/etc/kubernetes/pki/ca.crt": 300.0},
    }
    if control:
        good |= {"api": "ok", "nodes": ALL, "backups": 3, "backup_age_h": 1.0}
    return Kubernetes(**{**good, **given})


def view(**head: Any) -> View:
    seen = {name: facts(name, answer()) for name in ("gpu-1", "gpu-2")}
    return View(load_profile("hpc"), SITE, {**seen, "head": facts("head", answer(True, **head))})


def judge(check_id: str, seen: View) -> dict[str, CheckResult]:
    return {r.target: r for r in said_by(check_id, seen)}


def on_head(check_id: str, cluster: Kubernetes | None, **given: Any) -> CheckResult:
    seen = View(
        load_profile("hpc"), SITE, {**view().facts, "head": facts("head", cluster, **given)}
    )
    return judge(check_id, seen)["head"]


OWN = [check.id for check in kubernetes.CHECKS if check.id != "kubernetes.external"]


@pytest.mark.parametrize("check_id", OWN)
def test_a_good_cluster_passes(check_id: str) -> None:
    seen = view()
    if check_id == "kubernetes.topology":
        seen = View(load_profile("balanced"), SITE, seen.facts)
    assert {r.status for r in judge(check_id, seen).values()} == {Status.PASS}


@pytest.mark.parametrize(
    ("check_id", "fault", "cause"),
    [
        (
            "kubernetes.kubelet",
            {"kubelet": "does not answer: Connection refused"},
            "does not answer",
        ),
        ("kubernetes.dns", {"dns": "10.96.0.10 does not answer: timed out"}, "10.96.0.10"),
        ("kubernetes.api", {"api": "etcd failed: reason withheld"}, "etcd failed"),
        ("kubernetes.certificates", {"certificates": {"/a.crt": 300.0, "/b.crt": 3.0}}, "/b.crt"),
        ("kubernetes.certificates", {"certificates": {"/b.crt": -2.0}}, "expired 2 days ago"),
        ("kubernetes.certificates", {"certificates": {"/b.crt": -0.0}}, "within the last day"),
        ("kubernetes.backup", {"backups": 0, "backup_age_h": None}, "no backup"),
        ("kubernetes.backup", {"backup_age_h": 12.5}, "12 h old"),
    ],
)
def test_a_host_says_what_is_wrong(check_id: str, fault: dict[str, Any], cause: str) -> None:
    result = on_head(check_id, answer(True, **fault))
    assert result.status is Status.FAIL
    assert cause in result.cause
    assert result.fix


def test_a_node_without_its_network_gets_its_files_again() -> None:
    said = "container runtime network not ready: Network plugin returns error: cni plugin not initialized"
    seen = view(nodes=(node("head"), node("gpu-1", ready=False, reason=said), node("gpu-2")))
    found = judge("kubernetes.nodes", seen)["gpu-1"]
    assert found.fix.startswith("appliance deploy --hosts gpu-1 writes the network's files again")


def test_the_program_that_has_taken_kubelet_s_port_is_to_be_ended() -> None:
    said = "does not answer: Connection refused; port 10250 is taken by nc"
    result = on_head("kubernetes.kubelet", answer(True, kubelet=said))
    assert result.cause == f"kubelet {said}"
    assert result.fix.startswith("on head: ss -ltnp 'sport = :10250' shows that program: end it")


@pytest.mark.parametrize(("stopped", "fix"), [(True, "appliance etcd abandon"), (False, "crictl")])
def test_an_api_that_a_restore_has_stopped_is_started_by_the_restore(
    stopped: bool, fix: str
) -> None:
    result = on_head("kubernetes.api", answer(True, api="x", stopped=stopped))
    assert (result.status, result.cause) == (Status.FAIL, "the API is not ready: x")
    assert fix in result.fix


def test_a_damaged_kubeconfig_is_no_fault_of_the_api_and_kubeadm_writes_another() -> None:
    said = "/etc/kubernetes/admin.conf: its certificate or key is damaged"
    result = on_head("kubernetes.api", answer(True, api=said))
    assert (result.status, result.cause) == (Status.FAIL, f"the API was not queried: {said}")
    assert "kubeadm init phase kubeconfig admin" in result.fix


@pytest.mark.parametrize(
    ("check_id", "gap"),
    [
        ("kubernetes.kubelet", {"kubelet": ""}),
        ("kubernetes.dns", {"dns": ""}),
        ("kubernetes.api", {"api": None}),
        ("kubernetes.certificates", {"certificates": {}}),
        ("kubernetes.backup", {"backups": None}),
    ],
)
def test_what_was_not_measured_is_not_assessed(check_id: str, gap: dict[str, Any]) -> None:
    assert on_head(check_id, answer(True, **gap)).status is Status.NOT_ASSESSED


def test_a_certificate_that_could_not_be_read_keeps_the_others_from_passing() -> None:
    at = "/var/lib/kubelet/pki/kubelet-client-current.pem"
    unread = f"{at}: openssl failed with 1"
    problem = {"area": "kubernetes", "text": unread, "at": at}
    result = on_head("kubernetes.certificates", answer(True), problems=[problem])
    assert (result.status, result.cause) == (Status.NOT_ASSESSED, unread)
    other = {"kubernetes": "kubectl printed no list of nodes"}
    assert on_head("kubernetes.certificates", answer(True), errors=other).status is Status.PASS


def test_nodes_that_could_not_be_read_are_not_assessed_with_the_reason() -> None:
    head = facts("head", answer(True, nodes=None), errors={"kubernetes": "kubectl timed out"})
    results = judge("kubernetes.nodes", View(load_profile("hpc"), SITE, {"head": head}))
    assert {r.cause for r in results.values()} == {"kubectl timed out"}


@pytest.mark.parametrize(
    "check_id",
    [c.id for c in kubernetes.CHECKS if isinstance(c, HostCheck) and c.id != "kubernetes.topology"],
)
def test_a_host_without_kubelet_is_not_assessed_with_the_reason(check_id: str) -> None:
    result = on_head(check_id, None, errors={"kubernetes": "no answer within 15 s"})
    assert result.status is Status.NOT_ASSESSED
    assert result.cause == "no answer within 15 s"
    assert "no kubelet" in on_head(check_id, None).cause


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        ({"ready": False, "reason": "container runtime is down"}, "container runtime is down"),
        ({"cordoned": True}, "cordoned"),
        ({"owner": "slurm"}, "its owner in the site is kubernetes"),
    ],
)
def test_a_node_that_takes_no_work_is_named(given: dict[str, Any], cause: str) -> None:
    seen = view(nodes=(node("head"), node("gpu-1", **given), node("gpu-2")))
    found = judge("kubernetes.nodes", seen)
    assert found["gpu-1"].status is Status.FAIL
    assert cause in found["gpu-1"].cause
    assert found["gpu-2"].status is Status.PASS


@pytest.mark.parametrize(
    ("reason", "status", "fix"),
    [
        ("", Status.FAIL, "kubectl uncordon gpu-1"),
        (Why.UPGRADE.value, Status.FAIL, "appliance deploy continues"),
        (REASON, Status.WARN, "wait a minute"),
    ],
)
def test_who_has_cordoned_a_node_gives_it_back(reason: str, status: Status, fix: str) -> None:
    node_ = node("gpu-1", cordoned=True, cordoned_for=reason)
    found = judge("kubernetes.nodes", view(nodes=(node("head"), node_, node("gpu-2"))))["gpu-1"]
    assert (found.status, found.value) == (status, "cordoned")
    assert reason in found.cause
    assert found.fix.startswith(fix if reason else "when its reason no longer applies")


@pytest.mark.parametrize(
    ("name", "days", "fix"),
    [
        (
            "/etc/kubernetes/pki/apiserver.crt",
            3.0,
            "to renew it now: appliance-certificates --days 365",
        ),
        ("/etc/kubernetes/pki/apiserver.crt", -3.0, "appliance-certificates --days 365 renews it"),
        ("/etc/kubernetes/pki/front-proxy-ca.crt", 3.0, "Manual Rotation of CA"),
        ("/var/lib/kubelet/pki/kubelet-client-current.pem", 3.0, "system:node:head"),
    ],
)
def test_each_certificate_has_the_renewal_that_renews_it(name: str, days: float, fix: str) -> None:
    assert fix in on_head("kubernetes.certificates", answer(True, certificates={name: days})).fix


def test_a_host_the_cluster_does_not_know_fails() -> None:
    found = judge("kubernetes.nodes", view(nodes=(node("head"), node("gpu-2"))))
    assert found["gpu-1"].status is Status.FAIL
    assert "no node gpu-1" in found["gpu-1"].cause


@pytest.mark.parametrize("check_id", ["kubernetes.nodes", "kubernetes.versions"])
def test_without_an_answer_of_the_api_nothing_is_known_of_nodes(check_id: str) -> None:
    found = judge(check_id, view(nodes=None, api="no answer"))
    assert {r.status for r in found.values()} == {Status.NOT_ASSESSED}
    assert {r.cause for r in found.values()} == {"no answer"}
    silent = View(load_profile("hpc"), SITE, {})
    assert {r.status for r in judge(check_id, silent).values()} == {Status.NOT_ASSESSED}


def test_an_upgrade_that_was_not_finished_is_told() -> None:
    mixed = (node("head"), node("gpu-1", version="v1.34.7"), node("gpu-2"))
    (result,) = judge("kubernetes.versions", view(nodes=mixed)).values()
    assert result.status is Status.FAIL
    assert "v1.34.7 and v1.35.2" in result.cause
    (unsaid,) = judge("kubernetes.versions", view(nodes=(node("head", version=""),))).values()
    assert unsaid.status is Status.NOT_ASSESSED


LEAVES = {"gpu-1": "leaf-1", "gpu-2": "leaf-2"}
PLACES = {host: {f"{FAMILY}1": leaf, f"{FAMILY}2": "spine-1"} for host, leaf in LEAVES.items()}


def cabled(leaves: dict[str, str] = LEAVES) -> Topology:
    """Discovery of one cable per host, and of a spine above all leaves."""
    cables = [(f"{host} mlx5_0", leaf) for host, leaf in leaves.items()]
    trunks = [(leaf, "spine-1") for leaf in sorted(set(LEAVES.values()))]
    names = [*sorted(set(LEAVES.values())), "spine-1"]
    return Topology.model_validate(
        {
            "hcas": [{"guid": "0x1", "description": end, "ports": 1} for end, _ in cables],
            "switches": [{"guid": "0x2", "description": name, "ports": 40} for name in names],
            "links": [
                {"node": a, "port": n, "peer": b, "peer_port": n}
                for n, (a, b) in enumerate(cables + trunks, 1)
            ],
        }
    )


def placed(
    topology: Topology | None,
    labels: dict[str, dict[str, str]] = PLACES,
    profile: str = "hpc",
    **head: Any,
) -> dict[str, CheckResult]:
    """What is said of nodes with these labels."""
    nodes = tuple(node(name, tiers=labels.get(name, {})) for name in NAMES)
    seen = view(**{"nodes": nodes, **head})
    control = seen.facts["head"].model_copy(update={"topology": topology})
    known = View(load_profile(profile), SITE, {**seen.facts, "head": control})
    return judge("kubernetes.topology", known)


def test_nodes_labelled_as_discovery_says_pass() -> None:
    found = placed(cabled())
    assert {name: r.status for name, r in found.items()} == dict.fromkeys(LEAVES, Status.PASS)
    assert found["gpu-1"].value == "tier-1 leaf-1, tier-2 spine-1"


def test_the_fabric_is_walked_once_for_all_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    walks: list[int] = []

    def walked(known: Known, topology: Topology, accepted: Known) -> dict[Plug, Socket]:
        walks.append(len(known))
        return found_cables(known, topology, accepted)

    monkeypatch.setattr(subnet, "found_cables", walked)
    assert len(placed(cabled())) == len(LEAVES) > 1
    assert len(walks) == 1


def test_a_label_that_differs_is_named_with_both_values() -> None:
    found = placed(cabled(), {**PLACES, "gpu-2": {f"{FAMILY}1": "leaf-1"}})
    assert found["gpu-1"].status is Status.PASS
    assert found["gpu-2"].status is Status.FAIL
    assert (
        found["gpu-2"].cause
        == "its labels are tier-1 leaf-1, discovery found tier-1 leaf-2, tier-2 spine-1"
    )
    assert placed(cabled(), {})["gpu-1"].value == "none"


def test_where_the_class_has_no_fabric_a_label_left_over_fails() -> None:
    assert placed(None, {}, "balanced")["gpu-1"].status is Status.PASS
    assert placed(None, PLACES, "balanced")["gpu-1"].status is Status.FAIL


@pytest.mark.parametrize(
    ("topology", "head", "cause"),
    [
        (None, {}, "no control host could discover"),
        (cabled({"gpu-1": "leaf-1"}), {}, "does not find gpu-2"),
        (cabled(), {"nodes": None, "api": "no answer"}, "no answer"),
        (cabled(), {"nodes": (node("head"),)}, "no node gpu-1"),
    ],
)
def test_a_place_or_a_label_nobody_knows_is_not_judged(
    topology: Topology | None, head: dict[str, Any], cause: str
) -> None:
    found = placed(topology, **head)["gpu-1"]
    assert found.status is Status.NOT_ASSESSED
    assert cause in found.cause


def test_a_taint_that_keeps_pods_away_is_a_warning_with_its_removal() -> None:
    tainted = node("gpu-1", taints=("corp=x:NoSchedule", "other:NoExecute"))
    found = judge("kubernetes.nodes", view(nodes=(node("head"), tainted, node("gpu-2"))))["gpu-1"]
    assert found.status is Status.WARN
    assert found.fix.endswith("kubectl taint nodes gpu-1 corp=x:NoSchedule- other:NoExecute-")


THREE = site_of(
    *("head", "head-2", "head-3", "gpu-1"),
    kubernetes={"version": "1.35"},
)


@pytest.mark.parametrize(
    ("said", "named"),
    [("etcd failed, etcd-readiness failed", ("head-2",)), ("poststarthook failed", ())],
)
def test_an_api_without_etcd_names_the_control_hosts_that_are_silent(
    said: str, named: tuple[str, ...]
) -> None:
    seen = {name: facts(name, answer(True, api=said)) for name in ("head", "head-3")}
    check = next(one for one in kubernetes.CHECKS if one.id == "kubernetes.api")
    assert isinstance(check, HostCheck)
    known = View(load_profile("hpc"), THREE, seen)
    found = [check.results(known, THREE.host(name), seen[name]) for name in seen]
    assert [result.names for results in found for result in results] == [named, named]


@pytest.mark.parametrize(
    ("lacks", "fix"),
    [("disk", "appliance deploy --hosts gpu-1"), ("memory", "--sort=-rss"), ("process IDs", "end")],
)
def test_a_node_whose_kubelet_lacks_something_fails_though_it_is_ready(
    lacks: str, fix: str
) -> None:
    pressed = node("gpu-1", pressure=(lacks,), cordoned=True)
    found = judge("kubernetes.nodes", view(nodes=(node("head"), pressed, node("gpu-2"))))["gpu-1"]
    assert (found.status, found.value) == (Status.FAIL, "pressure")
    assert f"{lacks} pressure" in found.cause
    assert fix in found.fix
    assert "gpu-1" in found.fix
