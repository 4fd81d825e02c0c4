"""Alerts about time limits on Kubernetes: they are not enforced, or cannot be judged."""

from appliance.alerts.alert import Alert, Severity
from appliance.stages.limits import ids

ALERTS = (
    Alert(
        name="LimitsNotKept",
        area="limits",
        expr="time() - appliance_limits_success_timestamp_seconds > 600",
        minutes=1,
        severity=Severity.WARNING,
        summary="{{ $labels.instance }}: time limits have not been checked for {{ $value | humanizeDuration }}",
        remedy="journalctl -u appliance-limits -u appliance-limits-token there shows why; work keeps running meanwhile.",
        check=ids.RUNNING,
    ),
    Alert(
        name="LimitsStuck",
        area="limits",
        expr="appliance_limits_stuck > 0",
        minutes=5,
        severity=Severity.WARNING,
        summary="{{ $labels.instance }}: {{ $value }} workloads were ended at their limit but still exist",
        remedy="journalctl -u appliance-limits there names them; kubectl describe shows why: a finalizer, a controller that is "
        "down, or one that starts them again.",
        check=ids.CLUSTER,
    ),
    Alert(
        name="LimitsUnknown",
        area="limits",
        expr="sum by (instance) (appliance_limits_unknown) > 0",
        minutes=60,
        severity=Severity.WARNING,
        summary="{{ $labels.instance }}: {{ $value }} workloads cannot be judged, so their limits are not enforced",
        remedy="journalctl -u appliance-limits there gives the reason for each; for idle GPUs usually dcgm-exporter does "
        "not report pods (DCGM_EXPORTER_KUBERNETES) or is not scraped.",
        check=ids.METRICS,
    ),
)
