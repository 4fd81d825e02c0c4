"""Keeps what this program has in memory out of files that others write: secrets, above all."""

import resource
import sys
from contextlib import suppress

PR_SET_DUMPABLE = 4
"""prctl(2)."""

# A limit of 0 is ignored where core_pattern names a program; of 1 the kernel makes neither file nor pipe (fs/coredump.c).
NONE = 1


def forbid() -> None:
    """No core dump of this process, nor of the programs it starts; no other process of this user may look into it.

    What it starts may be looked into again: execve(2) gives that back, and leftovers.end reads their environment.
    """
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    wanted = NONE if hard == resource.RLIM_INFINITY else min(NONE, hard)
    resource.setrlimit(resource.RLIMIT_CORE, (wanted, hard))
    if sys.platform == "linux":
        with suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
