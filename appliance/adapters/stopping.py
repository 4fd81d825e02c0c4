"""Signals that ask the program to end: all do what Ctrl-C does, so that nothing of a run is left here."""

import errno
import os
import signal
import termios
from types import FrameType

from appliance.adapters import leftovers

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, kill, and the end of the terminal or of the connection it came over."""

INTERRUPTED = 130
"""Exit code of a run that was asked to end, whatever the signal."""


def listened() -> tuple[signal.Signals, ...]:
    """Those of them that count; nohup(1) starts a program so that it does not hear of its terminal's end."""
    deaf = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return tuple(s for s in STOPPING if not (deaf and s is signal.SIGHUP))


def listen() -> None:
    """From now on each raises KeyboardInterrupt in the main thread; while that ends the program, one more ends it at once."""
    for signum in listened():
        signal.signal(signum, _stop)


def let_go(signum: int) -> None:
    """After a hang-up: where the terminal is gone, what is still said goes nowhere, and raises nothing."""
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
