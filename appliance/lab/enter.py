"""Makes a folder the root of a mount namespace of its own and runs a program there: python3 enter.py FOLDER PROGRAM...

A plain chroot is not sufficient: the kernel lets no process under chroot(2) create a user namespace
(user_namespaces(7)), so a host started there could run no unit with PrivateUsers=, such as Debian's Prometheus.
It imports nothing, because it runs by its path.
"""

import ctypes
import os
import shutil
import sys

NEW_NAMESPACE = 0x00020000
RECURSIVE_SLAVE = 0x4000 | 0x80000
MOVE = 0x2000

LIBC = ctypes.CDLL(None, use_errno=True)


def enter(folder: str) -> None:
    """Take the mount at ``folder`` for the namespace's root. Raises OSError."""
    _done(LIBC.unshare(NEW_NAMESPACE), "unshare")
    # Opened now, because it must be a folder of the new namespace.
    root = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    # Entering one's own namespace leads to its true root, above any chroot.
    own = os.open("/proc/self/ns/mnt", os.O_RDONLY)
    _done(LIBC.setns(own, NEW_NAMESPACE), "setns")
    _done(LIBC.mount(b"none", b"/", None, RECURSIVE_SLAVE, None), "mount --make-rslave /")
    os.fchdir(root)
    _done(LIBC.mount(b".", b"/", None, MOVE, None), f"mount --move {folder} /")
    os.chroot(".")
    os.chdir("/")
    os.close(root)
    os.close(own)


def _done(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    # Python's own files may have another path below the new root, so nothing is imported after this.
    program = shutil.which(sys.argv[2]) or sys.argv[2]
    enter(sys.argv[1])
    os.execv(program, sys.argv[2:])
