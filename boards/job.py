"""Jobs, live and in history: what each holds, how long it has waited and run, and on which hosts."""

from boards.panel import Board, Needs, Variable, lines, table

J = '{jobid=~"$job"}'
ON_HOST = '* on (instance) group_left (jobid) label_replace(slurm_job_node{jobid=~"$job"}, "instance", "$1", "node", "(.+)")'

BOARD = Board(
    name="job",
    title="Job",
    purpose="What does this job hold, for how long, and does it use it? Past jobs stay as long as Prometheus keeps samples.",
    since="now-24h",
    variables=(Variable("job", "Job", "slurm_job_gpus", "jobid"),),
    panels=(
        table("Jobs now", f"slurm_job_gpus{J}"),
        lines("GPUs", f"slurm_job_gpus{J}", "{{jobid}} {{job_name}} {{user}} {{state}}"),
        lines("Processors", f"slurm_job_cpus{J}", "{{jobid}} {{job_name}} {{user}} {{state}}"),
        lines(
            "Running for",
            f"time() - slurm_job_start_time_seconds{J}",
            "{{jobid}} {{job_name}}",
            "s",
        ),
        lines(
            "Waited before it ran",
            f"slurm_job_start_time_seconds{J} - slurm_job_submit_time_seconds{J}",
            "{{jobid}} {{job_name}}",
            "s",
        ),
        table(
            "Jobs of the time shown: most GPUs held", f"max_over_time(slurm_job_gpus{J}[$__range])"
        ),
        lines(
            "Processors in use on its hosts",
            '(1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[$__rate_interval]))) '
            + ON_HOST,
            "{{jobid}} {{instance}}",
            "percentunit",
        ),
        lines(
            "Network received on its hosts",
            'sum by (instance) (rate(node_network_receive_bytes_total{device!="lo"}[$__rate_interval])) '
            + ON_HOST,
            "{{jobid}} {{instance}}",
            "Bps",
        ),
        lines(
            "GPU use on its hosts",
            "avg by (instance) (DCGM_FI_DEV_GPU_UTIL) " + ON_HOST,
            "{{jobid}} {{instance}}",
            "percent",
            Needs.DCGM,
        ),
        lines(
            "GPU use of the job alone",
            'DCGM_FI_DEV_GPU_UTIL{hpc_job=~"$job"}',
            "{{hpc_job}} {{instance}} GPU {{gpu}}",
            "percent",
            Needs.DCGM_JOBS,
        ),
    ),
)
