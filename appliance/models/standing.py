"""What one host's facts may change for others, and how its answer contradicts what is known of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from appliance.models.facts import HostFacts


@dataclass(frozen=True)
class Contradiction:
    """``says``: the host's answer; ``known``: what was accepted or is expected; ``fix``: where it is not to accept the answer."""

    what: str
    says: str
    known: str
    fix: str = ""


@dataclass(frozen=True)
class Standing:
    """``facts``: per host, only what files of other hosts are made from.

    ``left_out``: hosts that were never accepted and contradict their class; no file of another host names them.
    """

    facts: Mapping[str, HostFacts] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    contradictions: Mapping[str, tuple[Contradiction, ...]] = field(default_factory=dict)
