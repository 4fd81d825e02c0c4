#!/usr/bin/python3 -ISB
# Written by appliance, stage slurm; changes here are undone.
"""Gives jobs folders of their own on this host, and removes what the last job of a user leaves behind.

    job_places.py begin SCRATCH    makes the job's folder, SCRATCH/.jobs/job-ID
    job_places.py own FOLDER...    makes the user's own folder, named by the user ID, in each FOLDER; kept between jobs
    job_places.py end [SCRATCH]    removes the job's folder, and after the user's last job here everything else of that user

Slurm names the job and its user in the environment. Users can write to SCRATCH, and the next job IDs are known to everyone.
So a folder that exists is never taken for a new one, no symbolic link of a user is followed, and everything is done through
descriptors of folders that only root can change. Standard library only, Python 3.8 and newer.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import stat
import subprocess  # noqa: TID251 - runs on the host, where only the standard library is
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

JOBS = ".jobs"
GONE = "gone-"
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
HELD = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
WRITERS = stat.S_IWGRP | stat.S_IWOTH
TRIES, LINKS = 20, 20
FIRST_USER, NOBODY = 1000, 65534
"""System users, and nobody, keep their processes and files."""
SHARED = ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock")
"""Where every user may leave files."""
QUEUES = "/proc/sysvipc"
PROCESSES = "/proc"
MOUNTS = "/proc/self/mountinfo"
UNSAID = re.compile(r"\\([0-7]{3})")
"""Characters as the kernel writes them there (proc(5))."""
MNT_DETACH = 2
ASK_S, STOP_S, SWEEP_S, REMOVE_S, REST_S = 30, 10, 120, 600, 20
MOST_AT_ONCE = 1000
"""Names in the arguments of one program."""
ROUNDS = 20


class Refused(Exception):
    """A folder cannot be trusted; the text is one line."""


class Job:
    """The job that Slurm runs this program for."""

    def __init__(self) -> None:
        self.id = _number("SLURM_JOB_ID")
        self.uid = int(_number("SLURM_JOB_UID"))
        self.node = os.environ.get("SLURMD_NODENAME", "")

    @property
    def gid(self) -> int:
        """The user's group; -1, which changes nothing, where nobody knows the user."""
        import pwd

        said = os.environ.get("SLURM_JOB_GID", "")
        if said.isdigit():
            return int(said)
        try:
            return pwd.getpwuid(self.uid).pw_gid
        except KeyError:
            return -1


def _number(name: str) -> str:
    said = os.environ.get(name, "")
    if not re.fullmatch("[0-9]{1,10}", said):
        raise Refused(f"{name} is not a number")
    return said


@contextlib.contextmanager
def closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_roots(seen: os.stat_result) -> bool:
    """Root's, or that of the ordinary user who runs the program."""
    return seen.st_uid in {0, os.geteuid()}


def opened(path: str) -> int:
    """The folder, reached only through folders and links that no user can replace.

    In a folder that others may write to, the sticky bit protects what belongs to root. Raises Refused and OSError.
    """
    at, left, links = os.open("/", FOLDER), _words(path), 0
    try:
        while left:
            name = left.pop()
            seen = os.stat(name, dir_fd=at, follow_symlinks=False)
            if not is_roots(seen):
                raise Refused(f"{path}: {name} belongs to user {seen.st_uid}")
            if stat.S_ISLNK(seen.st_mode):
                target, links = os.readlink(name, dir_fd=at), links + 1
                if links > LINKS:
                    raise Refused(f"{path}: too many symbolic links")
                left += _words(target)
                if target.startswith("/"):
                    at = _replaced(at, os.open("/", FOLDER))
                continue
            at = _replaced(at, os.open(name, FOLDER, dir_fd=at))
            mode = os.fstat(at).st_mode
            if mode & WRITERS and not mode & stat.S_ISVTX:
                raise Refused(f"{path}: others may write to {name}, which has no sticky bit")
    except BaseException:
        os.close(at)
        raise
    return at


def _words(path: str) -> list[str]:
    """The parts of a path, the first one last."""
    return [word for word in reversed(path.split("/")) if word not in {"", "."}]


def _replaced(old: int, new: int) -> int:
    os.close(old)
    return new


def kept(at: int, name: str, mode: int) -> int:
    """The folder of root's own below ``at``; what a user has put in its place is moved out of the way."""
    for _ in range(TRIES):
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, mode, dir_fd=at)
        with contextlib.suppress(OSError):
            found = os.open(name, FOLDER, dir_fd=at)
            seen = os.fstat(found)
            if is_roots(seen):
                if stat.S_IMODE(seen.st_mode) != mode:
                    os.fchmod(found, mode)
                return found
            os.close(found)
        move_away(at, name)
    raise Refused(f"{name} cannot be made")


def move_away(at: int, name: str, to: int | None = None) -> str:
    """An empty folder is removed; everything else gets a name that nobody can guess, which is returned."""
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=at)
        return ""
    new = (GONE if to is not None else f"{name}.{GONE}") + os.urandom(8).hex()
    with contextlib.suppress(FileNotFoundError):
        os.rename(name, new, src_dir_fd=at, dst_dir_fd=at if to is None else to)
    return new


