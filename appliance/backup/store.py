"""The target of backups: files by relative name, over SFTP or in a folder of a network file system."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.backup.programs import run
from appliance.backup.trouble import TARGET, TOOL, Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import IO

SSH = re.compile(
    r"ssh://(?P<login>[a-z_][a-z0-9_-]*@[A-Za-z0-9.-]+)(?::(?P<port>\d+))?(?P<path>/.+)"
)
CONNECT_S = 15
NETWORKED = re.compile(
    r"nfs4?|cifs|smb3|ceph|lustre|gpfs|beegfs|glusterfs|9p|wekafs|fuse\.(sshfs|ceph|glusterfs|s3fs)"
)
"""File systems whose data is on other machines."""
PART = ".part"
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MOST_MEMORY = 1 << 30
"""Bytes of sftp's memory, which grows with the list that a server sends. It needs about 10 MiB."""


class Folder:
    """A mounted folder. Raises Trouble where it is not mounted from another machine."""

    def __init__(self, path: str, mounts: Path = Path("/proc/self/mountinfo")) -> None:
        self._path = Path(path)
        require_elsewhere(self._path, mounts)

    def put(self, local: Path, name: str) -> None:
        """Copies a file to the target, under its name only once it is complete."""
        try:
            with self._held(name, is_new=True) as at, local.open("rb") as source:
                last = Path(name).name + PART
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
                with os.fdopen(os.open(last, flags, 0o600, dir_fd=at), "wb") as sink:
                    shutil.copyfileobj(source, sink, 1 << 20)
                    sink.flush()
                    os.fsync(sink.fileno())
        except OSError as error:
            raise self._trouble(name + PART, error) from None

    def finish(self, name: str) -> None:
        """Gives a complete file its name."""
        last = Path(name).name
        try:
            with self._held(name) as at:
                os.replace(last + PART, last, src_dir_fd=at, dst_dir_fd=at)
        except OSError as error:
            raise self._trouble(name, error) from None

    @contextmanager
    def _held(self, name: str, *, is_new: bool = False) -> Iterator[int]:
        """A descriptor of the folder of a file. No link below the target is followed, for its server could exchange a folder at any time. Raises OSError."""
        at = os.open(self._path, FOLDER & ~os.O_NOFOLLOW)
        try:
            for part in Path(name).parent.parts:
                if is_new:
                    with suppress(FileExistsError):
                        os.mkdir(part, 0o700, dir_fd=at)
                below = os.open(part, FOLDER, dir_fd=at)
                os.close(at)
                at = below
            yield at
        finally:
            os.close(at)

    def _trouble(self, name: str, error: OSError) -> Trouble:
        path = self._path / name
        if path.parent.is_symlink():
            return Trouble(TARGET, f"{path.parent} contains a symbolic link: make it a folder")
        return Trouble(TARGET, f"{path}: {error.strerror}")

    def get(self, name: str, local: Path, most: int) -> None:
        """Copies a file of at most ``most`` bytes from the target."""
        try:
            with (
                self._held(name) as at,
                _regular(Path(name).name, at) as source,
                _created(local) as sink,
            ):
                left = most + 1
                while left and (block := source.read(min(left, 1 << 20))):
                    sink.write(block)
                    left -= len(block)
        except OSError as error:
            raise self._trouble(name, error) from None
        if not left:
            raise _too_large(name, most)

    def names(self, folder: str) -> list[str]:
        """Names of files in a folder; none if it does not exist."""
        try:
            with self._held(f"{folder}/x") as at:
                return sorted(os.listdir(at))  # noqa: PTH208 - by descriptor
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._trouble(f"{folder}/x", error) from None

    def remove(self, names: Sequence[str]) -> None:
        """Removes files."""
        for name in names:
            try:
                with self._held(name) as at:
                    os.unlink(Path(name).name, dir_fd=at)
            except FileNotFoundError:
                pass
            except OSError as error:
                raise self._trouble(name, error) from None


