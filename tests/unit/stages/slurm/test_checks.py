"""Slurm's checks: each trips on its fault, and a missing measurement is never a pass."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from appliance.checks.check import ClusterCheck, View
from appliance.models.facts import Drift, HostFacts, Receipt, Unit
from appliance.models.result import CheckResult, Status
from appliance.models.site import Owner, Site
from appliance.stages.slurm import checks as slurm
from appliance.stages.slurm.facts import Slurm, SlurmNode, SlurmPartition, StuckJob
from tests.support.facts import facts_of
from tests.support.judging import said_by
from tests.support.profiles import profile_of
from tests.support.sites import site_of

PROFILE = profile_of(fabric={"link_layer": "InfiniBand", "ports": 8, "rate_gbps": 200})
SITE = site_of("head", "gpu-1", "gpu-2")
ACTIVE = Unit(load="loaded", active="active", sub="running", enabled="enabled")
DEAD = Unit(load="loaded", active="failed", sub="failed", enabled="enabled")
ALL_UNITS = dict.fromkeys(slurm.UNITS, ACTIVE)


def facts(host: str, **given: Any) -> HostFacts:
    return facts_of(host, **{"units": ALL_UNITS, **given})


def node(name: str, **given: Any) -> SlurmNode:
    return SlurmNode(**{"name": name, "state": "idle", "gres": "gpu:a100:8", **given})


def told(*nodes: SlurmNode, **given: Any) -> Slurm:
    good: dict[str, Any] = {"version": "22.05.8", "controller": "up", "accounting": True}
    return Slurm(**{**good, "nodes": nodes, **given})


def view(answer: Slurm | None, site: Site = SITE, **head: Any) -> View:
    seen: Mapping[str, HostFacts] = {
        "head": facts("head", slurm=answer, **head),
        "gpu-1": facts("gpu-1"),
        "gpu-2": facts("gpu-2"),
    }
    return View(PROFILE, site, seen)


GOOD = told(node("gpu-1"), node("gpu-2"))


def one(check_id: str, seen: View, target: str) -> CheckResult:
    (found,) = [r for r in said_by(check_id, seen) if r.target == target]
    return found


@pytest.mark.parametrize("check_id", [c.id for c in slurm.CHECKS])
def test_a_sound_cluster_passes_every_check(check_id: str) -> None:
    found = said_by(check_id, view(GOOD))
    assert found
    assert {r.status for r in found} == {Status.PASS}


CLUSTER = [c.id for c in slurm.CHECKS if isinstance(c, ClusterCheck)]


@pytest.mark.parametrize("check_id", CLUSTER)
def test_no_answer_from_the_controller_host_is_not_assessed(check_id: str) -> None:
    silent = View(PROFILE, SITE, {"gpu-1": facts("gpu-1")})
    found = said_by(check_id, silent)
    assert found
    assert {r.status for r in found} == {Status.NOT_ASSESSED}
    assert "head" in found[0].cause


@pytest.mark.parametrize("check_id", CLUSTER)
def test_a_controller_host_without_slurm_facts_is_not_assessed_with_the_probes_reason(
    check_id: str,
) -> None:
    found = said_by(check_id, view(None, errors={"slurm": "scontrol timed out"}))
    assert {(r.status, r.cause) for r in found} == {(Status.NOT_ASSESSED, "scontrol timed out")}


def test_every_gpu_host_is_judged_even_when_it_is_dead() -> None:
    alone = View(PROFILE, SITE, {"head": facts("head", slurm=told(node("gpu-1")))})
    assert one("slurm.nodes", alone, "gpu-2").status is Status.FAIL


@pytest.mark.parametrize("check_id", ["slurm.nodes", "slurm.gres"])
def test_a_list_of_hosts_nobody_could_read_blames_no_host(check_id: str) -> None:
    mute = told().model_copy(update={"nodes": None})
    found = said_by(check_id, view(mute, errors={"slurm": "scontrol gave no answer within 10 s"}))
    assert {(r.target, r.status, r.cause) for r in found} == {
        (host, Status.NOT_ASSESSED, "scontrol gave no answer within 10 s")
        for host in ("gpu-1", "gpu-2")
    }


def test_a_controller_that_is_down_fails_with_its_message() -> None:
    found = one("slurm.controller", view(told(controller="down")), "cluster")
    assert (found.status, found.value) == (Status.FAIL, "down")


def test_a_controller_that_was_not_asked_is_not_assessed() -> None:
    found = one("slurm.controller", view(told(controller="")), "cluster")
    assert found.status is Status.NOT_ASSESSED


@pytest.mark.parametrize(
    "state", ["idle", "IDLE", "mixed", "allocated", "mixed+completing", "idle+planned"]
)
def test_a_host_at_work_passes(state: str) -> None:
    found = one("slurm.nodes", view(told(node("gpu-1", state=state))), "gpu-1")
    assert found.status is Status.PASS


@pytest.mark.parametrize(
    ("state", "reason", "cause"),
    [
        ("idle+drain", "fan replacement [mia@2026-11-20]", "drain: fan replacement"),
        ("down", "Node unexpectedly rebooted", "down: Node unexpectedly rebooted"),
        ("down*", "Not responding", "down: Not responding"),
        ("idle*", "", "idle*: slurmd does not answer"),
        ("idle+maint", "", "idle+maint: no reason given"),
        ("", "", "without a state: no reason given"),
    ],
)
def test_a_host_out_of_work_fails_with_slurms_reason(state: str, reason: str, cause: str) -> None:
    seen = view(told(node("gpu-1", state=state, reason=reason), node("gpu-2")))
    found = one("slurm.nodes", seen, "gpu-1")
    assert found.status is Status.FAIL
    assert found.cause.startswith(cause)
    assert one("slurm.nodes", seen, "gpu-2").status is Status.PASS


@pytest.mark.parametrize(
    ("reason", "fix"),
    [
        ("health: storage.scratch nothing is there", "fix that, then appliance deploy; or wait"),
        ("health: gpu.ecc GPU 3: 2 errors", "--stage slurm --full --hosts gpu-1"),
        ("the driver is changed", "fix that, then appliance deploy (it resumes the host)"),
        ("waits for a fan", "scontrol update nodename=gpu-1 state=resume"),
    ],
)
def test_a_drain_of_the_appliance_is_taken_back_by_deploying(reason: str, fix: str) -> None:
    drained = node("gpu-1", state="idle+drain", reason=f"appliance: {reason} [root@2026-11-20]")
    assert fix in one("slurm.nodes", view(told(drained)), "gpu-1").fix


def test_munge_that_signs_nothing_for_users_fails_though_it_runs() -> None:
    seen = view(GOOD, access={"munge": "Error: Failed to access /run/munge/munge.socket.2"})
    found = one("slurm.munge", seen, "head")
    assert found.status is Status.FAIL
    assert "does not sign for users: Error: Failed to access" in found.cause
    assert "on head: chmod 0755 /run/munge; systemctl restart munge" in found.fix


def test_munge_that_was_started_before_its_key_was_written_fails() -> None:
    seen = view(GOOD, access={"munge": "", "munge_key_is_newer": True})
    found = one("slurm.munge", seen, "head")
    assert "an older key than its file holds" in found.cause
    assert found.fix == "on head: systemctl restart munge"


def test_a_closed_port_of_slurmdbd_is_opened_before_anything_is_restarted() -> None:
    rule = {"by": "rule inet corp in handle 2", "says": "tcp dport 6819 drop", "ports": [6819]}
    blocked = {"peers": [], "name_servers": [], "blocks": [rule]}
    seen = view(GOOD.model_copy(update={"accounting": False}), neighbours=blocked)
    fix = one("slurm.accounting", seen, "cluster").fix
    assert fix == "on head: nft delete rule inet corp in handle 2, which drops port 6819"


@pytest.mark.parametrize("state", ["allocated", "mixed", "mixed+drain", "completing"])
def test_a_host_that_left_the_site_with_jobs_is_named(state: str) -> None:
    seen = view(told(node("gpu-1"), node("gpu-2"), node("gpu-9", state=state)))
    found = one("slurm.leaving", seen, "cluster/node gpu-9")
    assert found.status is Status.FAIL
    assert "gpu-9 runs jobs, but is no longer in the site" in found.cause
    assert "scontrol update nodename=gpu-9 state=drain" in found.fix


def test_a_host_that_left_the_site_without_jobs_is_no_finding() -> None:
    seen = view(told(node("gpu-1"), node("gpu-2"), node("gpu-9", state="idle")))
    assert one("slurm.leaving", seen, "cluster").status is Status.PASS


def test_a_partition_that_left_the_site_with_jobs_is_named() -> None:
    live = tuple(SlurmPartition(name=name, state="UP", jobs=3) for name in ("gpu", "old"))
    seen = view(told(node("gpu-1"), node("gpu-2"), partitions=live))
    found = one("slurm.leaving", seen, "cluster/partition old")
    assert "partition old has 3 jobs, but is no longer in the site" in found.cause
    assert found.fix.endswith("scancel --partition=old")
    empty = tuple(part.model_copy(update={"jobs": 0}) for part in live)
    seen = view(told(node("gpu-1"), node("gpu-2"), partitions=empty))
    assert one("slurm.leaving", seen, "cluster").status is Status.PASS


def test_a_drain_of_somebody_else_is_left_to_them() -> None:
    drained = node("gpu-1", state="idle+drain", reason="fan replacement [mia@2026-11-20]")
    fix = one("slurm.nodes", view(told(drained)), "gpu-1").fix
    assert "scontrol update nodename=gpu-1 state=resume" in fix


@pytest.mark.parametrize(
    ("state", "fix"),
    [
        ("idle+maintenance+reserved", "scontrol show reservation"),
        ("idle+maint", "scontrol show reservation"),
        ("idle+drain+maintenance", "state=resume"),
        ("mixed+drain+reboot_requested", "scontrol cancel_reboot gpu-1"),
        ("down+drain+reboot_issued+not_responding", "until it has rebooted"),
    ],
)
def test_what_resume_does_not_end_has_a_remedy_of_its_own(state: str, fix: str) -> None:
    found = one(
        "slurm.nodes", view(told(node("gpu-1", state=state, reason="Reboot ASAP"))), "gpu-1"
    )
    assert found.status is Status.FAIL
    assert fix in found.fix


def test_a_host_of_the_other_scheduler_that_is_down_is_not_said_to_take_jobs() -> None:
    hosts = tuple(
        h.model_copy(update={"owner": Owner.KUBERNETES}) if h.name == "gpu-1" else h
        for h in SITE.hosts
    )
    site = SITE.model_copy(update={"hosts": hosts})
    found = one("slurm.nodes", view(told(node("gpu-1", state="down*")), site), "gpu-1")
    assert found.status is Status.FAIL
    assert found.cause == "is down*, but not drained; the site assigns gpu-1 to kubernetes"


def test_a_host_slurm_does_not_know_fails() -> None:
    found = one("slurm.nodes", view(told(node("gpu-1"))), "gpu-2")
    assert found.status is Status.FAIL
    assert "does not know gpu-2" in found.cause


def test_hosts_are_not_assessed_while_the_controller_is_down() -> None:
    found = one("slurm.nodes", view(told(controller="down")), "gpu-1")
    assert found.status is Status.NOT_ASSESSED


@pytest.mark.parametrize("gres", ["gpu:8", "gpu:a100:8(S:0-1)", "nic:2,gpu:a100:4,gpu:h100:4"])
def test_all_gpus_offered_passes(gres: str) -> None:
    found = one("slurm.gres", view(told(node("gpu-1", gres=gres))), "gpu-1")
    assert (found.status, found.value) == (Status.PASS, 8)


@pytest.mark.parametrize(("gres", "count"), [("gpu:a100:7", 7), ("", 0), ("mps:8", 0)])
def test_missing_gpus_fail_with_both_numbers(gres: str, count: int) -> None:
    found = one("slurm.gres", view(told(node("gpu-1", gres=gres))), "gpu-1")
    assert (found.status, found.value, found.limit) == (Status.FAIL, count, 8)


LOWER = "gres/gpu count reported lower than configured (7 < 8)"


def test_gpus_slurmd_did_not_find_are_missing_although_gres_goes_on_to_show_them() -> None:
    found = one("slurm.gres", view(told(node("gpu-1", state="idle+drain", reason=LOWER))), "gpu-1")
    assert (found.status, found.value, found.limit) == (Status.FAIL, 7, 8)
    assert found.cause == "slurmd has found 7 of the 8 GPUs of slurm.conf"
    again = one("slurm.gres", view(told(node("gpu-1", reason=LOWER))), "gpu-1")
    assert again.status is Status.PASS


def test_gpus_of_an_unknown_host_are_not_assessed() -> None:
    found = one("slurm.gres", view(told(node("gpu-1"))), "gpu-2")
    assert found.status is Status.NOT_ASSESSED


def test_simulated_gpus_are_marked() -> None:
    site = SITE.model_copy(update={"simulated": ("gpu",)})
    assert one("slurm.gres", view(GOOD, site), "gpu-1").simulated
    assert not one("slurm.gres", view(GOOD), "gpu-1").simulated


def test_accounting_that_does_not_know_the_cluster_fails() -> None:
    found = one("slurm.accounting", view(told(accounting=False)), "cluster")
    assert found.status is Status.FAIL
    assert '"appliance"' in found.cause


def test_a_database_that_takes_no_records_fails() -> None:
    answer = told(node("gpu-1"), node("gpu-2"), read_only=True)
    found = one("slurm.accounting", view(answer), "cluster/database")
    assert found.status is Status.FAIL
    assert found.fix.startswith("on head: mysql -e 'set global read_only=0'; ")


def test_a_controller_with_other_settings_than_its_file_fails() -> None:
    answer = told(node("gpu-1"), node("gpu-2"), configured="Different Ours=0x1 Slurmctld=0x2")
    found = one("slurm.controller", view(answer), "cluster/slurm.conf")
    assert found.status is Status.FAIL
    assert found.fix.startswith("on head: systemctl restart slurmctld")


@pytest.mark.parametrize(
    ("job", "seconds", "is_named"),
    [("73", 200.0, True), ("73_4", 200.0, True), ("73", 60.0, False), ("x;y", 200.0, False)],
)
def test_a_job_whose_processes_do_not_end_is_named(
    job: str, seconds: float, is_named: bool
) -> None:
    stuck = (StuckJob(job=job, nodes="gpu-2", seconds=seconds),)
    answer = told(node("gpu-1"), node("gpu-2", state="idle+completing"), stuck=stuck)
    found = [r for r in said_by("slurm.nodes", view(answer)) if r.target == "gpu-2/job 73"]
    assert [r.status for r in found] == ([Status.WARN] if is_named else [])
    assert all("pkill -CONT -f 'slurmstepd: \\[73[.]'" in r.fix for r in found)


def test_accounting_that_was_not_asked_is_not_assessed() -> None:
    found = one("slurm.accounting", view(told(accounting=None)), "cluster")
    assert found.status is Status.NOT_ASSESSED
    assert "has no slurmdbd" in found.cause


@pytest.mark.parametrize(
    ("check_id", "unit", "target"),
    [
        ("slurm.munge", "munge.service", "head"),
        ("slurm.daemons", "slurmctld.service", "head/slurmctld"),
        ("slurm.daemons", "slurmdbd.service", "head/slurmdbd"),
        ("slurm.daemons", "mariadb.service", "head/mariadb"),
    ],
)
def test_a_stopped_daemon_fails_and_an_unread_one_is_not_assessed(
    check_id: str, unit: str, target: str
) -> None:
    dead = one(check_id, view(GOOD, units={**ALL_UNITS, unit: DEAD}), target)
    assert (dead.status, dead.value) == (Status.FAIL, "failed")
    without = {name: state for name, state in ALL_UNITS.items() if name != unit}
    unread = one(check_id, view(GOOD, units=without), target)
    assert unread.status is Status.NOT_ASSESSED


def test_a_unit_that_is_not_installed_is_called_so() -> None:
    absent = Unit(load="not-found", active="inactive", sub="dead")
    found = one("slurm.munge", view(GOOD, units={"munge.service": absent}), "head")
    assert found.status is Status.FAIL
    assert "not installed" in found.cause


def test_units_of_a_host_without_systemd_are_not_assessed() -> None:
    offline = Unit(load="offline", active="unknown")
    found = one("slurm.munge", view(GOOD, units={"munge.service": offline}), "head")
    assert found.status is Status.NOT_ASSESSED


def test_only_the_first_control_host_and_gpu_hosts_must_run_daemons() -> None:
    targets = {r.target for r in said_by("slurm.daemons", view(GOOD))}
    assert targets == {
        "head/slurmctld",
        "head/slurmdbd",
        "head/mariadb",
        "gpu-1/slurmd",
        "gpu-2/slurmd",
    }


@pytest.mark.parametrize(
    ("state", "status"),
    [("idle+drain", Status.PASS), ("mixed+drain", Status.PASS), ("idle", Status.FAIL)],
)
def test_a_host_of_kubernetes_is_drained(state: str, status: Status) -> None:
    hosts = [h.model_copy(update={"owner": Owner.KUBERNETES}) for h in SITE.hosts]
    given = SITE.model_copy(update={"hosts": tuple(hosts)})
    seen = view(told(node("gpu-1", state=state, reason="appliance: a host of kubernetes")), given)
    found = one("slurm.nodes", seen, "gpu-1")
    assert found.status is status
    assert "kubernetes" in (found.cause or str(found.limit))


def test_gpus_divided_nobody_knows_how_are_not_judged() -> None:
    gpu = {"index": 0, "uuid": "G", "name": "A100", "bus_id": "b", "memory": 1}
    gpus = {"driver": "580", "nvml": "13", "devices": [{**gpu, "mig_enabled": True, "mig": None}]}
    known = {**view(GOOD).facts, "gpu-1": facts("gpu-1", gpus=gpus)}
    found = one("slurm.gres", View(PROFILE, SITE, known), "gpu-1")
    assert (found.status, "the MIG devices of" in found.cause) == (Status.NOT_ASSESSED, True)


def parted(gres: str) -> CheckResult:
    """What is said of a host with one GPU in two parts and seven whole ones."""
    part = {"id": 0, "slices": 3, "uuid": "MIG-1", "nodes": []}
    parts = [
        {"profile": "3g.40gb", "profile_id": 9, "start": s, "size": 4, "id": s, "parts": [part]}
        for s in (0, 4)
    ]
    gpu = {"index": 0, "uuid": "G", "name": "A100", "bus_id": "b", "memory": 1}
    devices = [{**gpu, "mig_enabled": True, "mig": parts}]
    seen = view(told(node("gpu-1", gres=gres)))
    gpus = {"driver": "580", "nvml": "13", "devices": devices}
    host = HostFacts.model_validate({**facts("gpu-1").model_dump(), "gpus": gpus})
    known = {**seen.facts, "gpu-1": host}
    return one("slurm.gres", View(PROFILE, SITE, known), "gpu-1")


def test_parts_of_gpus_are_counted_by_their_type() -> None:
    assert parted("gpu:a100:7(S:0-1),gpu:3g.40gb:2(S:0)").status is Status.PASS


@pytest.mark.parametrize(
    ("gres", "offers"),
    [
        ("gpu:a100:8", "8 whole, 0 x 3g.40gb"),
        ("gpu:a100:7,gpu:3g.40gb:1", "7 whole, 1 x 3g.40gb"),
        ("gpu:a100:7,gpu:1g.10gb:2", "9 whole, 0 x 3g.40gb"),
    ],
)
def test_parts_slurm_does_not_offer_fail(gres: str, offers: str) -> None:
    found = parted(gres)
    assert found.status is Status.FAIL
    assert found.cause.endswith("the host has 7 whole, 2 x 3g.40gb")
    assert found.cause.startswith(f"Slurm offers {offers},")


def test_a_munge_key_that_is_not_the_site_s_is_named() -> None:
    drift = Drift(kind="file", name="/etc/munge/munge.key", expected="digest", found="another")
    receipt = Receipt(
        stage="slurm",
        fingerprint="f",
        written="w",
        run="r",
        appliance="1",
        resources=1,
        drift=(drift,),
    )
    seen = view(GOOD)
    changed = facts("gpu-1", receipts={"slurm": receipt})
    found = one("slurm.munge", replace(seen, facts={**seen.facts, "gpu-1": changed}), "gpu-1")
    assert found.status is Status.FAIL
    assert found.cause.startswith("its munge key is not the site's")
    assert "--hosts gpu-1" in found.fix
