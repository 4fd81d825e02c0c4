"""Whether users' jobs are taken: partitions as they are, accounts and limits, test submissions."""

import time
from collections.abc import Sequence
from typing import Any

import pytest

from appliance.checks.check import View
from appliance.models.result import CheckResult, Status
from appliance.probe.ask import Ask
from appliance.probe.problems import Unreadable
from appliance.stages.slurm.checks.submit import seconds
from appliance.stages.slurm.collect import slurm as collected
from appliance.stages.slurm.collect.slurm import reservation
from appliance.stages.slurm.facts import (
    Association,
    Reservation,
    Slurm,
    SlurmNode,
    SlurmPartition,
    Submission,
)
from tests.support.facts import facts_of
from tests.support.judging import said_by
from tests.support.profiles import profile_of
from tests.support.sites import site_of

SETTINGS = {"MaxTime": "UNLIMITED", "AllowGroups": "ALL", "RootOnly": "NO", "MinNodes": "0"}
UP = SlurmPartition(name="gpu", state="UP", nodes=2, settings=SETTINGS)
ROWS = (
    Association(account="root"),
    Association(account="default", qos=("normal",)),
    Association(account="default", user="root", qos=("normal",)),
)


def judged(site: dict[str, Any] | None = None, **given: Any) -> list[CheckResult]:
    sound: dict[str, Any] = {
        "controller": "up",
        "accounting": True,
        "nodes": (SlurmNode(name="gpu-1", state="idle"), SlurmNode(name="gpu-2", state="idle")),
        "partitions": (UP,),
        "associations": ROWS,
        "submissions": (Submission(user="root", partition="gpu"),),
    }
    head = facts_of("head", slurm=Slurm(**{**sound, **given}))
    view = View(profile_of(), site_of("head", "gpu-1", "gpu-2", **site or {}), {"head": head})
    return said_by("slurm.submit", view)


def only(found: list[CheckResult]) -> CheckResult:
    (one,) = found
    return one


def test_a_sound_cluster_takes_jobs() -> None:
    found = only(judged())
    assert (found.status, found.evidence) == (Status.PASS, "test jobs accepted: 1")


def changed(**settings: str) -> SlurmPartition:
    return UP.model_copy(update={"settings": {**SETTINGS, **settings}})


@pytest.mark.parametrize(
    ("partition", "cause", "fix"),
    [
        (
            UP.model_copy(update={"state": "DOWN"}),
            "partition gpu is DOWN: no job starts there",
            "on head: scontrol update partitionname=gpu state=up",
        ),
        (
            UP.model_copy(update={"state": "INACTIVE"}),
            "partition gpu is INACTIVE",
            "state=up",
        ),
        (
            changed(MaxTime="00:01:00"),
            "MaxTime is 00:01:00, but the site sets UNLIMITED",
            "reconfigure",
        ),
        (changed(AllowGroups="staff"), "AllowGroups is staff", "on head: scontrol reconfigure"),
        (changed(DenyAccounts="default"), "DenyAccounts is default", "reconfigure"),
        (changed(RootOnly="YES"), "RootOnly is YES", "reconfigure"),
        (changed(MinNodes="3"), "MinNodes is 3", "reconfigure"),
        (UP.model_copy(update={"nodes": 1}), "it holds 1 of 2 hosts", "reconfigure"),
    ],
)
def test_a_partition_that_holds_jobs_back_is_named(
    partition: SlurmPartition, cause: str, fix: str
) -> None:
    found = only(judged(partitions=(partition,)))
    assert (found.status, found.target) == (Status.FAIL, "cluster/partition gpu")
    assert cause in found.cause
    assert fix in found.fix


def test_a_partition_that_slurm_does_not_know_is_named() -> None:
    assert "has no partition gpu" in only(judged(partitions=())).cause


def test_a_time_limit_counts_however_it_is_written() -> None:
    site = {"slurm": {"partitions": [{"name": "gpu", "default": True, "max_time": "2880"}]}}
    assert only(judged(site, partitions=(changed(MaxTime="2-00:00:00"),))).status is Status.PASS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("UNLIMITED", None),
        ("60", 3600),
        ("60:30", 3630),
        ("01:00:00", 3600),
        ("2-00:00:00", 172_800),
        ("1-12", 129_600),
    ],
)
def test_time_limits_as_slurm_writes_them(text: str, expected: int | None) -> None:
    assert seconds(text) == expected


