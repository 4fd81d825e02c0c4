"""Grows the tree of a captured host from JSON, its programs as scripts that answer what they answered there."""

from tests.support.probe_trees import data, grow, load, said

__all__ = ["data", "grow", "load", "said"]
