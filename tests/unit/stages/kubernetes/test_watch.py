"""What hosts of Kubernetes find of themselves: reported where it is not looked at, and unknown is never good."""

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from appliance.checks.check import View
from appliance.engine.look.gather import Round
from appliance.engine.run.rollout import is_left_drained
from appliance.engine.session import Session
from appliance.models.drain import HEALTH, Why
from appliance.models.facts import HostFacts
from appliance.models.result import CheckResult, Status
from appliance.models.site import Owner, Site
from appliance.models.watch import UnfitBy, Watch
from appliance.probe.ask import Ask
from appliance.stages.kubernetes import ids
from appliance.stages.kubernetes.collect import watch
from appliance.stages.kubernetes.facts import Kubernetes, KubernetesNode
from appliance.stages.kubernetes.site import KubernetesOptions, NodeWatchOptions
from appliance.stages.kubernetes.variables.watch import rights
from appliance.watch.place import KUBERNETES
from tests.support.facts import facts_of
from tests.support.judging import said_by
from tests.support.profiles import profile_of
from tests.support.sites import site_of

LOST = UnfitBy(check="gpu.error", part="GPU 3", cause="GPU is lost")
OWN = UnfitBy(check="kubernetes.watch", part="50-lift.sh", cause="the lift is stuck")
DEAF = "Kubernetes did not get this verdict: 10.0.0.1:6443 did not answer within 5 s"


def site(**options: Any) -> Site:
    given = KubernetesOptions(watch=NodeWatchOptions(**options))
    found = site_of("head", "gpu-1").model_copy(update={"kubernetes": given, "slurm": None})
    assert found.owner(found.host("gpu-1")) is Owner.KUBERNETES
    return found


def judge(
    seen: Watch | None, check_id: str = ids.WATCH, of: Site | None = None, **given: Any
) -> CheckResult:
    facts = facts_of("gpu-1", node_watch=seen, **given)
    (result,) = said_by(check_id, View(profile_of(), of or site(), {"gpu-1": facts}))
    return result


@pytest.mark.parametrize(
    ("seen", "status", "cause"),
    [
        (Watch(age_s=3.0), Status.PASS, ""),
        (Watch(age_s=3.0, causes=(LOST,), state="out"), Status.PASS, ""),
        (Watch(age_s=181.0), Status.FAIL, "last ran 3 min ago: appliance-node-watch.timer"),
        (Watch(age_s=360.0, held_by=77), Status.FAIL, "hangs (process 77)"),
        (Watch(age_s=3.0, causes=(LOST,), state="over"), Status.FAIL, "themselves (1) is reached"),
        (Watch(age_s=3.0, causes=(LOST,), state="silent"), Status.FAIL, "API does not answer"),
        (Watch(age_s=3.0, causes=(LOST,)), Status.WARN, "an operator uncordoned it"),
        (Watch(age_s=3.0, causes=(OWN,), state="out"), Status.FAIL, "the lift is stuck"),
        (Watch(age_s=3.0, gaps=("gpus: no answer",)), Status.WARN, "gpus: no answer"),
        (None, Status.NOT_ASSESSED, "no program checks this host"),
    ],
)
def test_the_watch_is_judged(seen: Watch | None, status: Status, cause: str) -> None:
    found = judge(seen)
    assert found.status is status
    assert cause in found.cause
    assert bool(found.fix) is (status is not Status.PASS)


@pytest.mark.parametrize(
    ("seen", "value"),
    [
        (Watch(age_s=3.0, gaps=(DEAF,)), "not reported"),
        (Watch(age_s=3.0, gaps=(DEAF,), causes=(LOST,), state="silent"), "not reported"),
        (Watch(age_s=3.0, gaps=("gpus: no answer",)), "unknown"),
    ],
)
def test_a_verdict_that_the_api_did_not_get_is_marked_for_its_cause(
    seen: Watch, value: str
) -> None:
    assert judge(seen).value == value


