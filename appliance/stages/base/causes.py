"""What stage base explains of the checks of later stages."""

from appliance.checks.causes import Cause, Condition, Effect, always, both, only_of

FULL_DISK = Cause("base.disk", "nothing that writes works on a full disk")


def unit_failed(*units: str, when: Condition = always) -> Effect:
    """Where every unit that is called failed is one of these, the check of them says what is wrong."""
    return Effect(
        "base.failed_units", "it is the unit that failed", when=both(when, only_of(*units))
    )
