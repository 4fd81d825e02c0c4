"""Prolog and epilog tell dcgm-exporter which job is on which GPU, and take it back."""

from pathlib import Path

import pytest
from jinja2 import Environment

from appliance.adapters.process import Completed, run
from appliance.config import data

STEPS = data.root() / "roles/slurm/templates/etc/slurm"


def play(step: str, folder: Path, *, divided: bool = False, **env: str) -> None:
    """Runs the prolog or epilog of a system user's job, on a host that is fit."""
    done = ended(step, folder, "true", divided=divided, **env)
    assert (done.returncode, done.stderr) == (0, "")


def ended(step: str, folder: Path, watch: str, *, divided: bool = False, **env: str) -> Completed:
    """The same beside a program ``watch`` that judges the host."""
    template = (STEPS / f"{step}.d/10-appliance.sh.j2").read_text()
    given = {
        "__slurm_is_divided": divided,
        "__slurm_gpu_jobs": folder,
        "slurm_scratch": "",
        "__slurm_watch_program": watch,
        "__slurm_places_program": "true",
    }
    script = Environment(trim_blocks=True, lstrip_blocks=True).from_string(template)
    argv = ("sh", "-c", script.render(given))
    return run(argv, env={"SLURM_JOB_UID": "0", **env}, check=False)


def names(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir()}


def test_a_job_is_named_at_each_of_its_gpus_while_it_runs(tmp_path: Path) -> None:
    play("prolog", tmp_path, SLURM_JOB_ID="7", SLURM_JOB_GPUS="0,3")
    play("prolog", tmp_path, SLURM_JOB_ID="77", SLURM_JOB_GPUS="1")
    assert names(tmp_path) == {"0": "7\n", "1": "77\n", "3": "7\n"}
    play("epilog", tmp_path, SLURM_JOB_ID="7")
    assert names(tmp_path) == {"0": "", "1": "77\n", "3": ""}


def test_what_a_lost_epilog_left_is_gone_with_the_next_job(tmp_path: Path) -> None:
    play("prolog", tmp_path, SLURM_JOB_ID="7", SLURM_JOB_GPUS="0")
    play("prolog", tmp_path, SLURM_JOB_ID="8", SLURM_JOB_GPUS="0")
    assert names(tmp_path) == {"0": "8\n"}


@pytest.mark.parametrize("gpus", ["", ","])
def test_a_job_without_gpus_is_named_nowhere(tmp_path: Path, gpus: str) -> None:
    play("prolog", tmp_path, SLURM_JOB_ID="7", SLURM_JOB_GPUS=gpus)
    assert names(tmp_path) == {}


def test_a_host_with_divided_gpus_or_without_the_exporter_is_left_alone(tmp_path: Path) -> None:
    play("prolog", tmp_path, divided=True, SLURM_JOB_ID="7", SLURM_JOB_GPUS="0")
    play("prolog", tmp_path / "none", SLURM_JOB_ID="7", SLURM_JOB_GPUS="0")
    play("epilog", tmp_path / "none", SLURM_JOB_ID="7")
    assert names(tmp_path) == {}


@pytest.mark.parametrize(("status", "is_kept"), [(9, False), (0, True), (1, True), (127, True)])
def test_a_job_is_sent_away_only_from_a_host_that_is_out(
    tmp_path: Path, status: int, is_kept: bool
) -> None:
    """Slurm drains a host whose prolog fails, and knows no bound: a judge that falls over must not empty the cluster."""
    watch = tmp_path / "watch"
    watch.write_text(f"#!/bin/sh\nexit {status}\n")
    watch.chmod(0o755)
    done = ended("prolog", tmp_path, str(watch), SLURM_JOB_ID="7", SLURM_JOB_GPUS="0")
    assert (done.returncode == 0) is is_kept
