"""How often Python looks for objects that hold each other."""

import gc

YOUNG, MIDDLE, OLD = 200_000, 20, 10
"""New objects between two looks (Python 3.11: 700, 10, 10), and how many looks before one goes deeper.

What the program reads of itself stays to the end, and so do the facts and results of a large site, millions of objects:
looking through them as often as Python does by itself takes a tenth of the start and a quarter of a plan. It stays on, for
connections of a long deployment do hold each other.
"""


def relax() -> None:
    """Once, at the start of the program."""
    gc.set_threshold(YOUNG, MIDDLE, OLD)


def rest() -> None:
    """Once, at its end: Python would look through everything twice before it lets go of it."""
    gc.disable()
    gc.freeze()
