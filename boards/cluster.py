"""The cluster at a glance: is everything there, how full is it, what is wrong."""

from boards.panel import Board, Needs, lines, number, table

BOARD = Board(
    name="cluster",
    title="Cluster",
    purpose="Is everything there, how full is it, and what is wrong?",
    panels=(
        number("Hosts that answer", 'sum(up{job="node"})'),
        number("Alerts that fire", 'count(ALERTS{alertstate="firing"}) or vector(0)'),
        number("GPUs", "sum(slurm_node_gpus)"),
        number("GPUs given to jobs", "sum(slurm_node_gpus_allocated)"),
        number("Jobs that run", 'sum(slurm_partition_jobs{state="running"})'),
        number("Jobs that wait", 'sum(slurm_partition_jobs{state="pending"})'),
        table("Checks that are not good", 'appliance_check_status{status!="pass"} == 1'),
        number("Checks passed", 'sum(appliance_check_results{status="pass"})'),
        number(
            "Checks without a verdict",
            'sum(appliance_check_results{status=~"not_assessed|skip"})',
        ),
        number("Age of the checks", "time() - max(appliance_checked_timestamp_seconds)", "s"),
        number("GPU use", "avg(DCGM_FI_DEV_GPU_UTIL)", "percent", Needs.DCGM),
        number("Power of all GPUs", "sum(DCGM_FI_DEV_POWER_USAGE)", "watt", Needs.DCGM),
        number(
            "GPUs allocated of all",
            "sum(slurm_node_gpus_allocated) / (sum(slurm_node_gpus) > 0)",
            "percentunit",
        ),
        lines(
            "Processors in use",
            '1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[$__rate_interval]))',
            "{{instance}}",
            "percentunit",
        ),
        lines(
            "Memory in use",
            "1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes",
            "{{instance}}",
            "percentunit",
        ),
        lines(
            "GPU use by host",
            "avg by (instance) (DCGM_FI_DEV_GPU_UTIL)",
            "{{instance}}",
            "percent",
            Needs.DCGM,
        ),
        lines("GPUs given to jobs, by host", "slurm_node_gpus_allocated", "{{node}}"),
        lines("Hosts by state", "sum by (state) (slurm_partition_nodes)", "{{state}}"),
        lines(
            "InfiniBand received",
            "sum by (instance) (rate(node_infiniband_port_data_received_bytes_total[$__rate_interval]))",
            "{{instance}}",
            "Bps",
            Needs.INFINIBAND,
        ),
    ),
)
