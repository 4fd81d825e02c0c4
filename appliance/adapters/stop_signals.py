"""Signals that request the end of the program: all act like Ctrl-C, so that a run leaves nothing here."""

import errno
import os
import signal
import termios
from types import FrameType

from appliance.adapters import leftovers

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, kill, and the end of the terminal or of its connection."""

INTERRUPTED = 130
"""Exit code of a run ended by a signal, whichever it was."""


def listened() -> tuple[signal.Signals, ...]:
    """The signals that apply; nohup(1) starts a program with SIGHUP ignored."""
    deaf = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return tuple(s for s in STOPPING if not (deaf and s is signal.SIGHUP))


def listen() -> None:
    """From now on each raises KeyboardInterrupt in the main thread; a second one during that ends the program at once."""
    for signum in listened():
        signal.signal(signum, _stop)


def let_go(signum: int) -> None:
    """After a hang-up: without a terminal, further output is discarded, and raises nothing."""
    if signum != signal.SIGHUP:
        return
    for number in (0, 1, 2):
        try:
            termios.tcgetattr(number)
        except termios.error as error:
            if error.args[0] == errno.EIO:
                nowhere = os.open(os.devnull, os.O_RDWR)
                os.dup2(nowhere, number)
                os.close(nowhere)


def _stop(signum: int, frame: FrameType | None) -> None:
    let_go(signum)
    for other in listened():
        signal.signal(other, _end)
    raise KeyboardInterrupt


def _end(signum: int, frame: FrameType | None) -> None:
    for other in STOPPING:
        signal.signal(other, signal.SIG_IGN)
    leftovers.sweep()
    os._exit(INTERRUPTED)
