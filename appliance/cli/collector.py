"""Sets how often Python's garbage collector runs."""

import gc

YOUNG, MIDDLE, OLD = 200_000, 20, 10
"""New objects between two collections (Python 3.11: 700, 10, 10), and collections per deeper generation.

Modules of the program live until it exits, and so do the facts and results of a large site, millions of objects. With
Python's defaults, collections take a tenth of the start and a quarter of a plan. The collector stays enabled because
connections of a long deployment form reference cycles.
"""


def relax() -> None:
    """Called once, when the program starts."""
    gc.set_threshold(YOUNG, MIDDLE, OLD)


def rest() -> None:
    """Called once, when the program exits: Python would otherwise collect twice before it frees memory."""
    gc.disable()
    gc.freeze()
