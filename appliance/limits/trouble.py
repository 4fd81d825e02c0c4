"""What goes wrong, each in one line."""

from __future__ import annotations


class Trouble(Exception):
    """Something did not answer or refused; the work is left as it is."""


class Conflict(Trouble):
    """Somebody else changed the same thing at the same moment."""


class Unknown(Trouble):
    """What must be known before work is ended cannot be had."""


class Unowned(Unknown):
    """What a pod says of its owner leads to none; the pod itself is judged in its place."""
