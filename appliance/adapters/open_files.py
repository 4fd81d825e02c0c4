"""The limit of open files of this process, and errors when it is reached."""

import errno
import resource

from appliance.errors import OutOfFiles

ENOUGH = 8192
"""A running command on a host needs three, and at most all of 1,500 hosts are verified at once; Ansible needs pipes."""
REFUSALS = (errno.EMFILE, errno.ENFILE)


def allow() -> None:
    """Raises the limit to the needed number, as far as this user may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def refusal(error: BaseException) -> OutOfFiles | None:
    """The message for this error; None if neither it nor its cause is the limit of open files."""
    met: BaseException | None = error
    while met is not None:
        if isinstance(met, OSError) and met.errno in REFUSALS:
            return _of_machine() if met.errno == errno.ENFILE else _of_process()
        met = met.__cause__ or met.__context__
    return None


def check(error: BaseException) -> None:
    """Raises OutOfFiles for that error, which does not describe a host."""
    if refused := refusal(error):
        raise refused from error


def _of_process() -> OutOfFiles:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    more = max(ENOUGH, 2 * limit)
    return OutOfFiles(
        f"the limit of {limit} open files of this process is too low",
        f"raise the limit: ulimit -n {more}, or LimitNOFILE={more} in the systemd unit that starts it",
    )


def _of_machine() -> OutOfFiles:
    return OutOfFiles(
        "the limit of open files of this machine is reached (fs.file-max)",
        "end the processes that hold most files (lsof), or raise the limit: sysctl fs.file-max",
    )
