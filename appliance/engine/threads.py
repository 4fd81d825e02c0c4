"""Worker threads that are waited for, except by a user who wants out at once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def threads(most: int) -> Iterator[ThreadPoolExecutor]:
    """A pool that ends with the block. On Ctrl-C it is left behind: a host that hangs may hold a thread for long."""
    pool = ThreadPoolExecutor(most)
    is_patient = True
    try:
        yield pool
    except KeyboardInterrupt:
        is_patient = False
        raise
    finally:
        pool.shutdown(wait=is_patient, cancel_futures=not is_patient)
