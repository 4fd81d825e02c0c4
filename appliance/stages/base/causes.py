"""What stage base explains of the checks of later stages."""

from appliance.checks.causes import Cause, Condition, Effect, always, both, names_only
from appliance.stages.base import ids

FULL_DISK = Cause(ids.DISK, "programs that write fail on a full disk")


def unit_failed(*units: str, when: Condition = always) -> Effect:
    """If all failed units are among these, their own check explains the failure."""
    return Effect(
        ids.FAILED_UNITS,
        "it is the unit that failed",
        when=both(when, names_only(*(f"{unit}.service" for unit in units))),
    )


def read_by(folder: str, kind: str) -> Condition:
    """The cause is in this directory, and all names of the effect are of the kind that is read from there."""
    return lambda cause, effect: (
        any(part.startswith(folder) for part in cause.parts)
        and bool(effect.names)
        and all(name.startswith(kind) for name in effect.names)
    )


OWN_FOLDER = Cause(
    ids.ACCESS,
    "its folder, or something in it, belongs to another account",
    when=lambda cause, effect: effect.parts in {(name,) for name in cause.names},
)
