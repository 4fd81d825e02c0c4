"""Alerts about Slurm, on the metrics that role observe collects (files/usr/local/libexec/appliance/slurm_metrics.py)."""

from appliance.alerts.alert import Alert, Severity
from appliance.stages.slurm import ids

ALERTS = (
    Alert(
        name="SlurmSilent",
        area="slurm",
        # A restarted Prometheus uses the last sample for five minutes, even if Slurm was removed from the host.
        expr="slurm_up == 0 and time() - timestamp(slurm_up) < 90",
        minutes=3,
        severity=Severity.CRITICAL,
        summary="slurmctld on {{ $labels.instance }} does not answer",
        remedy="systemctl status slurmctld munge there; journalctl -u slurmctld. Running jobs continue meanwhile.",
        check=ids.CONTROLLER,
    ),
    Alert(
        name="SlurmAccountingSilent",
        area="slurm",
        expr="slurm_accounting_up == 0 and on (instance) slurm_up == 1",
        minutes=5,
        severity=Severity.WARNING,
        summary="slurmdbd on {{ $labels.instance }} does not answer",
        remedy="systemctl status slurmdbd mariadb there; slurmctld keeps the records that it could not send.",
        check=ids.ACCOUNTING,
    ),
    Alert(
        name="SlurmMetricsOld",
        area="slurm",
        expr='time() - node_textfile_mtime_seconds{file=~".*/slurm.prom"} > 300',
        minutes=2,
        severity=Severity.WARNING,
        summary="{{ $labels.instance }}: queue metrics are {{ $value | humanizeDuration }} old",
        remedy="systemctl status appliance-slurm-metrics.timer; journalctl -u appliance-slurm-metrics there.",
        check=ids.CONTROLLER,
    ),
    Alert(
        name="SlurmNodeLost",
        area="slurm",
        expr='slurm_node_state{state=~"down|unknown|fail|error"} == 1',
        minutes=5,
        severity=Severity.CRITICAL,
        summary="{{ $labels.node }} is {{ $labels.state }} in Slurm and accepts no jobs",
        remedy="scontrol show node {{ $labels.node }} shows the reason; after the repair: scontrol update "
        "nodename={{ $labels.node }} state=resume",
        check=ids.NODES,
    ),
    Alert(
        name="SlurmNodeDrained",
        area="slurm",
        expr='slurm_node_state{state=~"drained|draining|drain"} == 1',
        minutes=60,
        severity=Severity.WARNING,
        summary="{{ $labels.node }} has been drained for an hour",
        remedy="sinfo -R shows the reason and who set it; scontrol update nodename={{ $labels.node }} state=resume "
        "after the work there.",
        check=ids.NODES,
    ),
    Alert(
        name="HostUnfitAndKept",
        area="slurm",
        expr='appliance_watch_kept{scheduler!="kubernetes"} == 1',
        minutes=2,
        severity=Severity.CRITICAL,
        summary="{{ $labels.instance }} is unfit for work but not drained",
        remedy="appliance-watch look there shows why; the limit slurm.watch.most_out of drained hosts is reached (sinfo -R), or "
        "slurmctld does not answer.",
        check=ids.WATCH,
    ),
    Alert(
        name="SlurmGpusIdleWhileJobsWait",
        area="slurm",
        expr="slurm_partition_oldest_pending_seconds > 3600"
        " and on (instance, partition) slurm_partition_gpus - slurm_partition_gpus_allocated > 0",
        minutes=60,
        severity=Severity.WARNING,
        summary="Jobs of partition {{ $labels.partition }} have waited {{ $value | humanizeDuration }} while GPUs are idle",
        remedy="squeue --start -p {{ $labels.partition }} shows the reasons; large jobs wait for hosts to become free, limits of an "
        "account block others.",
        check=ids.GRES,
    ),
)
