"""What hosts find of themselves: told where nobody looks, where somebody unfit keeps his jobs, and unknown is never good."""

from typing import Any

import pytest

from appliance.checks.check import View
from appliance.models.result import CheckResult, Status
from appliance.models.site import Site
from appliance.models.watch import UnfitBy, Watch, WatchOptions
from appliance.stages.fitness import most_out
from appliance.stages.slurm import ids
from appliance.stages.slurm.checks import watch
from appliance.stages.slurm.facts import Slurm, SlurmNode
from tests.support.facts import facts_of
from tests.support.judging import said_by
from tests.support.profiles import profile_of
from tests.support.sites import site_of

LOST = UnfitBy(check="gpu.error", part="GPU 3", cause="GPU is lost")
OWN = UnfitBy(check="slurm.watch", part="50-lift.sh", cause="the lift is stuck")


SITE = site_of("gpu-1")


def judge(
    seen: Watch | None, check_id: str = ids.WATCH, site: Site = SITE, **given: Any
) -> CheckResult:
    facts = facts_of("gpu-1", watch=seen, **given)
    (result,) = said_by(check_id, View(profile_of(), site, {"gpu-1": facts}))
    return result


@pytest.mark.parametrize(
    ("seen", "status", "cause"),
    [
        (Watch(age_s=3.0), Status.PASS, ""),
        (Watch(age_s=3.0, causes=(LOST,), state="out"), Status.PASS, ""),
        (Watch(age_s=301.0), Status.FAIL, "last ran 5 min ago"),
        (
            Watch(age_s=3.0, causes=(LOST,), state="over"),
            Status.FAIL,
            "not drained: the limit of self-drained hosts (1)",
        ),
        (
            Watch(age_s=3.0, causes=(LOST,), state="silent"),
            Status.FAIL,
            "slurmctld does not answer",
        ),
        (Watch(age_s=360.0), Status.FAIL, "6 min ago: Slurm does not run it"),
        (Watch(age_s=360.0, held_by=77), Status.FAIL, "hangs (process 77)"),
        (Watch(age_s=3.0, causes=(LOST,)), Status.WARN, "an operator resumed it"),
        (Watch(age_s=3.0, causes=(OWN,), state="out"), Status.FAIL, "the lift is stuck"),
        (None, Status.NOT_ASSESSED, "no program checks this host"),
    ],
)
def test_the_watch_is_judged(seen: Watch | None, status: Status, cause: str) -> None:
    found = judge(seen)
    assert found.status is status
    assert cause in found.cause
    assert bool(found.fix) is (status is not Status.PASS)


@pytest.mark.parametrize(("held_by", "named"), [(None, ("head",)), (77, ())])
def test_a_watch_that_nobody_starts_names_the_silent_host_of_the_controller(
    held_by: int | None, named: tuple[str, ...]
) -> None:
    stopped = Watch(age_s=360.0, held_by=held_by)
    assert judge(stopped, site=site_of("head", "gpu-1")).names == named


def test_what_could_not_be_read_is_said() -> None:
    found = judge(None, errors={"watch": "it has not looked since the host started"})
    assert (found.status, found.cause) == (
        Status.NOT_ASSESSED,
        "it has not looked since the host started",
    )


@pytest.mark.parametrize(
    ("seen", "status", "said"),
    [
        (Watch(age_s=3.0, state="out", returns=True, fit=True), Status.FAIL, "fit, and drained"),
        (Watch(age_s=3.0, state="out", returns=True, fit=False), Status.PASS, "not fit yet"),
        (Watch(age_s=3.0, state="out", returns=False), Status.PASS, "an operator must resume it"),
        (Watch(age_s=3.0, state="out"), Status.PASS, "an operator must resume it"),
        (Watch(age_s=3.0, state="over", causes=(LOST,)), Status.PASS, "not out"),
        (Watch(age_s=3.0), Status.PASS, "not out"),
        (Watch(age_s=3.0, state="out", returns=True), Status.NOT_ASSESSED, "was not read"),
        (
            Watch(age_s=301.0, state="out", returns=True, fit=True),
            Status.NOT_ASSESSED,
            "is too old",
        ),
        (None, Status.NOT_ASSESSED, "no program checks this host"),
    ],
)
def test_a_host_that_is_fit_again_is_given_back(
    seen: Watch | None, status: Status, said: str
) -> None:
    found = judge(seen, ids.RETURN)
    assert found.status is status
    assert said in f"{found.value} {found.cause}"


def test_a_host_whose_own_return_is_switched_off_is_told_of_no_time() -> None:
    out = Watch(age_s=3.0, state="out", returns=True, fit=True)
    assert "after 10 min without a fault" in judge(out, ids.RETURN).fix
    options = SITE.slurm_options
    off = options.watch.model_copy(update={"return_after_minutes": None})
    site = SITE.model_copy(update={"slurm": options.model_copy(update={"watch": off})})
    assert judge(out, ids.RETURN, site).fix == "appliance deploy --hosts gpu-1"


@pytest.mark.parametrize(
    ("state", "status"), [("idle", Status.PASS), ("idle+drain", Status.FAIL), ("", Status.FAIL)]
)
def test_the_controller_s_word_is_younger_than_the_host_s(state: str, status: Status) -> None:
    site = site_of("head", "gpu-1")
    out = Watch(age_s=50.0, state="out", returns=True, fit=True)
    nodes = (SlurmNode(name="gpu-1", state=state),)
    facts = {
        "head": facts_of("head", slurm=Slurm(controller="up", nodes=nodes)),
        "gpu-1": facts_of("gpu-1", watch=out),
    }
    (found,) = watch.judge_return(
        View(profile_of(), site, facts), site.host("gpu-1"), facts["gpu-1"]
    )
    assert found.status is status


def test_a_node_its_own_watch_drained_names_the_check() -> None:
    reason = "appliance: health: gpu.error GPU 3: GPU is lost [root@2026-11-24T10:00:00]"
    node = SlurmNode(name="gpu-1", state="idle+drain", reason=reason)
    site = site_of("head", "gpu-1")
    facts = {
        "head": facts_of("head", slurm=Slurm(controller="up", nodes=(node,))),
        "gpu-1": facts_of("gpu-1"),
    }
    (found,) = said_by("slurm.nodes", View(profile_of(), site, facts))
    assert found.names == ("gpu.error",)


@pytest.mark.parametrize(("hosts", "most"), [(1, 1), (9, 1), (20, 2), (1000, 100)])
def test_a_tenth_of_the_hosts_may_be_out_and_one_at_least(hosts: int, most: int) -> None:
    many = SITE.model_copy(update={"hosts": SITE.hosts * hosts})
    assert most_out(many, many.slurm_options.watch) == most
    assert most_out(many, WatchOptions(most_out=0)) == 0
