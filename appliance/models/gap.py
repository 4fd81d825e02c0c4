"""Why something is unknown, before a check turns it into a result."""

from dataclasses import dataclass, replace

from appliance.models.result import Kind


@dataclass(frozen=True)
class Gap:
    """``text`` for people; ``names``: the hosts, or parts of them, for which it is unknown."""

    text: str
    names: tuple[str, ...] = ()
    kind: Kind = Kind.OTHER

    def of(self, text: str) -> "Gap":
        """The same with another text."""
        return replace(self, text=text)

    def after(self, words: str) -> "Gap":
        """The same with a prefix."""
        return self.of(words + self.text)
