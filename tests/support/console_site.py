"""A recorded site as the console sees it: three hosts of class hpc with three faults, a deployment, queues and jobs."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from appliance.actions.hosts.partitions import read
from appliance.actions.monitoring.health import Health, host_inventory
from appliance.actions.sites.history import Run
from appliance.actions.sites.last_deployment import Cell, Deployment, Progress, SiteRecord
from appliance.console.sources import Looked, Sources, Waiting
from appliance.engine.accept.acceptance import acceptance_of
from appliance.engine.look.judge import judge_all
from appliance.engine.look.probe_requests import ALL_CHECK_IDS
from appliance.engine.look.survey import view_of
from appliance.models.plan import Plan
from appliance.models.queue_plan import QueueState, QueueUse, WaitingPod
from appliance.models.site import Site as Model
from tests.golden.faults import Facts, failed_units, gpu_hosts, lost_gpu, planted
from tests.golden.record import Site, at_work, planned

NOW = datetime(2026, 11, 23, 14, 20, tzinfo=UTC)
SINFO = "batch|up|1|idle\nbatch|up|1|drained\n"
SQUEUE = (
    f"41|ada|batch|2|gres/gpu:8|{int((NOW - timedelta(hours=2)).timestamp())}|Resources|llm\n"
    f"42|bob|batch|1|N/A|{int((NOW - timedelta(minutes=5)).timestamp())}|JobHeldUser|a|b\n"
)
HOSTS, STAGES = ("head", "gpu-1", "gpu-2"), ("base", "gpu", "fabric", "storage", "slurm")
CAUSES = ("gpu.error", "fabric.state", "slurm.munge")
"""The checks that find the three faults."""


def recorded() -> tuple[Health, Plan]:
    """The site with GPU 3 of gpu-1 lost, a cable of gpu-2 out, and munge down on gpu-1: what health and plan say of it."""
    with TemporaryDirectory() as folder, at_work("hpc", Path(folder)) as site:
        return _health(site), planned(site.settled, site.prepared)


def _health(site: Site) -> Health:
    session = site.settled.session
    sound = {
        name: facts.model_copy(
            update={
                "receipts": site.settled.found.facts[name].receipts,
                "foreign": (),
                "sysctl_at_boot": {},
            }
        )
        for name, facts in site.made.found.facts.items()
    }
    found = planted(session.site, replace(site.settled.found, facts=sound, unanswered={}), faults)
    results = tuple(judge_all(view_of(session, found), found, ALL_CHECK_IDS))
    return Health(
        site="acme",
        hosts=3,
        seconds=1.8,
        simulated=(),
        results=results,
        since={},
        acceptance=acceptance_of(session, view_of(session, found), ()),
        records=host_inventory(session, found),
    )


def record(*, is_running: bool = False) -> SiteRecord:
    """A deployment that failed on one host; or one that is still at work there."""
    run = Run("2026-11-23T13-05-00", NOW - timedelta(minutes=75), verb="deploy", who="ada on desk")
    if not is_running:
        run.finished, run.outcome = NOW - timedelta(minutes=64), "failed"
    done = {(s, h): Cell(Progress.DONE, seconds=41, changes=3) for s in STAGES for h in HOSTS}
    begun = NOW - timedelta(minutes=1)
    last = Cell(Progress.RUNNING, "new", begun, changes=2, task="install packages")
    if not is_running:
        last = Cell(
            Progress.FAILED,
            "new",
            begun,
            19,
            cause="/data is not mounted",
            fix="appliance deploy --stage storage",
        )
    cells = done | {("storage", "gpu-2"): last, ("slurm", "gpu-2"): Cell(Progress.PLANNED)}
    held = {"run": run.run, "verb": "deploy", "pid": "7", "since": "13:05"} if is_running else {}
    return SiteRecord((run,), Deployment(run, is_running, HOSTS, STAGES, cells), held)


def waiting() -> Waiting:
    """A pod and two jobs that wait, a queue and a partition."""
    use = {"pool": "default", "gpu_quota": 8.0, "gpu_limit": 8.0, "gpu_requested": 12.0}
    queue = QueueUse(name="team-train", gpu_allocated=8.0, waiting=1, **use)
    pod = WaitingPod(
        name="llm-0",
        namespace="team",
        queue="team-train",
        pool="default",
        requests="4 x gpu",
        waits_s=750,
        cause="queue team-train is at its limit: 8 of 8 GPUs are allocated",
        fix="wait for other work of the queue, or raise the queue's gpu.limit in site.yml: appliance queue apply",
    )
    queues = QueueState(site="acme", server="https://10.0.0.10", queues=(queue,), waiting=(pod,))
    return Waiting(queues, read(SINFO, SQUEUE, NOW))


def sources(health: Health, plan: Plan) -> Sources:
    """The recorded site, as often as the console asks."""
    return Sources(
        site="acme",
        look=lambda: Looked(health),
        record=record,
        waiting=waiting,
        plan=lambda: plan,
    )


def faults(site: Model, facts: Facts) -> None:
    """A GPU lost, a cable out, a daemon down with what needs it."""
    second = gpu_hosts(site)[1]
    lost_gpu(site, facts)
    down = {"state": "DOWN", "physical": "Polling", "rate": 0.0}
    ports = facts[second].ports
    cut = (*ports[:2], ports[2].model_copy(update=down), *ports[3:])
    facts[second] = facts[second].model_copy(update={"ports": cut})
    failed_units(site, facts)