@pytest.mark.parametrize(
    ("seen", "status", "said"),
    [
        (Watch(age_s=3.0, state="out", returns=True, fit=True), Status.FAIL, "fit, and cordoned"),
        (Watch(age_s=3.0, state="out", returns=True, fit=False), Status.PASS, "not fit yet"),
        (Watch(age_s=3.0, state="out", returns=False), Status.PASS, "an operator must resume it"),
        (Watch(age_s=3.0), Status.PASS, "not out"),
        (Watch(age_s=3.0, state="out", returns=True), Status.NOT_ASSESSED, "was not read"),
        (Watch(age_s=301.0, state="out", returns=True), Status.NOT_ASSESSED, "is too old"),
        (None, Status.NOT_ASSESSED, "no program checks this host"),
    ],
)
def test_a_host_that_is_fit_again_is_returned(
    seen: Watch | None, status: Status, said: str
) -> None:
    found = judge(seen, ids.RETURN)
    assert found.status is status
    assert said in f"{found.value} {found.cause}"


def test_the_time_of_the_return_is_the_site_s() -> None:
    out = Watch(age_s=3.0, state="out", returns=True, fit=True)
    assert "after 10 min without a fault" in judge(out, ids.RETURN).fix
    never = site(return_after_minutes=None)
    fix = "appliance deploy --stage kubernetes --hosts gpu-1"
    assert judge(out, ids.RETURN, never).fix == fix


def cordoned(reason: str) -> CheckResult:
    node = KubernetesNode(name="gpu-1", ready=True, cordoned=True, cordoned_for=reason)
    facts: dict[str, HostFacts] = {
        "head": facts_of("head", kubernetes=Kubernetes(nodes=(node,))),
        "gpu-1": facts_of("gpu-1"),
    }
    found = said_by(ids.NODES, View(profile_of(), site(), facts))
    return next(result for result in found if result.host == "gpu-1")


@pytest.mark.parametrize(
    ("reason", "check", "fix"),
    [
        ("appliance: health: gpu.xid GPU 2: Xid 79", "gpu.xid", "appliance-node-watch resume"),
        ("appliance: health: base.disk / has 1 % free", "base.disk", "returns by itself"),
    ],
)
def test_a_cordon_of_the_host_itself_names_the_check_and_the_way_back(
    reason: str, check: str, fix: str
) -> None:
    found = cordoned(reason)
    assert (found.status, found.names) == (Status.FAIL, (check,))
    assert fix in found.fix


def test_kubelets_get_one_right_more_and_it_changes_nothing() -> None:
    role, _ = rights()
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]


def test_the_probe_reads_the_verdict_for_kubernetes_from_its_own_file(tmp_path: Path) -> None:
    for at in (watch.PROGRAM, watch.STATE):
        (tmp_path / at[1:]).parent.mkdir(parents=True)
    assert watch.collect(Ask({}, str(tmp_path))) == {"node_watch": None}
    (tmp_path / watch.PROGRAM[1:]).touch()
    kept = {"version": 1, "time": time.time(), "causes": [], "gaps": [], "state": "over"}
    (tmp_path / watch.STATE[1:]).write_text(json.dumps(kept))
    found = watch.collect(Ask({}, str(tmp_path)))["node_watch"]
    assert Watch.model_validate(found).state == "over"
    assert (KUBERNETES.last, KUBERNETES.check) == (watch.STATE, ids.WATCH)


@pytest.mark.parametrize(
    ("reason", "is_left"), [(Why.DRIVER, True), (HEALTH + "base.disk / is full", False)]
)
def test_a_host_that_cordoned_itself_is_no_interrupted_change(reason: str, is_left: bool) -> None:
    node = KubernetesNode(name="gpu-1", ready=True, cordoned=True, cordoned_for=reason)
    found = SimpleNamespace(facts={"head": facts_of("head", kubernetes=Kubernetes(nodes=(node,)))})
    session = cast("Session", SimpleNamespace(site=site_of("head", "gpu-1")))
    assert is_left_drained(session, cast("Round", found), "gpu-1") is is_left


def test_only_a_control_host_tells_that_a_change_of_another_host_was_interrupted() -> None:
    def reported(name: str, why: str) -> HostFacts:
        node = KubernetesNode(name="gpu-1", ready=True, cordoned=True, cordoned_for=why)
        return facts_of(name, kubernetes=Kubernetes(nodes=(node,)))

    facts = {"gpu-2": reported("gpu-2", Why.DRIVER), "head": reported("head", HEALTH + "x")}
    session = cast("Session", SimpleNamespace(site=site_of("head", "gpu-1", "gpu-2")))
    found = SimpleNamespace(facts=facts)
    assert not is_left_drained(session, cast("Round", found), "gpu-1")
