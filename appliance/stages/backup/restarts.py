"""What stage backup restarts."""

from appliance.stages.restart import Restart

RESTARTS = (
    Restart(
        "appliance-backup.timer",
        ("/etc/systemd/system/appliance-backup.timer",),
        frozenset({"backup_every_minutes"}),
    ),
)
