"""What Ctrl-C does to a run: the first stops it cleanly, the second at once; neither leaves anything at work here."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from appliance.adapters import strays
from appliance.engine.session import Session
from appliance.models.events import Message

INTERRUPTED = 130


@contextmanager
def interruptible(session: Session) -> Iterator[None]:
    """Within the block SIGINT and SIGTERM set ``session.cancelled``, and raise KeyboardInterrupt when they come again.

    The journal holds what is done in either case; a run that was stopped at once is noted as finished there.
    """

    def stop(signum: int, frame: FrameType | None) -> None:
        if session.cancelled.is_set():
            raise KeyboardInterrupt
        session.cancelled.set()
        # A thread of its own: this one may be telling something at this very moment, and hold the observer's lock.
        said = Message(text="Stopping; press Ctrl-C again to stop at once.", level="warning")
        threading.Thread(target=session.tell, args=(said,), daemon=True).start()

    before = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt:
        for signum in before:
            signal.signal(signum, signal.SIG_IGN)
        strays.end(strays.mark(session.folder_of_run))
        session.journal.append(session.run, "run_finished", exit=INTERRUPTED, interrupted=True)
        raise
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