def test_a_lost_account_and_a_lost_user_are_named() -> None:
    assert "lacks the account default" in only(judged(associations=ROWS[:1])).cause
    found = only(judged(associations=ROWS[:2]))
    assert "lacks its user root of default" in found.cause
    assert "--stage slurm --hosts head --full" in found.fix


def test_users_of_the_site_charge_the_default_account() -> None:
    bea = {"name": "bea", "uid": 2001, "keys": ["ssh-ed25519 " + "A" * 68]}
    found = only(judged({"base": {"users": [bea]}}))
    assert "its user bea" in found.cause


@pytest.mark.parametrize(
    ("row", "fix"),
    [
        (
            Association(account="default", zero=("GrpTRES=gres/gpu=0",)),
            "account default set GrpTRES=gres/gpu=-1",
        ),
        (
            Association(account="default", user="root", zero=("MaxJobs=0",)),
            "user root where account=default set MaxJobs=-1",
        ),
    ],
)
def test_a_limit_of_nothing_is_named_with_its_end(row: Association, fix: str) -> None:
    rows = (*(r for r in ROWS if (r.account, r.user) != (row.account, row.user)), row)
    found = only(judged(associations=rows))
    assert f"has the limit {row.zero[0]}" in found.cause
    assert fix in found.fix


def test_a_qos_that_lets_nothing_run_is_named_once() -> None:
    found = only(judged(qos={"normal": ("MaxJobsPU=0",)}))
    assert found.target == "cluster/QOS normal"
    assert "sacctmgr -i modify qos normal set MaxJobsPU=-1" in found.fix


def test_a_minute_is_named_as_such_and_a_flag_is_taken_away() -> None:
    short = only(judged(qos={"normal": ("MaxWall=00:01:00",)}))
    assert "its jobs end after 60 s" in short.cause
    assert "set MaxWall=-1" in short.fix
    kept = only(judged(qos={"normal": ("Flags=RequiresReservation",)}))
    assert "set Flags-=RequiresReservation" in kept.fix


def test_a_limited_qos_next_to_another_is_a_choice() -> None:
    def row(**given: Any) -> tuple[Association, ...]:
        return (*ROWS, Association(account="default", user="bea", **given))

    limited: dict[str, Any] = {"qos": {"tiny": ("MaxTRESPU=gres/gpu=0",)}}
    beside = judged(associations=row(qos=("normal", "tiny")), **limited)
    assert only(beside).status is Status.PASS
    for held in ({"qos": ("normal", "tiny"), "default_qos": "tiny"}, {"qos": ("tiny",)}):
        assert only(judged(associations=row(**held), **limited)).target == "cluster/QOS tiny"


def test_limits_of_what_is_not_the_sites_are_nobodys_business() -> None:
    rows = (*ROWS, Association(account="other", zero=("GrpJobs=0",)))
    assert only(judged(associations=rows)).status is Status.PASS


def test_a_job_that_slurm_refuses_is_named_with_its_words() -> None:
    refusal = "Job submit/allocate failed: User's group not permitted to use this partition"
    found = only(judged(submissions=(Submission(user="bea", partition="gpu", refused=refusal),)))
    assert found.status is Status.FAIL
    assert found.cause == f"Slurm refuses a job of bea in partition gpu: {refusal}"


def test_a_refused_job_is_no_fault_where_all_hosts_belong_to_kubernetes() -> None:
    """Such as a rack whose last host of Slurm was assigned to Kubernetes."""
    refusal = "allocation failure: Requested node configuration is not available"
    refused = (Submission(user="root", partition="gpu", refused=refusal),)
    given: dict[str, Any] = {
        "kubernetes": {},
        "hosts": [
            {"name": "head", "roles": ["control", "storage", "login"], "address": "10.0.0.10"},
            {"name": "gpu-1", "roles": ["gpu"], "address": "10.0.0.11", "owner": "kubernetes"},
            {"name": "gpu-2", "roles": ["gpu"], "address": "10.0.0.12", "owner": "kubernetes"},
        ],
    }
    found = only(judged(given, submissions=refused))
    assert (found.status, found.required) == (Status.NOT_ASSESSED, False)
    assert found.cause == "no job can start: all GPU hosts belong to Kubernetes"
    given["hosts"][2]["owner"] = "slurm"
    assert only(judged(given, submissions=refused)).status is Status.FAIL


