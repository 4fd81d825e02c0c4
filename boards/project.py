"""Projects: what each was promised, holds and has used. A project is an account of Slurm or a queue of KAI."""

from boards.panel import Board, Needs, Panel, Query, Variable, lines

A = '{account=~"$account"}'

BOARD = Board(
    name="project",
    title="Project",
    purpose="What does each project hold, and does it get its share?",
    since="now-7d",
    variables=(Variable("account", "Project", "slurm_account_share", "account"),),
    panels=(
        lines("GPUs held", f"slurm_account_gpus{A}", "{{account}}"),
        lines("Jobs by state", f"slurm_account_jobs{A}", "{{account}} {{state}}"),
        Panel(
            "Share meant and share used",
            (
                Query(f"slurm_account_share{A}", "{{account}} meant"),
                Query(f"slurm_account_usage{A}", "{{account}} used"),
            ),
            "percentunit",
        ),
        lines(
            "GPU hours of the last day",
            f"sum by (account) (sum_over_time(slurm_account_gpus{A}[1d:1m])) / 60",
            "{{account}}",
        ),
        lines(
            "GPUs by user",
            'sum by (user) (slurm_job_gpus{account=~"$account",state="running"})',
            "{{user}}",
        ),
        lines(
            "GPU use by project",
            "avg by (account) (DCGM_FI_DEV_GPU_UTIL * on (hpc_job) group_left (account)"
            ' label_replace(slurm_job_gpus{account=~"$account",state="running"}, "hpc_job", "$1", "jobid", "(.+)"))',
            "{{account}}",
            "percent",
            Needs.DCGM_JOBS,
        ),
        Panel(
            "Kubernetes: GPUs of projects",
            (
                Query("kai_queue_allocated_gpus", "{{queue_name}} allocated"),
                Query("kai_queue_deserved_gpus", "{{queue_name}} quota"),
            ),
            needs=Needs.KAI,
        ),
    ),
)
