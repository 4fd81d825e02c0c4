"""Keeps this program's memory, and the secrets in it, out of files that others write."""

import resource
import sys
from contextlib import suppress

PR_SET_DUMPABLE = 4
"""prctl(2)."""

# A limit of 0 is ignored if core_pattern names a program; with 1 the kernel writes neither file nor pipe (fs/coredump.c).
NONE = 1


def forbid() -> None:
    """Disables core dumps of this process and of the programs it starts; no other process of this user may trace it.

    Programs it starts may be traced again: execve(2) resets that, and leftovers.end reads their environment.
    """
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    wanted = NONE if hard == resource.RLIM_INFINITY else min(NONE, hard)
    resource.setrlimit(resource.RLIMIT_CORE, (wanted, hard))
    if sys.platform == "linux":
        with suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