@pytest.mark.parametrize("missing", ["partitions", "associations", "submissions"])
def test_what_was_not_read_is_no_pass(missing: str) -> None:
    found = judged(**{missing: None})
    assert Status.NOT_ASSESSED in {r.status for r in found}


def test_a_controller_that_is_down_says_nothing_of_partitions() -> None:
    assert only(judged(controller="down")).status is Status.NOT_ASSESSED


def test_a_table_of_accounts_that_was_made_anew_is_named_once_with_its_way_back() -> None:
    found = only(judged(associations=(Association(account="other"),)))
    assert "is empty (it was lost and recreated)" in found.cause
    assert "sacctmgr -i add cluster appliance; then appliance deploy" in found.fix


KEPT = (
    "ReservationName=maint StartTime=2026-11-29T20:00:00 EndTime=2027-11-29T20:00:00 Duration=365-00:00:00 "
    "Nodes=gpu-[1-3] NodeCnt=3 CoreCnt=6 Features=(null) PartitionName=(null) Flags=IGNORE_JOBS,SPEC_NODES,ALL_NODES "
    "TRES=cpu=6 Users={} Groups=(null) Accounts={} Licenses=(null) State=ACTIVE BurstBuffer=(null) Watts=n/a"
)


def test_a_reservation_for_root_alone_is_named_with_its_end() -> None:
    one = Reservation.model_validate(reservation(KEPT.format("root", "(null)")))
    found = only(judged(reservations=(one,)))
    assert found.target == "cluster/reservation maint"
    assert "keeps 3 hosts (gpu-[1-3]) for root until 2027-11-29T20:00:00" in found.cause
    assert found.fix.endswith("on head: scontrol delete reservation maint")


@pytest.mark.parametrize(
    ("users", "accounts"), [("bea", "(null)"), ("(null)", "vision"), ("root,bea", "(null)")]
)
def test_a_reservation_for_people_is_theirs(users: str, accounts: str) -> None:
    one = Reservation.model_validate(reservation(KEPT.format(users, accounts)))
    assert only(judged(reservations=(one,))).status is Status.PASS


@pytest.mark.parametrize("name", ["DefMemPerNode", "DefMemPerCPU"])
def test_memory_by_default_that_slurm_conf_does_not_have(name: str) -> None:
    found = only(judged(partitions=(changed(**{name: "90000000"}),)))
    assert f"{name} is 90000000" in found.cause
    assert "scontrol reconfigure" in found.fix


def test_a_qos_that_asks_for_more_than_the_cluster_has() -> None:
    found = only(judged(qos={"normal": ("MinTRES=cpu=1000",)}))
    assert "has the limit MinTRES=cpu=1000: the cluster has less" in found.cause
    assert found.fix == "on head: sacctmgr -i modify qos normal set MinTRES=cpu=-1"


class Answers(Ask):
    """A host whose programs answer from a table."""

    def __init__(self, said: dict[str, str]) -> None:
        super().__init__({}, "")
        self._said = said

    def run(self, argv: Sequence[str], timeout: float = 5.0, ok: Sequence[int] = (0,)) -> str:
        if argv[0] not in self._said:
            raise Unreadable(f"{argv[0]}: not installed")
        return self._said[argv[0]]


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("HASH_VAL                = Match\n", ""),
        ("HASH_VAL = Different Ours=0x2a Slurmctld=0xc3\n", "Different Ours=0x2a Slurmctld=0xc3"),
        ("", ""),
    ],
)
def test_a_configuration_that_is_not_the_files(said: str, found: str) -> None:
    assert collected._configured(Answers({"scontrol": said})) == found
    assert collected._configured(Answers({})) == ""


@pytest.mark.parametrize(("said", "found"), [("1\n", True), ("ON\n", True), ("0\n", False)])
def test_a_database_that_takes_no_records(said: str, *, found: bool) -> None:
    assert collected._is_read_only(Answers({"mysql": said})) is found
    assert collected._is_read_only(Answers({})) is None


def test_jobs_that_have_ended_and_still_run() -> None:
    ended = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - 300))
    ask = Answers({"squeue": f"73|gpu-2|{ended}\n74|gpu-3|N/A\n"})
    (one,) = collected._stuck(ask, [{"state": "idle+completing"}])
    assert (one["job"], one["nodes"]) == ("73", "gpu-2")
    assert 295 < one["seconds"] < 320
    assert collected._stuck(ask, [{"state": "idle"}]) == []