def make(at: int, name: str, job: Job) -> None:
    """A new folder of the job's user below ``at``, a folder of root's own."""
    for _ in range(TRIES):
        try:
            os.mkdir(name, 0o700, dir_fd=at)
        except FileExistsError:
            move_away(at, name, at)
            continue
        with closing(os.open(name, FOLDER, dir_fd=at)) as made:
            os.fchown(made, job.uid, job.gid)
            os.fchmod(made, 0o700)
        return
    raise Refused(f"{name} cannot be made")


def begin(job: Job, scratch: str) -> None:
    with closing(opened(scratch)) as at, closing(kept(at, JOBS, 0o711)) as jobs:
        make(jobs, f"job-{job.id}", job)


def own(job: Job, folder: str) -> None:
    """What is there of the user's stays, for it holds the images of jobs before this one."""
    parent, _, name = folder.rpartition("/")
    with closing(opened(parent)) as at, closing(kept(at, name, 0o755)) as place:
        with contextlib.suppress(OSError), closing(
            os.open(str(job.uid), FOLDER, dir_fd=place)
        ) as there:
            seen = os.fstat(there)
            if seen.st_uid == job.uid:
                if stat.S_IMODE(seen.st_mode) != 0o700:
                    os.fchmod(there, 0o700)
                return
        make(place, str(job.uid), job)


def end(job: Job, scratch: str) -> None:
    is_last = is_to_be_cleared(job.uid) and is_last_here(job)
    has_left = is_last and ended(job.uid)
    try:
        unmount(job, scratch, everywhere=has_left)
        if scratch:
            with contextlib.suppress(FileNotFoundError):
                clear(job, scratch)
    finally:
        if has_left:
            forget(job.uid)


def unmount(job: Job, scratch: str, everywhere: bool) -> None:
    """What the user has mounted by fusermount(1): in the job's folder, or everywhere. No one removes or renames a folder with a mount on it."""
    of_job = f"{os.path.realpath(scratch)}/{JOBS}/job-{job.id}" if scratch else ""
    own = f"user_id={job.uid}"
    # The last one first: they may lie on each other.
    for line in reversed(_text(MOUNTS)):
        words, _, rest = line.partition(" - ")
        number, at = ([*words.split(" "), *[""] * 5])[:5:4]
        kind, _, options = rest.partition(" ")
        if kind.startswith("fuse") and own in options.split(" ")[-1].split(","):
            path = UNSAID.sub(lambda found: chr(int(found.group(1), 8)), at)
            if everywhere or (of_job and f"{path}/".startswith(f"{of_job}/")):
                detach(path, number)


def detach(path: str, number: str) -> None:
    """By a descriptor that was reached over no link, and only where it is that very mount. Nobody is asked, for whoever serves it may be gone."""
    import ctypes

    at = os.open("/", HELD)
    try:
        for name in reversed(_words(path)):
            at = _replaced(at, os.open(name, HELD, dir_fd=at))
        if f"mnt_id:\t{number}" in _text(f"/proc/self/fdinfo/{at}"):
            ctypes.CDLL(None).umount2(f"/proc/self/fd/{at}".encode(), MNT_DETACH)
    except OSError:
        pass  # It has gone meanwhile, or its way is another.
    finally:
        os.close(at)


def clear(job: Job, scratch: str) -> None:
    """Removes the job's folder, and what an epilog before this one could not remove."""
    name = f"job-{job.id}"
    with closing(opened(scratch)) as at, closing(kept(at, JOBS, 0o711)) as jobs:
        mine = [move_away(jobs, name, jobs)]
        # Jobs that began before an upgrade have theirs here, beside what users have made.
        with contextlib.suppress(OSError):
            if os.stat(name, dir_fd=at, follow_symlinks=False).st_uid in {0, job.uid}:
                mine.append(move_away(at, name, jobs))
        os.fchdir(jobs)
        remove_all(REMOVE_S, [word for word in mine if word])
        # What a job before has heaped up by the million takes little time of others' epilogs.
        left = [word for word in os.listdir(jobs) if word.startswith(GONE)]
        remove_all(REST_S, left[:MOST_AT_ONCE])


def remove_all(seconds: float, names: list[str]) -> None:
    if names:
        _run(seconds, "rm", "-rf", "--one-file-system", "--", *(f"./{name}" for name in names))


def is_to_be_cleared(uid: int) -> bool:
    return FIRST_USER <= uid != NOBODY and os.geteuid() == 0


def is_last_here(job: Job) -> bool:
    """Whether no other job of the user is here; without an answer it is not."""
    if not job.node:
        return False
    said = _run(
        ASK_S,
        *("squeue", "--noheader", "--format=%A", f"--user={job.uid}", f"--nodelist={job.node}"),
        "--states=RUNNING,SUSPENDED,CONFIGURING",
    )
    return said is not None and set(said.split()) <= {job.id}


