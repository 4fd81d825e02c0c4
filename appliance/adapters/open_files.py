"""How many files this process may hold open, and how it is told that it may hold no more."""

import errno
import resource

from appliance.errors import OutOfFiles

ENOUGH = 8192
"""A command at work on a host holds three open, and at most all of 1,500 hosts are proved at once; Ansible has its pipes."""
REFUSALS = (errno.EMFILE, errno.ENFILE)


def allow() -> None:
    """Raises the limit to what is enough, as far as this user may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def refusal(error: BaseException) -> OutOfFiles | None:
    """What to say of it; None where neither it nor what led to it is a file that could not be opened for their number."""
    met: BaseException | None = error
    while met is not None:
        if isinstance(met, OSError) and met.errno in REFUSALS:
            return _of_machine() if met.errno == errno.ENFILE else _of_process()
        met = met.__cause__ or met.__context__
    return None


def check(error: BaseException) -> None:
    """Raises OutOfFiles where that is what happened: it says nothing about a host."""
    if refused := refusal(error):
        raise refused from error


def _of_process() -> OutOfFiles:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    more = max(ENOUGH, 2 * limit)
    return OutOfFiles(
        f"this process may hold {limit} files open, and needs more",
        f"raise the limit: ulimit -n {more}, or LimitNOFILE={more} in the systemd unit that starts it",
    )


def _of_machine() -> OutOfFiles:
    return OutOfFiles(
        "this machine holds as many files open as it may (fs.file-max)",
        "end what holds so many (lsof), or raise the limit: sysctl fs.file-max",
    )
