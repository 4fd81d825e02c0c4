"""Why something is not known, before a check makes a result of it."""

from dataclasses import dataclass, replace

from appliance.models.result import Kind


@dataclass(frozen=True)
class Gap:
    """``text`` for people; ``names``: the hosts, or parts of theirs, of which it is not known."""

    text: str
    names: tuple[str, ...] = ()
    kind: Kind = Kind.OTHER

    def of(self, text: str) -> "Gap":
        """The same in other words."""
        return replace(self, text=text)

    def after(self, words: str) -> "Gap":
        """The same behind other words."""
        return self.of(words + self.text)
