"""What stage limits restarts."""

from appliance.stages.restart import Restart

RESTARTS = (
    Restart(
        "appliance-limits-token.timer",
        (
            "/etc/systemd/system/appliance-limits-token.timer",
            "/etc/systemd/system/appliance-limits-token.service",
        ),
    ),
    Restart(
        "appliance-limits",
        (
            *("/usr/local/sbin/appliance-limits", "/etc/appliance/limits.json"),
            "/etc/systemd/system/appliance-limits.service",
        ),
        frozenset(
            {
                *("limits_dry_run", "limits_identity", "limits_program", "limits_prometheus"),
                "limits_textfile_directory",
            }
        ),
    ),
)
