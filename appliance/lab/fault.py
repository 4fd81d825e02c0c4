"""What a fault of a rack host is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from appliance.lab.spec import Rack, RackHost

Action = Callable[[Rack, RackHost, Sequence[str]], None]


@dataclass(frozen=True)
class Fault:
    """One kind of fault; ``arguments`` is how they are written in the help text."""

    kind: str
    summary: str
    inflict: Action
    clear: Action
    arguments: str = ""
    required: int = 0
