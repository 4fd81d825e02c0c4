"""What is kept and shown of another program's word, whichever program it is."""

from dataclasses import dataclass
from datetime import datetime

from appliance.benchmarks.benchmark import Raw
from appliance.models.run import Table


@dataclass(frozen=True)
class Shown:
    """``name``: what it is filed under; ``of``: the program and its document, for people; ``raw``: what is kept with its digest."""

    name: str
    of: str
    counts: str
    began: datetime
    dated_by: str
    raw: tuple[Raw, ...]
    table: Table
