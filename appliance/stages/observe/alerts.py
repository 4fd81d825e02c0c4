"""Alerts about the monitoring itself, and about checks that failed in scheduled runs."""

from appliance.alerts.alert import Alert, Severity
from appliance.stages.base import ids as base_ids
from appliance.stages.observe import ids

ALERTS = (
    Alert(
        name="RulesFail",
        area="prometheus",
        expr="increase(prometheus_rule_evaluation_failures_total[10m]) > 0",
        minutes=5,
        severity=Severity.CRITICAL,
        summary="Prometheus on {{ $labels.instance }} cannot evaluate rules: {{ $labels.rule_group }}",
        remedy="journalctl -u prometheus there; promtool check rules /etc/prometheus/rules/*.yml",
        check=ids.RULES,
    ),
    Alert(
        name="PrometheusKeepsOldConfiguration",
        area="prometheus",
        expr="prometheus_config_last_reload_successful == 0",
        minutes=5,
        severity=Severity.WARNING,
        summary="Prometheus on {{ $labels.instance }} could not load its configuration and keeps an older one",
        remedy="promtool check config /etc/prometheus/prometheus.yml there; then appliance deploy --stage observe.",
        check=ids.RULES,
    ),
    Alert(
        name="MetricsOnDiskDamaged",
        area="prometheus",
        expr="increase(prometheus_tsdb_wal_corruptions_total[1h]) > 0"
        " or increase(prometheus_tsdb_compactions_failed_total[1h]) > 0",
        minutes=0,
        severity=Severity.WARNING,
        summary="Prometheus on {{ $labels.instance }} has corrupted samples",
        remedy="Check free space and health of the disk below /var/lib/prometheus there; journalctl -u prometheus.",
        check=base_ids.DISK,
    ),
    Alert(
        name="MetricFilesUnreadable",
        area="prometheus",
        expr="node_textfile_scrape_error == 1",
        minutes=5,
        severity=Severity.WARNING,
        summary="{{ $labels.instance }}: a metrics file cannot be read",
        remedy="journalctl -u prometheus-node-exporter there names the file in /var/lib/prometheus/node-exporter.",
        check=ids.EXPORTER,
    ),
    Alert(
        name="ClusterUnseen",
        area="prometheus",
        expr='up{job=~"apiserver|kubelet|etcd|kai"} == 0',
        minutes=10,
        severity=Severity.WARNING,
        summary="Prometheus gets no metrics from {{ $labels.job }} of {{ $labels.instance }}",
        remedy="curl -s http://127.0.0.1:9090/api/v1/targets on the first control host, as root, shows why; appliance health --check kubernetes shows whether it runs.",
        check=ids.TARGETS,
    ),
    Alert(
        name="AlertsUndelivered",
        area="prometheus",
        # After the last receiver is removed, old samples count for five minutes: they must be fresh.
        expr="increase(alertmanager_notifications_failed_total[10m]) > 0"
        ' and on (instance) time() - timestamp(up{job="alertmanager"}) < 60',
        minutes=0,
        severity=Severity.CRITICAL,
        summary="Alertmanager on {{ $labels.instance }} could not deliver alerts by {{ $labels.integration }}",
        remedy="To find the receiver and the reason: appliance validate alerts.",
        check=ids.RECEIVERS,
    ),
    Alert(
        name="CheckFailed",
        area="prometheus",
        expr='appliance_check_status{status="fail"} == 1',
        minutes=0,
        severity=Severity.CRITICAL,
        summary="{{ $labels.target }}: check {{ $labels.id }} failed",
        remedy="appliance health --check {{ $labels.id }} shows cause and remedy.",
        check="{{ $labels.id }}",
    ),
    Alert(
        name="ChecksOld",
        area="prometheus",
        expr="time() - appliance_checked_timestamp_seconds > 172800",
        minutes=0,
        severity=Severity.WARNING,
        summary="The checks of site {{ $labels.site }} last ran {{ $value | humanizeDuration }} ago",
        remedy="Check the timer or cron job that runs appliance health --format prometheus.",
        check=ids.EXPORTER,
    ),
)
