"""The program's entry, also as python -m appliance.

Python itself takes a folder ``appliance`` of the current folder for this one then, before any line of it is read: in a
folder of others call the program ``appliance``, or python -I -m appliance.
"""

import os
import sys

if __name__ == "__main__" and sys.path[0] != os.path.dirname(os.path.dirname(__file__)):  # noqa: PTH120
    # python -m has put the current folder first, which may be anybody's: nothing more is imported from there.
    sys.path[:] = [place for place in sys.path if place not in {"", os.getcwd()}]  # noqa: PTH109

import faulthandler

from appliance.adapters import core_dumps, open_files, stop_signals
from appliance.cli.collector import relax
from appliance.errors import Unreadable


def main() -> None:
    """Runs a command line; what goes wrong, or ends it, while Python still reads the program is told in one line."""
    _open_streams()
    # A crash of the interpreter says where each thread was: file, line and function, no values.
    faulthandler.enable(2)
    core_dumps.forbid()
    stop_signals.listen()
    open_files.allow()
    relax()
    try:
        from appliance.cli.main import main as run
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted; nothing was changed.\n")
        sys.exit(130)
    except (ImportError, OSError, MemoryError) as error:
        told = Unreadable(error)
        sys.stderr.write(f"{told.message}\n  fix: {told.hint}\n")
        sys.exit(1)
    run()


def _open_streams() -> None:
    """A closed stream becomes /dev/null: else the next file that is opened takes its number and is printed into."""
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


if __name__ == "__main__":
    main()
