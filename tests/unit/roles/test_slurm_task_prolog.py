"""The task prolog on a host with divided GPUs: CUDA is told UUIDs, whatever way Slurm counts."""

import shlex

from jinja2 import Environment

from appliance.adapters.process import run
from appliance.config import data

UUIDS = ["GPU-a", "GPU-b", "MIG-c", "MIG-d"]


def told(constrain: bool, *, divided: bool = True, **env: str) -> str:
    """What a task's environment is given."""
    template = data.root() / "roles/slurm/templates/etc/slurm/task-prolog.sh.j2"
    environment = Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["quote"] = shlex.quote
    script = environment.from_string(template.read_text())
    given = {"__slurm_is_divided": divided, "__slurm_uuids": UUIDS}
    text = script.render(slurm_scratch="", slurm_constrain=constrain, **given)
    clean = {"SLURM_STEP_GPUS": "", "SLURM_JOB_GPUS": "", "CUDA_VISIBLE_DEVICES": ""}
    return run(("sh", "-c", text), env={**clean, **env}).stdout


def test_numbers_of_the_host_become_uuids() -> None:
    said = told(False, CUDA_VISIBLE_DEVICES="0,3", SLURM_STEP_GPUS="0,3")
    assert said == "export CUDA_VISIBLE_DEVICES=GPU-a,MIG-d\n"


def test_numbers_within_the_job_become_uuids_where_devices_are_constrained() -> None:
    for said in (
        told(True, CUDA_VISIBLE_DEVICES="1", SLURM_STEP_GPUS="0,3"),
        told(True, CUDA_VISIBLE_DEVICES="1", SLURM_JOB_GPUS="0,3"),
    ):
        assert said == "export CUDA_VISIBLE_DEVICES=MIG-d\n"


def test_a_job_without_gpus_is_told_nothing() -> None:
    assert told(True) == told(False) == ""


def test_a_host_with_whole_gpus_leaves_it_to_slurm() -> None:
    assert told(False, divided=False, CUDA_VISIBLE_DEVICES="0") == ""
