"""A cluster that the site gives up stays while pods of users are there; what goes with it goes with its receipt."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from appliance.adapters.process import Completed
from appliance.engine.run.leaving_cluster import refuse_leaving_pods
from appliance.errors import ConfigError
from appliance.models.facts import Receipt
from appliance.stages.kubernetes.stage import STAGE
from appliance.stages.scheduler.stage import STAGE as SCHEDULER
from appliance.stages.workloads.stage import STAGE as WORKLOADS
from tests.support.facts import facts_of
from tests.support.sites import site_of

SITE = site_of("head", "gpu-1")
HAD = {
    name: Receipt(stage=name, fingerprint="a", written="", run="", appliance="", resources=0)
    for name in ("kubernetes", "workloads")
}


def pod(space: str, name: str, kind: str = "") -> dict[str, Any]:
    """A pod as the API lists it, of a controller of this kind."""
    owners = [{"kind": kind, "controller": True}] if kind else []
    return {"metadata": {"namespace": space, "name": name, "ownerReferences": owners}, "spec": {}}


def refuse(*pods: dict[str, Any], code: int = 0, stage: str = "kubernetes") -> None:
    said = json.dumps({"items": pods}) if pods else ""
    done = Completed(("kubectl",), code, said, "the connection was refused\n")
    session: Any = SimpleNamespace(
        site=SITE, remote=SimpleNamespace(run=lambda host, argv, timeout: done)
    )
    found: Any = SimpleNamespace(facts={"head": facts_of("head", receipts=HAD)})
    plan: Any = SimpleNamespace(pending=lambda: [SimpleNamespace(stage=stage, host="head")])
    refuse_leaving_pods(session, found, plan)


@pytest.mark.parametrize(
    "one",
    [pod("default", "web", "ReplicaSet"), pod("kai-alpha", "train", "Job"), pod("jupyterhub", "n")],
    ids=["of a Deployment", "of a Job", "a notebook"],
)
def test_pods_of_users_keep_it_and_are_named(one: dict[str, Any]) -> None:
    name = f"{one['metadata']['namespace']}/{one['metadata']['name']}"
    with pytest.raises(ConfigError, match=f"pods of users still run: {name}") as caught:
        refuse(one)
    assert "kubectl delete" in caught.value.hint


def test_pods_of_the_platform_do_not() -> None:
    refuse(
        pod("kube-system", "coredns", "ReplicaSet"),
        pod("kai-scheduler", "binder", "ReplicaSet"),
        pod("jupyterhub", "hub", "ReplicaSet"),
        pod("monitoring", "exporter", "DaemonSet"),
    )
    refuse()


def test_an_api_that_does_not_answer_is_not_taken_for_an_empty_one() -> None:
    with pytest.raises(ConfigError, match="the connection was refused") as caught:
        refuse(code=1)
    assert "kubeadm reset --force" in caught.value.hint


def test_a_run_that_leaves_the_cluster_alone_asks_nothing() -> None:
    refuse(pod("default", "web"), stage="slurm")


def test_what_lives_in_the_cluster_goes_with_it_and_not_by_itself() -> None:
    host, facts = SITE.host("head"), facts_of("head", receipts=HAD)
    assert STAGE.is_removal(SITE, host, facts)
    assert not WORKLOADS.is_removal(SITE, host, facts)
    assert (WORKLOADS.within, SCHEDULER.within) == (STAGE, STAGE)
