"""Queues: partitions of Slurm, and queues of KAI on Kubernetes."""

from boards.panel import Board, Needs, Panel, Query, Variable, lines, number

P = '{partition=~"$partition"}'
Q = '{queue_name=~"$queue"}'

BOARD = Board(
    name="queue",
    title="Queue",
    purpose="Who waits for what, how long, and are GPUs idle meanwhile?",
    variables=(
        Variable("partition", "Partition (Slurm)", "slurm_partition_gpus", "partition"),
        Variable("queue", "Queue (Kubernetes)", "kai_queue_allocated_gpus", "queue_name"),
    ),
    panels=(
        number(
            "Jobs that run", 'sum(slurm_partition_jobs{partition=~"$partition",state="running"})'
        ),
        number(
            "Jobs that wait",
            'sum(slurm_partition_jobs{partition=~"$partition",state="pending"})',
        ),
        number("Longest wait", f"max(slurm_partition_oldest_pending_seconds{P})", "s"),
        number(
            "GPUs idle", f"sum(slurm_partition_gpus{P}) - sum(slurm_partition_gpus_allocated{P})"
        ),
        number("Jobs ended within the hour", "sum(slurm_jobs_ended)"),
        number("Of these not well", 'sum(slurm_jobs_ended{state!="completed"})'),
        lines("Jobs by state", f"slurm_partition_jobs{P}", "{{partition}} {{state}}"),
        Panel(
            "GPUs",
            (
                Query(f"slurm_partition_gpus_allocated{P}", "{{partition}} given to jobs"),
                Query(f"slurm_partition_gpus{P}", "{{partition}} all"),
            ),
        ),
        lines(
            "How long the first in the queue has waited",
            f"slurm_partition_oldest_pending_seconds{P}",
            "{{partition}}",
            "s",
        ),
        lines("Hosts by state", f"slurm_partition_nodes{P}", "{{partition}} {{state}}"),
        lines("How jobs ended, within an hour", "slurm_jobs_ended", "{{state}}"),
        Panel(
            "Kubernetes: GPUs of queues",
            (
                Query(f"kai_queue_allocated_gpus{Q}", "{{queue_name}} allocated"),
                Query(f"kai_queue_deserved_gpus{Q}", "{{queue_name}} quota"),
                Query(f"kai_queue_fair_share_gpu{Q}", "{{queue_name}} fair share"),
            ),
            needs=Needs.KAI,
        ),
        lines(
            "Kubernetes: part of the cluster used over time",
            f"kai_queue_gpu_usage{Q}",
            "{{queue_name}}",
            needs=Needs.KAI,
        ),
        lines(
            "Kubernetes: pods evicted an hour",
            "sum by (action) (increase(kai_pod_group_evicted_pods_total[1h]))",
            "{{action}}",
            needs=Needs.KAI,
        ),
        lines(
            "Kubernetes: time to schedule",
            "max(kai_e2e_scheduling_latency_milliseconds)",
            "the last cycle",
            "ms",
            Needs.KAI,
        ),
    ),
)
