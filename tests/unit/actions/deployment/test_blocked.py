"""A deployment that can change nothing says why."""

from appliance.actions.deployment.deploy import blocked_reasons
from appliance.models.plan import Action, HostStage, Plan


def cell(stage: str, host: str, action: Action, why: str = "") -> HostStage:
    return HostStage(stage=stage, host=host, action=action, why=why)


def test_each_reason_is_one_line_with_its_stage_and_hosts() -> None:
    cells = (
        cell("base", "gpu-1", Action.SKIP),
        cell("slurm", "gpu-1", Action.BLOCKED, "another name"),
        cell("slurm", "gpu-2", Action.BLOCKED, "another name"),
        cell("slurm", "head", Action.BLOCKED, "no disk"),
    )
    names = ("head", "gpu-1", "gpu-2")
    plan = Plan(site="lab", profile="hpc", hosts=names, stages=("base", "slurm"), cells=cells)
    assert blocked_reasons(plan) == [
        "stage slurm of gpu-[1-2] is blocked: another name",
        "stage slurm of head is blocked: no disk",
    ]
