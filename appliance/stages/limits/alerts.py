"""Alerts about limits of time on Kubernetes: they are not kept, or cannot be judged."""

from appliance.alerts.alert import Alert, Severity
from appliance.stages.limits import ids

ALERTS = (
    Alert(
        name="LimitsNotKept",
        area="limits",
        expr="time() - appliance_limits_success_timestamp_seconds > 600",
        minutes=1,
        severity=Severity.WARNING,
        summary="{{ $labels.instance }}: limits of time have not been looked at for {{ $value | humanizeDuration }}",
        remedy="journalctl -u appliance-limits -u appliance-limits-token there says why; work runs on meanwhile.",
        check=ids.RUNNING,
    ),
    Alert(
        name="LimitsStuck",
        area="limits",
        expr="appliance_limits_stuck > 0",
        minutes=5,
        severity=Severity.WARNING,
        summary="{{ $labels.instance }}: workloads that were ended at their limit and are still there: {{ $value }}",
        remedy="journalctl -u appliance-limits there names them; kubectl describe them: a finalizer, a controller that is "
        "down, or one that starts them again.",
        check=ids.CLUSTER,
    ),
    Alert(
        name="LimitsUnknown",
        area="limits",
        expr="sum by (instance) (appliance_limits_unknown) > 0",
        minutes=60,
        severity=Severity.WARNING,
        summary="{{ $labels.instance }}: workloads that cannot be judged and are left alone: {{ $value }}",
        remedy="journalctl -u appliance-limits there names each with its reason; for idle GPUs most often dcgm-exporter does "
        "not name pods (DCGM_EXPORTER_KUBERNETES) or is not scraped.",
        check=ids.METRICS,
    ),
)
