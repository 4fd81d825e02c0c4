"""What the machine the program runs on refuses it, wherever that is met, as one line and its remedy."""

import errno

from appliance.adapters import open_files

NO_THREAD = "can't start new thread"
"""What threading says where the limit of processes or of memory is met."""
FULL = {errno.ENOSPC, errno.EDQUOT}
CLOSED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP}
"""What a folder answers that its user has no business in."""
MEMORY = {errno.ENOMEM, errno.EAGAIN}


def of_machine(error: Exception) -> str:
    """What to say of it. "" for what is no refusal of the machine, but a defect of the program."""
    if isinstance(error, MemoryError):
        return _no_memory("not enough memory")
    if not isinstance(error, OSError):
        return _no_memory(str(error)) if NO_THREAD in str(error) else ""
    place = f"{error.filename}: " if error.filename else ""
    if error.errno in FULL:
        said = (
            f"{place}no space left" if place else "no space left on a file system of this machine"
        )
        where = "there" if place else "where df and df -i show none (Ansible works in /dev/shm)"
        return f"{said}\n  fix: make room {where}, then run the same command"
    if refused := open_files.refusal(error):
        return f"{place}{refused.message}\n  fix: {refused.hint}"
    if error.errno in MEMORY:
        return _no_memory(f"{place}{error.strerror}")
    if error.errno in CLOSED and place:
        return f"{place}{error.strerror}\n  fix: name a place you may use, or correct its owner and mode"
    return "" if place or error.errno != errno.ENOENT else _no_folder(error)


def _no_memory(said: str) -> str:
    return f"{said}\n  fix: free memory of this machine, or raise the limit (ulimit -v, ulimit -u)"


def _no_folder(error: OSError) -> str:
    """A lookup without a name is that of the current folder, or of a place for temporary files (Python's tempfile)."""
    if "temporary" in str(error.strerror):
        return f"{error.strerror}\n  fix: set TMPDIR to a folder that can be written"
    return "the current folder is gone\n  fix: change to a folder that exists"
