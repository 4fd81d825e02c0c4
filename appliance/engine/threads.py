"""Worker threads that the program waits for, unless the user interrupts it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def threads(most: int) -> Iterator[ThreadPoolExecutor]:
    """A pool that ends with the block. On Ctrl-C it is abandoned, because a hanging host may occupy a thread for long."""
    pool = ThreadPoolExecutor(most)
    is_patient = True
    try:
        yield pool
    except KeyboardInterrupt:
        is_patient = False
        raise
    finally:
        pool.shutdown(wait=is_patient, cancel_futures=not is_patient)