class Sftp:
    """A folder of an SSH server, by sftp: an account that may use SFTP alone suffices."""

    def __init__(self, url: str, key: str, known_hosts: str) -> None:
        found = SSH.fullmatch(url)
        if found is None:
            raise Trouble(TARGET, f"{url} is not ssh://USER@HOST/PATH")
        self._path = found["path"]
        self._missing = f"{self._path} does not exist on {found['login']}: create it there"
        given = (
            *("BatchMode=yes", "StrictHostKeyChecking=yes", f"UserKnownHostsFile={known_hosts}"),
            *(
                "GlobalKnownHostsFile=/dev/null",
                "IdentitiesOnly=yes",
                f"ConnectTimeout={CONNECT_S}",
            ),
            *("ServerAliveInterval=15", "ServerAliveCountMax=4", "UpdateHostKeys=no"),
        )
        options = [word for option in given for word in ("-o", option)]
        port = ["-P", found["port"]] if found["port"] else []
        self._argv = ["sftp", "-q", *options, *port, "-i", key, "-b", "-", found["login"]]

    def put(self, local: Path, name: str) -> None:
        """Copies a file to the target, under its name only once it is complete."""
        parents = Path(name).parent.parts
        folders = ["/".join([self._path, *parents[: i + 1]]) for i in range(len(parents))]
        # "-": a folder that exists is no error.
        made = [f"-mkdir {folder}" for folder in folders]
        self._batch([*made, f"put {local} {self._path}/{name}{PART}"], self._missing)

    def finish(self, name: str) -> None:
        """Gives a complete file its name."""
        self._batch([f"rename {self._path}/{name}{PART} {self._path}/{name}"])

    def get(self, name: str, local: Path, most: int) -> None:
        """Copies a file of at most ``most`` bytes from the target: a server may send one without end."""
        try:
            self._batch([f"get {self._path}/{name} {local}"], limits=(f"--fsize={most}",))
        except Trouble:
            if local.exists() and local.stat().st_size >= most:
                raise _too_large(name, most) from None
            raise

    def names(self, folder: str) -> list[str]:
        """Names of files in a folder; none if it does not exist."""
        said = self._batch([f"cd {self._path}", f"-ls -1 {folder}"], self._missing)
        lines = [line.strip() for line in said.splitlines()]
        return sorted(Path(line).name for line in lines if line and not line.startswith("sftp>"))

    def remove(self, names: Sequence[str]) -> None:
        """Removes files."""
        if names:
            self._batch([f"-rm {self._path}/{name}" for name in names])

    def _batch(self, commands: Sequence[str], missing: str = "", limits: Sequence[str] = ()) -> str:
        """``missing``: what is wrong if the server does not know a path. ``limits``: options of prlimit(1)."""
        if shutil.which(self._argv[0]) is None:
            raise Trouble(TOOL, f"{self._argv[0]} is not installed")
        argv = ["prlimit", f"--as={MOST_MEMORY}", *limits, *self._argv]
        try:
            return run(argv, TARGET, text="\n".join([*commands, ""]).encode(), name="sftp")
        except Trouble as error:
            if missing and "No such file" in str(error):
                raise Trouble(TARGET, missing) from None
            raise


def require_elsewhere(path: Path, mounts: Path) -> None:
    """Raises Trouble if the folder is not on a network file system of another machine: it would be lost with this host's disk."""
    found = ("", "/", "", "")
    try:
        lines = mounts.read_text(encoding="utf-8").splitlines()
        place = str(path.resolve(strict=True))
    except OSError as error:
        raise Trouble(TARGET, f"{path}: {error.strerror}") from None
    for line in lines:
        before, _, after = line.partition(" - ")
        point, (kind, source, *_) = before.split()[4], after.split()
        if f"{place}/".startswith(f"{point.rstrip('/')}/") and len(point) >= len(found[1]):
            found = (line, point, kind, source)
    _, point, kind, source = found
    if not NETWORKED.fullmatch(kind):
        raise Trouble(
            TARGET,
            f"{path} is on {point} ({kind or 'unknown'}), a disk of this host: mount a folder of another machine there",
        )
    server = source.rpartition(":")[0].strip("[]")
    if server and _is_own(server):
        raise Trouble(TARGET, f"{path} is mounted from this host itself ({source})")


def _is_own(server: str) -> bool:
    """Whether an address or a name is this host: only its own addresses can be bound."""
    try:
        found = socket.getaddrinfo(server, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    for family, kind, _, _, address in found:
        with socket.socket(family, kind) as one:
            try:
                one.bind(address)
            except OSError:
                continue
            return True
    return False


def _regular(name: str, at: int) -> IO[bytes]:
    """The file in a folder, never what a link names. Raises OSError, at once also for a pipe."""
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file")
    return os.fdopen(descriptor, "rb")


def _too_large(name: str, most: int) -> Trouble:
    return Trouble(
        TARGET, f"{name} on the target is larger than {most} bytes: it is not what was written"
    )


def _created(path: Path) -> IO[bytes]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    return os.fdopen(os.open(path, flags, 0o600), "wb")


def opened(target: str, key: str, known_hosts: str) -> Folder | Sftp:
    """The site's target."""
    return Sftp(target, key, known_hosts) if target.startswith("ssh://") else Folder(target)
