"""Errors of the program, each with a one-line text."""

from __future__ import annotations


class Trouble(Exception):
    """A server did not answer or refused; work stays as it is."""


class Conflict(Trouble):
    """Another client changed the object at the same time."""


class Unknown(Trouble):
    """A fact that is needed before work may be ended is unknown."""


class Unowned(Unknown):
    """The owner that a pod names does not exist; the pod itself is judged instead."""
