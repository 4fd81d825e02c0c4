"""The alerts of all stages, for Prometheus."""

from appliance.alerts.alert import Alert
from appliance.stages import parts

ALERTS: tuple[Alert, ...] = tuple(alert for part in parts("alerts") for alert in part.ALERTS)
WITHOUT_SLURM: tuple[Alert, ...] = tuple(alert for alert in ALERTS if alert.area != "slurm")
"""Those of a site that has no Slurm."""