def ended(uid: int) -> bool:
    """Kills what the user has left running, but for login sessions; whether nothing of the user's stays."""
    if has_session(uid):
        for _ in range(ROUNDS):
            left = [pid for pid, at in processes(uid) if not is_of_logins(at, uid)]
            if not left:
                break
            _kill(left)
        return False
    is_stopped = stop_manager(uid)
    for _ in range(ROUNDS):
        left = [pid for pid, _ in processes(uid)]
        if not left:
            break
        kill_as(uid)
        _kill(left)
    if not is_stopped:
        _run(STOP_S, "systemctl", "reset-failed", f"user@{uid}.service")
    return True


def has_session(uid: int) -> bool:
    """A login session that is open; one whose user has gone is "closing", whatever still runs in it."""
    in_one = any(is_of_session(at, uid) for _, at in processes(uid))
    words = ("loginctl", "show-user", str(uid), "--property=State", "--value")
    return in_one and (_run(ASK_S, *words) or "").strip() in {"active", "online"}


def is_of_session(cgroups: list[str], uid: int) -> bool:
    return any(at.startswith(f"/user.slice/user-{uid}.slice/session-") for at in cgroups)


def is_of_logins(cgroups: list[str], uid: int) -> bool:
    """In a session, or of the user's own service manager."""
    return any(at.startswith(f"/user.slice/user-{uid}.slice/") for at in cgroups)


def stop_manager(uid: int) -> bool:
    """systemd calls the user's service manager failed where it is killed, so it is stopped first; whether it has ended."""
    unit = f"user@{uid}.service"
    runs = any(unit in at for _, cgroups in processes(uid) for at in cgroups)
    return not runs or _run(STOP_S, "systemctl", "stop", unit) is not None


def processes(uid: int) -> Iterator[tuple[int, list[str]]]:
    """Those that run as the user by any of their user IDs, each with its control groups."""
    for name in filter(str.isdigit, os.listdir(PROCESSES)):
        status = dict(
            line.split(":\t", 1) for line in _text(f"{PROCESSES}/{name}/status") if ":\t" in line
        )
        if str(uid) in status.get("Uid", "").split() and status.get("State", "Z")[0] not in "ZX":
            groups = (line.split(":", 2) for line in _text(f"{PROCESSES}/{name}/cgroup"))
            yield int(name), [words[2] for words in groups if len(words) == 3]


def _text(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().split("\n")
    except OSError:
        return []


def _kill(pids: list[int]) -> None:
    """Stopped first, so that none of them makes another meanwhile."""
    for sent in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, sent)
    time.sleep(0.05)


def kill_as(uid: int) -> None:
    """Everything at once that the user could signal: a program that forks faster than it is read of cannot escape."""
    child = os.fork()
    if not child:
        with contextlib.suppress(OSError):
            os.setgroups([])
            os.setresuid(uid, uid, uid)
            os.kill(-1, signal.SIGKILL)
        os._exit(0)
    until = time.monotonic() + 1
    # The user can signal the child, too.
    while not os.waitpid(child, os.WNOHANG)[0]:
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)


def forget(uid: int) -> None:
    """Shared memory, semaphores, queues and files that the user has left where everybody may."""
    for kind, number in queues(uid):
        remove(kind, number)
    places = [place for place in SHARED if os.path.isdir(place)]
    _run(SWEEP_S, "find", *places, "-xdev", "-mindepth", "1", "-uid", str(uid), "-delete")


def queues(uid: int) -> Iterator[tuple[str, int]]:
    """System V objects that the user owns or has made; an owner may name another one (shmctl(2), IPC_SET)."""
    for kind, number in (("shm", "shmid"), ("sem", "semid"), ("msg", "msqid")):
        head, *lines = _text(f"{QUEUES}/{kind}") or [""]
        names = head.split()
        for line in lines:
            found = dict(zip(names, line.split()))
            if str(uid) in {found.get("uid"), found.get("cuid")}:
                yield kind, int(found[number])


def remove(kind: str, number: int) -> None:
    """IPC_RMID is 0 in Linux's <linux/ipc.h>."""
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    if kind == "sem":
        library.semctl(number, 0, 0)
    else:
        getattr(library, f"{kind}ctl")(number, 0, None)


def _run(seconds: float, *argv: str) -> str | None:
    """What it printed; None where it failed or did not end."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace")


def main(verb: str, *folders: str) -> int:
    """0, or 1 where something could not be done: it is in the system's log."""
    import syslog

    os.umask(0o022)
    status = 0
    try:
        job = Job()
        for folder in folders or ("",):
            try:
                {"begin": begin, "own": own, "end": end}[verb](job, folder)
            except FileNotFoundError:
                continue  # A folder that this host does not have.
            except OSError as error:
                raise Refused(f"{folder}: {error.strerror}") from None
    except Refused as error:
        syslog.openlog("appliance-job-places", 0, syslog.LOG_DAEMON)
        syslog.syslog(syslog.LOG_ERR, str(error))
        sys.stderr.write(f"appliance-job-places: {error}\n")
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
