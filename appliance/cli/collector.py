"""How often Python looks for objects that hold each other."""

import gc

YOUNG, MIDDLE, OLD = 50_000, 20, 10
"""New objects between two looks (Python 3.11: 700, 10, 10), and how many looks before one goes deeper.

The facts and results of a large site are millions of objects that stay to the end: looking through them as often as
Python does by itself takes a quarter of the time a plan takes. It stays on, for connections of a long deployment do
hold each other.
"""


def relax() -> None:
    """Once, at the start of the program."""
    gc.set_threshold(YOUNG, MIDDLE, OLD)


def rest() -> None:
    """Once, at its end: Python would look through everything twice before it lets go of it."""
    gc.disable()
    gc.freeze()
