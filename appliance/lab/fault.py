"""The type of a fault of a rack host."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from appliance.lab.spec import Rack, RackHost

Action = Callable[[Rack, RackHost, Sequence[str]], None]


@dataclass(frozen=True)
class Fault:
    """One kind of fault; ``arguments`` is their notation in the help text.

    ``example``: arguments that fit any rack; ``check``: the id of the check that reports the fault; ``target``:
    the target of its result, with HOST for the host's name. No ``check``: the fault is tested in another way.
    ``says``: the message of the check, with * for variable parts. ``drains``: the host's own watch finds
    it unfit (appliance/watch), by the same check.
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
