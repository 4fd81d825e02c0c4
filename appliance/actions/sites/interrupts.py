"""Ctrl-C, kill and hang-up during a run: the first stops it cleanly, the second at once; no process is left here."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from appliance.adapters import leftovers
from appliance.adapters.stop_signals import INTERRUPTED, let_go, listened
from appliance.engine.session import Session
from appliance.journal import Journal
from appliance.models.events import Message

__all__ = ["INTERRUPTED", "interruptible", "noted"]


@contextmanager
def interruptible(session: Session) -> Iterator[None]:
    """Within the block, the signals of ``stopping`` set ``session.cancelled``, and raise KeyboardInterrupt when repeated.

    The journal records finished work in either case; a run that was stopped at once is marked as finished there.
    """

    def stop(signum: int, frame: FrameType | None) -> None:
        let_go(signum)
        if session.cancelled.is_set():
            for other in before:
                signal.signal(other, signal.SIG_IGN)
            raise KeyboardInterrupt
        session.cancelled.set()
        # A separate thread: this one may be reporting right now, and hold the observer's lock.
        said = Message(text="Stopping; press Ctrl-C again to stop at once.", level="warning")
        threading.Thread(target=session.tell, args=(said,), daemon=True).start()

    before = {s: signal.getsignal(s) for s in listened()}
    for signum in before:
        signal.signal(signum, stop)
    try:
        with noted(session.journal, session.run):
            yield
    except KeyboardInterrupt:
        leftovers.end(leftovers.mark(session.folder_of_run))
        raise
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


@contextmanager
def noted(journal: Journal, run: str) -> Iterator[None]:
    """Marks a run that is stopped at once as finished in the journal."""
    try:
        yield
    except KeyboardInterrupt:
        if not journal.last("run_finished", run=run):
            journal.append(run, "run_finished", exit=INTERRUPTED, interrupted=True)
        raise
