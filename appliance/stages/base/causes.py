"""What stage base explains of the checks of later stages."""

from appliance.checks.causes import Cause, Condition, Effect, always, both, names_only
from appliance.stages.base import ids

FULL_DISK = Cause(ids.DISK, "nothing that writes works on a full disk")


def unit_failed(*units: str, when: Condition = always) -> Effect:
    """Where every unit that is called failed is one of these, the check of them says what is wrong."""
    return Effect(
        ids.FAILED_UNITS,
        "it is the unit that failed",
        when=both(when, names_only(*(f"{unit}.service" for unit in units))),
    )


def read_by(folder: str, kind: str) -> Condition:
    """The cause lies in this folder, and all the effect names is of the kind that is read from there."""
    return lambda cause, effect: (
        any(part.startswith(folder) for part in cause.parts)
        and bool(effect.names)
        and all(name.startswith(kind) for name in effect.names)
    )
