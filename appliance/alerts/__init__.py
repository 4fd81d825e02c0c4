"""What Prometheus warns of; one file per area. This tuple is the list of all alerts."""

from appliance.alerts import fabric, gpu, host, limits, prometheus, slurm, storage
from appliance.alerts.alert import Alert

ALERTS: tuple[Alert, ...] = (
    *host.ALERTS,
    *gpu.ALERTS,
    *fabric.ALERTS,
    *storage.ALERTS,
    *slurm.ALERTS,
    *limits.ALERTS,
    *prometheus.ALERTS,
)
