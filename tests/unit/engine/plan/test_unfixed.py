"""A plan says what is wrong on the hosts, but for what it is about to mend."""

from typing import Any

from appliance.engine.look.gather import Round, Unanswered
from appliance.engine.plan.selection import Selection
from appliance.engine.plan.unfixed import unfixed_results
from appliance.engine.session import Session
from appliance.models.plan import Action, HostStage, Plan
from appliance.models.result import CheckResult
from appliance.stages.catalog import STAGES
from appliance.stages.slurm.facts import Slurm, SlurmPartition
from tests.support.engine_fakes import receipt_of
from tests.support.facts import facts_of
from tests.support.observe_facts import RULES

HOSTS = ("head", "gpu-1", "gpu-2")
STOPPED = {"load": "loaded", "active": "inactive", "enabled": "enabled"}


def plan(*cells: HostStage) -> Plan:
    stages = tuple(stage.name for stage in STAGES)
    return Plan(site="acme", profile="hpc", hosts=HOSTS, stages=stages, cells=cells)


def seen(**of_gpu_1: Any) -> Round:
    return Round({h: facts_of(h, **(of_gpu_1 if h == "gpu-1" else {})) for h in HOSTS}, {})


def wrong(
    session: Session, found: Round, *cells: HostStage, hosts: tuple[str, ...] = ()
) -> set[tuple[str, str]]:
    selection = Selection(frozenset(hosts), STAGES)
    results: tuple[CheckResult, ...] = unfixed_results(session, found, selection, plan(*cells))
    return {(r.id, r.target) for r in results}


def test_hardware_speaks_before_any_stage_is_finished(session: Session) -> None:
    found = seen(pci_gpus=7, pci_gpu_ids=())
    assert ("gpu.count", "gpu-1") in wrong(session, found)


def test_what_a_stage_mends_is_the_plans_to_say(session: Session) -> None:
    receipts = {"observe": receipt_of("observe", "f")}
    found = seen(receipts=receipts, units={"prometheus-node-exporter.service": STOPPED})
    stopped = ("observe.exporter", "gpu-1")
    assert stopped in wrong(session, found)
    repair = HostStage(stage="observe", host="gpu-1", action=Action.REPAIR)
    assert stopped not in wrong(session, found, repair)
    elsewhere = HostStage(stage="observe", host="gpu-2", action=Action.REPAIR)
    assert stopped in wrong(session, found, elsewhere)


def test_of_the_whole_cluster_where_the_stage_runs_on_every_host(session: Session) -> None:
    """As after an upgrade of the program: rules that come with it are no fault that a deployment cannot mend."""
    receipts = {"observe": receipt_of("observe", "f")}
    rules = Round(
        {h: facts_of(h, receipts=receipts, observe={"rules": RULES - 4}) for h in HOSTS}, {}
    )
    told = ("observe.rules", "cluster")
    cells = [HostStage(stage="observe", host=h, action=Action.RUN) for h in HOSTS]
    assert told in wrong(session, rules)
    assert told in wrong(session, rules, cells[0])
    one_left = [*cells[:2], cells[2].model_copy(update={"action": Action.BLOCKED})]
    assert told in wrong(session, rules, *one_left)
    assert told not in wrong(session, rules, *cells)


def test_what_the_site_lists_and_the_stage_will_create_is_no_fault_of_the_plan(
    session: Session,
) -> None:
    """As after a partition or a user was added: the stage runs on the first control host, perhaps on no other."""
    live = (SlurmPartition(name="other", state="UP", nodes=2),)
    slurm = Slurm(controller="up", nodes=(), partitions=live)
    receipts = {"slurm": receipt_of("slurm", "f")}
    found = Round({h: facts_of(h, receipts=receipts, slurm=slurm if h == "head" else None) for h in HOSTS}, {})  # fmt: skip
    told = ("slurm.submit", "cluster/partition gpu")
    assert told in wrong(session, found)
    assert told in wrong(session, found, HostStage(stage="slurm", host="gpu-1", action=Action.RUN))
    assert told in wrong(session, found, HostStage(stage="base", host="head", action=Action.RUN))
    assert told not in wrong(session, found, HostStage(stage="slurm", host="head", action=Action.RUN))  # fmt: skip
    down = slurm.model_copy(update={"partitions": (live[0].model_copy(update={"name": "gpu", "state": "DOWN"}),)})  # fmt: skip
    found = Round({h: facts_of(h, receipts=receipts, slurm=down if h == "head" else None) for h in HOSTS}, {})  # fmt: skip
    assert told in wrong(session, found, HostStage(stage="slurm", host="head", action=Action.RUN))


def test_other_hosts_than_the_chosen_ones_are_left_out(session: Session) -> None:
    found = seen(pci_gpus=7, pci_gpu_ids=())
    assert ("gpu.count", "gpu-1") not in wrong(session, found, hosts=("gpu-2",))
    assert ("gpu.count", "gpu-1") in wrong(session, found, hosts=("gpu-1",))


def test_gaps_are_for_health_to_tell(session: Session) -> None:
    assert wrong(session, seen()) == set()


def test_a_silent_host_is_wrong_too(session: Session) -> None:
    found = Round({}, {"gpu-1": Unanswered("gpu-1", "off", "power it on")})
    assert ("host.reachable", "gpu-1") in wrong(session, found)


def test_a_change_by_hand_is_the_plans_to_say_where_all_of_it_is_put_back(session: Session) -> None:
    changed = {"kind": "file", "name": "/etc/x", "expected": "as written", "found": "missing"}
    receipts = {name: receipt_of(name, "f", drift=[changed]) for name in ("base", "slurm")}
    told = ("base.drift", "gpu-1")
    found = seen(receipts=receipts)
    repairs = [
        HostStage(stage=name, host="gpu-1", action=Action.REPAIR) for name in ("base", "slurm")
    ]
    assert told in wrong(session, found)
    assert told in wrong(session, found, repairs[0])
    assert told not in wrong(session, found, *repairs)
