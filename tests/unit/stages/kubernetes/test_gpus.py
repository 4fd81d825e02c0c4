"""The GPUs that the cluster offers: each fault trips the check, and what was not read is never a pass."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.certificates import KeyPair
from appliance.checks.check import View
from appliance.config.load import load_profile
from appliance.engine.run import prove
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult, Status
from appliance.models.site import Site
from appliance.probe.ask import Ask
from appliance.probe.problems import Unreadable
from appliance.stages.kubernetes import charts
from appliance.stages.kubernetes.collect import node
from appliance.stages.kubernetes.facts import Kubernetes, ReleasePod
from appliance.stages.scheduler.facts import HelmRelease, SchedulerFacts
from tests.support.authority import Authority
from tests.support.cluster_api import LIST, Cluster, Serve, serve
from tests.support.judging import said_by
from tests.support.kubernetes_facts import facts
from tests.support.probe_trees import grow
from tests.support.scheduler_site import site as with_scheduler
from tests.support.sites import site_of

__all__ = ["grow", "serve"]

Grow = Callable[[dict[str, Any]], str]
PROFILE = load_profile("hpc")
HOSTS = ("head", "gpu-1", {"name": "gpu-2", "owner": "slurm"})
EIGHT = {"gpu": 8}
PART = {"profile": "3g.40gb", "profile_id": 9, "size": 4}
SICK = ReleasePod(
    name="plugin-x7d", namespace="gpu-operator", ready=False, reason="ErrImagePull: no such image"
)


def site(**kubernetes: Any) -> Site:
    """A cluster without a scheduler."""
    return site_of(*HOSTS, kubernetes={"version": "1.35", **kubernetes})


def gpu_host(gives: Any, plugins: Any = None, **first: Any) -> HostFacts:
    """gpu-1 with eight GPUs, of which the first is as given, and what the API may give out of it."""
    plain = {"uuid": "u", "name": "g", "bus_id": "b", "memory": 1}
    devices = [{"index": i, **plain} for i in range(8)]
    devices[0] |= first
    known = Kubernetes(kubelet="ok", gives=gives, plugins=plugins)
    return facts("gpu-1", known, gpus={"driver": "580", "nvml": "12", "devices": devices})


def judged(host: HostFacts, of: Site | None = None) -> CheckResult:
    """The verdict on gpu-1; hosts of Slurm have none."""
    (found,) = said_by("kubernetes.gpus", View(PROFILE, of or site(), {"gpu-1": host}), "gpu-1")
    return found


def test_every_gpu_that_may_be_given_out_passes() -> None:
    found = judged(gpu_host(EIGHT))
    assert (found.status, found.value, found.limit) == (Status.PASS, 8, 8)


def test_a_host_of_slurm_is_not_judged() -> None:
    host = facts("gpu-2", Kubernetes(kubelet="ok", gives={"gpu": 0}))
    assert said_by("kubernetes.gpus", View(PROFILE, site(), {"gpu-2": host}), "gpu-2") == []


@pytest.mark.parametrize(
    ("gives", "plugins", "cause", "fix"),
    [
        (
            {"gpu": 7},
            None,
            "the cluster offers 7 nvidia.com/gpu, the host has 8: the device plugin has not registered all of them",
            "kubectl -n gpu-operator get pods -o wide --field-selector spec.nodeName=gpu-1",
        ),
        (
            {"gpu": 0},
            (SICK,),
            "the cluster offers 0 nvidia.com/gpu, the host has 8: pod plugin-x7d is not ready (ErrImagePull: no such image)",
            "kubectl -n gpu-operator describe pod plugin-x7d, then appliance deploy",
        ),
        (
            {"gpu": 0},
            (SICK.model_copy(update={"ready": True, "reason": ""}),),
            "the cluster offers 0 nvidia.com/gpu, the host has 8: the device plugin has not registered one",
            "kubectl -n gpu-operator get pods -o wide --field-selector spec.nodeName=gpu-1",
        ),
        (
            {"gpu": 0},
            (),
            "the cluster offers 0 nvidia.com/gpu, the host has 8: no pod of gpu-operator runs there",
            "kubectl -n gpu-operator get pods,daemonsets -o wide, then appliance deploy",
        ),
    ],
)
def test_gpus_that_the_cluster_does_not_give_out_fail_with_one_cause(
    gives: Any, plugins: Any, cause: str, fix: str
) -> None:
    found = judged(gpu_host(gives, plugins))
    assert (found.status, found.cause) == (Status.FAIL, cause)
    assert found.fix.startswith(fix)


def test_a_gpu_that_the_driver_has_lost_must_not_be_offered() -> None:
    lost = {"error": "GPU is lost"}
    assert judged(gpu_host({"gpu": 7}, **lost)).status is Status.PASS
    found = judged(gpu_host({"gpu": 8}, **lost))
    assert found.cause == (
        "the cluster offers 8 nvidia.com/gpu, the host has 7: pods can get GPUs that the driver cannot reach"
    )


@pytest.mark.parametrize("plugins", [(), (SICK,)])
def test_a_plugin_of_the_sites_own_is_named_and_no_chart_of_ours(plugins: Any) -> None:
    found = judged(gpu_host({"gpu": 0}, plugins), site(device_plugin="own"))
    assert found.cause.endswith("no device plugin has registered")
    assert "kubernetes.device_plugin: own" in found.fix
    assert "gpu-operator" not in found.fix


def test_the_plugin_without_the_operator_is_looked_for_in_its_own_namespace() -> None:
    found = judged(gpu_host({"gpu": 0}, (SICK,)), site(device_plugin="plugin"))
    assert found.cause.endswith("no pod of nvidia-device-plugin runs there")


@pytest.mark.parametrize(
    "host",
    [
        facts("gpu-1", None),
        facts("gpu-1", Kubernetes(kubelet="ok", gives=EIGHT)),
        gpu_host(None),
        gpu_host({"gpu": 7}, mig_enabled=True, mig=None),
    ],
    ids=["no kubelet", "no driver", "API not asked", "MIG not read"],
)
def test_what_is_not_known_is_no_pass_and_proves_no_stage(host: HostFacts) -> None:
    found = judged(host)
    assert (found.status, bool(found.cause)) == (Status.NOT_ASSESSED, True)
    assert prove._is_open(found)
    assert not prove._is_open(judged(gpu_host(EIGHT)))
    assert prove._is_open(judged(gpu_host({"gpu": 0})))


def parts(count: int) -> dict[str, Any]:
    """A GPU divided in so many parts."""
    made = [{**PART, "start": i * 4, "id": i} for i in range(count)]
    return {"mig_enabled": True, "mig": made}


@pytest.mark.parametrize(
    ("strategy", "gives", "good"),
    [
        ("single", {"gpu": 9}, True),
        ("none", {"gpu": 9}, True),
        ("mixed", {"gpu": 7, "mig-3g.40gb": 2}, True),
        ("mixed", {"gpu": 7}, False),
        ("mixed", {"gpu": 7, "mig-3g.40gb": 1}, False),
        ("mixed", {"gpu": 7, "mig-1g.10gb": 2}, False),
        ("single", {"gpu": 7}, False),
        ("", {"gpu": 7, "mig-3g.40gb": 2}, True),
        ("", {"gpu": 9}, False),
    ],
    ids=str,
)
def test_a_divided_gpu_counts_as_the_strategy_of_the_cluster_says(
    strategy: str, gives: Any, good: bool
) -> None:
    pools = [{"name": "cut", "hosts": ["gpu-1"], "mig": strategy}]
    of = with_scheduler(node_pools=pools) if strategy else site()
    found = judged(gpu_host(gives, **parts(2)), of)
    assert (found.status is Status.PASS) is good
    if not good and strategy != "single":
        assert "the host has 7 nvidia.com/gpu, 2 nvidia.com/mig-3g.40gb" in found.cause


def test_the_release_is_judged_by_the_control_host_that_installs_it() -> None:
    (wanted,) = charts.releases(site(), PROFILE)
    assert (wanted.name, wanted.namespace, wanted.version) == (
        *("gpu-operator", "gpu-operator"),
        "v26.3.2",
    )
    good = HelmRelease(
        name=wanted.name,
        namespace=wanted.namespace,
        revision=1,
        status="deployed",
        version=str(wanted.version),
    )

    def told(*releases: HelmRelease) -> CheckResult:
        known = SchedulerFacts(releases=releases).model_dump()
        head = facts("head", None, scheduler=known)
        (found,) = said_by("kubernetes.releases", View(PROFILE, site(), {"head": head}))
        return found

    assert told(good).status is Status.PASS
    assert told().cause == "gpu-operator is not installed"
    assert told(good.model_copy(update={"version": "v1.0.0"})).status is Status.FAIL


def test_pods_of_the_chart_that_are_not_ready_are_named() -> None:
    (wanted,) = charts.releases(site(), PROFILE)
    release = HelmRelease(
        name=wanted.name, namespace=wanted.namespace, revision=1, status="deployed"
    )
    known = SchedulerFacts(releases=(release,), pods=(SICK,)).model_dump()
    head = facts("head", None, scheduler=known)
    (found,) = said_by("kubernetes.gpu_pods", View(PROFILE, site(), {"head": head}))
    assert "plugin-x7d (ErrImagePull: no such image)" in found.cause


@pytest.mark.parametrize(
    ("given", "of", "names", "gone"),
    [
        ("operator", site, ["gpu-operator"], ["nvidia-device-plugin"]),
        ("plugin", site, ["nvidia-device-plugin"], ["gpu-operator"]),
        ("own", site, [], []),
    ],
)
def test_one_chart_hands_out_gpus_and_takes_the_place_of_the_other(
    given: str, of: Callable[..., Site], names: list[str], gone: list[str]
) -> None:
    chosen = of(device_plugin=given)
    assert [r.name for r in charts.releases(chosen, PROFILE)] == names
    assert [c.name for c in charts.replaced(chosen, PROFILE)] == gone
    classes = charts.runtime_class(chosen, PROFILE)
    assert bool(classes) is (given == "plugin")


def test_with_a_plugin_of_the_sites_own_and_a_scheduler_the_operator_comes_without_its_plugin() -> (
    None
):
    of = with_scheduler()
    assert of.kubernetes is not None
    own = of.model_copy(
        update={"kubernetes": of.kubernetes.model_copy(update={"device_plugin": "own"})}
    )
    (release,) = charts.releases(own, PROFILE)
    assert release.values["devicePlugin"] == {"enabled": False}
    assert charts.replaced(own, PROFILE) == ()


def test_a_release_that_nobody_chose_is_no_chart() -> None:
    software = PROFILE.software.model_copy(update={"gpu_operator": None})
    assert charts.releases(site(), PROFILE.model_copy(update={"software": software})) == ()


NODE = {
    "status": {
        "allocatable": {
            "cpu": "8",
            "nvidia.com/gpu": "7",
            "nvidia.com/mig-1g.10gb": "7",
            "nvidia.com/mig-3g.40gb": "0",
        }
    }
}


def certificate(user: str) -> str:
    """What kubelet keeps in one file."""
    pair = KeyPair.fresh()
    return Authority().sign(pair.request(user, "system:nodes"), 30) + pair.pem


@pytest.mark.parametrize("name", ["gpu-1", "g", "rack-0.example.com", "a" * 52])
def test_a_node_is_asked_for_by_the_name_in_kubelets_certificate(name: str) -> None:
    assert node.node_name(certificate(f"system:node:{name}")) == name


@pytest.mark.parametrize("pem", ["", certificate("admin"), certificate("system:node:../pods")])
def test_a_certificate_of_no_node_asks_for_nothing(pem: str) -> None:
    with pytest.raises(Unreadable):
        node.node_name(pem)


def asked(grow: Grow, cluster: Cluster, **more: str) -> tuple[Any, Ask]:
    """What the probe finds on a host that is the node gpu-1."""
    root = grow(
        {
            node.KUBECONFIG: cluster.kubeconfig(),
            node.CERTIFICATE: certificate("system:node:gpu-1"),
            **more,
        }
    )
    ask = Ask({}, root)
    return node.collect(ask), ask


OWN = "/api/v1/nodes/gpu-1"
PODS = "/api/v1/namespaces/gpu-operator/pods?fieldSelector=spec.nodeName%3Dgpu-1"
OTHERS = PODS.replace("gpu-operator", "nvidia-device-plugin")


def test_a_host_asks_for_its_own_node_alone(grow: Grow, serve: Serve) -> None:
    found, ask = asked(grow, serve({OWN: NODE}))
    assert (found, ask.errors) == ({"gives": {"gpu": 7, "mig-1g.10gb": 7}}, {})


def test_a_host_that_gives_out_nothing_says_how_its_device_plugins_are(
    grow: Grow, serve: Serve
) -> None:
    waiting = {"reason": "ErrImagePull", "message": "no such image"}
    sick = {
        "metadata": {"name": "plugin-x7d", "namespace": "gpu-operator"},
        "status": {"containerStatuses": [{"state": {"waiting": waiting}}]},
    }
    found, ask = asked(grow, serve({PODS: {"items": [sick]}, OTHERS: LIST, OWN: {"status": {}}}))
    known = Kubernetes.model_validate(found)
    assert (known.gives, known.plugins, ask.errors) == ({"gpu": 0}, (SICK,), {})


def test_an_api_that_does_not_answer_leaves_it_unknown(grow: Grow, tmp_path: Path) -> None:
    found, ask = asked(grow, Cluster({}, tmp_path, port=1))
    assert found == {}
    assert ask.errors["kubernetes"] == "127.0.0.1:1: Connection refused"


def test_a_host_of_no_cluster_is_asked_for_nothing(grow: Grow) -> None:
    ask = Ask({}, grow({}))
    assert (node.collect(ask), ask.errors) == ({}, {})


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (NODE, {"gpu": 7, "mig-1g.10gb": 7}),
        ({"status": {}}, {"gpu": 0}),
        ({"status": {"allocatable": {"nvidia.com/gpu": "0"}}}, {"gpu": 0}),
    ],
)
def test_what_a_node_gives_out_is_told_without_what_it_gives_no_more(
    said: dict[str, Any], found: dict[str, int]
) -> None:
    assert node.given(said) == found


@pytest.mark.parametrize("said", [{}, {"status": 1}, {"status": {"allocatable": [1]}}])
def test_what_is_no_node_is_not_taken_for_one(said: dict[str, Any]) -> None:
    with pytest.raises(Unreadable):
        node.given(said)
