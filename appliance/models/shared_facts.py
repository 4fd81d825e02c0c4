"""Facts of one host that change other hosts, and contradictions between its answer and the accepted facts."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from appliance.models.facts import HostFacts


@dataclass(frozen=True)
class Contradiction:
    """``says``: the host's answer; ``known``: the accepted or expected value; ``fix``: if it is not to accept the answer.

    ``disputed``: another host that was never accepted reports the same, and it is unknown which of them lies.
    """

    what: str
    says: str
    known: str
    fix: str = ""
    disputed: bool = False


@dataclass(frozen=True)
class SharedFacts:
    """``facts``: per host, only what is used in files of other hosts.

    ``left_out``: hosts that were never accepted and contradict their class; no file of another host names them.
    """

    facts: Mapping[str, HostFacts] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    contradictions: Mapping[str, tuple[Contradiction, ...]] = field(default_factory=dict)
