"""What Prometheus warns of: the alerts of all stages."""

from appliance.alerts.alert import Alert
from appliance.stages import parts

ALERTS: tuple[Alert, ...] = tuple(alert for part in parts("alerts") for alert in part.ALERTS)
