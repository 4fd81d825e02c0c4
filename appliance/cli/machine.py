"""Reports a limit or refusal of the machine the program runs on as one line and its remedy."""

import errno

from appliance.adapters import open_files

NO_THREAD = "can't start new thread"
"""Python's message when the limit of processes or of memory is reached."""
FULL = {errno.ENOSPC, errno.EDQUOT}
CLOSED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP}
"""The errno values of a folder that its user may not use."""
MEMORY = {errno.ENOMEM, errno.EAGAIN}


def of_machine(error: Exception) -> str:
    """The message for an error of the machine. "" for a defect of the program."""
    if isinstance(error, MemoryError):
        return _no_memory("not enough memory")
    if not isinstance(error, OSError):
        return _no_memory(str(error)) if NO_THREAD in str(error) else ""
    place = f"{error.filename}: " if error.filename else ""
    if error.errno in FULL:
        said = (
            f"{place}no space left" if place else "no space left on a file system of this machine"
        )
        where = (
            "there"
            if place
            else "if df and df -i show free space there, check /dev/shm (Ansible uses it)"
        )
        return f"{said}\n  fix: free space {where}, then run the same command"
    if refused := open_files.refusal(error):
        return f"{place}{refused.message}\n  fix: {refused.hint}"
    if error.errno in MEMORY:
        return _no_memory(f"{place}{error.strerror}")
    if error.errno in CLOSED and place:
        return f"{place}{error.strerror}\n  fix: use a path that you may access, or correct its owner and mode"
    return "" if place or error.errno != errno.ENOENT else _no_folder(error)


def _no_memory(said: str) -> str:
    return f"{said}\n  fix: free memory on this machine, or raise the limit (ulimit -v, ulimit -u)"


def _no_folder(error: OSError) -> str:
    """An error without a file name comes from the current folder, or from Python's tempfile."""
    if "temporary" in str(error.strerror):
        return f"{error.strerror}\n  fix: set TMPDIR to a writable folder"
    return "the current folder no longer exists\n  fix: change to a folder that exists"
