"""The remedy for a systemd unit that does not work."""

from appliance.models.facts import Unit

SUSPENDED = "suspended"
"""The probe's state of a unit with suspended processes; also in appliance/probe/collectors/units.py."""
FROZEN = "frozen"
RUNS = frozenset({"active", "restarting"})
"""States of a working unit; also in appliance/probe/collectors/units.py."""


def revived(unit: Unit, name: str, host: str, otherwise: str) -> str:
    """Return the command that restarts the unit, because a deployment never restarts a unit that systemd reports as active."""
    if unit.active != SUSPENDED:
        return otherwise
    if unit.sub == FROZEN:
        group = f"/sys/fs/cgroup/system.slice/{name}/cgroup.freeze"
        return f"on {host}: systemctl thaw {name}; echo 0 > {group}"
    return f"on {host}: systemctl restart {name}"
