"""Secrets: references in the site, resolved late, and never printed."""

from collections.abc import Iterable, Mapping


class Secret(str):
    """A resolved secret. Its repr hides it; ``str()`` is the value, for role variables only."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Secret(***)"


class Redactor:
    """Replaces every known secret in text that leaves the program."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = sorted({s for s in secrets if len(s) >= 4}, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """The text with secrets replaced by ``***``."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


Secrets = Mapping[str, Secret]
