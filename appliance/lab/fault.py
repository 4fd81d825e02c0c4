"""The type of a fault of a rack host."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from appliance.lab.spec import Rack, RackHost

Action = Callable[[Rack, RackHost, Sequence[str]], None]


@dataclass(frozen=True)
class Fault:
    """One kind of fault; ``arguments`` is how they are written in the help text.

    ``example`` are arguments that fit any rack, ``check`` the id of the check that then tells of it, and ``target``
    that of its result, where HOST stands for the host's name. No ``check``: the fault is met otherwise.
    ``says`` is what the check says then, with * for what differs from one time to the next. ``drains``: the host finds
    itself unfit for work by it (appliance/watch), by the same check.
    """

    kind: str
    summary: str
    inflict: Action
    clear: Action
    arguments: str = ""
    required: int = 0
    example: tuple[str, ...] = ()
    check: str = ""
    target: str = "HOST"
    says: str = ""
    drains: bool = False
