"""What only a look at every file tells: programs with rights, files that packages did not bring or bring otherwise, modes."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from fnmatch import fnmatchcase

from appliance.probe import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from appliance.probe.accounts import Accounts
    from appliance.probe.ask import Ask

    Things = dict[str, str]

PRIVILEGED = stat.S_ISUID | stat.S_ISGID
CAPABILITY = "security.capability"
MOST = 4_000
"""Things of a kind that are told; a host that has more lies, or is no appliance."""
FOLDED = 200
"""Programs of no package in one folder of /opt, /usr/local or the like; more are told as that folder."""
WHOLE = 1 << 20
"""Bytes of a program of no package that are read; of a larger one its size tells."""
LISTS = "/var/lib/dpkg/info"
BROUGHT = ("/usr/", "/opt/")
MODED = ("/etc/", "/root/", "/boot/", *BROUGHT)
BACKUPS = ("-", ".dpkg-old", ".dpkg-dist", ".dpkg-new")
LIBRARY = re.compile(r"\.(so(\.[\d.]+)?|py|pth|pl|sh|ko(\.\w+)?)$")
USUAL = frozenset({(0o644, 0, 0), (0o755, 0, 0), (0o444, 0, 0), (0o555, 0, 0)})
"""Modes and owners of /etc that are not worth a word."""
DOCUMENTS = ("/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/", "/usr/share/info/")
"""What images leave out to be small."""
CHANGING = (
    # Told as accounts, units and name servers.
    *("/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow", "/etc/sub?id", "/etc/*-"),
    *("/etc/resolv.conf", "/etc/systemd/system/*.wants/*", "/etc/systemd/system/*.requires/*"),
    # Made anew by the system itself.
    *("/etc/ld.so.cache", "/etc/.updated", "/etc/.pwd.lock", "/etc/mtab", "/etc/adjtime"),
    *("/etc/lvm/*", "/etc/rc?.d/*", "/etc/ssl/certs/*", "/etc/alternatives/*", "*.dpkg-*"),
    *("/root/.*history", "/root/.lesshst", "/root/.viminfo", "/root/.wget-hsts"),
)
VERIFIED = re.compile(r"^(missing|[\w.?]{9})\s+(?:\w )?\s*(/.*)$", re.M)
VERIFY = {
    "dpkg": ["dpkg", "--verify"],
    "rpm": [
        *("rpm", "-Va", "--nodeps", "--noscripts", "--nomtime", "--nouser", "--nogroup"),
        *("--nomode", "--nolinkto", "--nordev", "--nosize", "--nocaps"),
    ],
}


IMAGES = frozenset(
    {
        *("/var/lib/containerd", "/var/lib/docker", "/var/lib/containers", "/var/lib/enroot"),
        *("/var/lib/kubelet", "/var/lib/apptainer", "/var/lib/machines"),
    }
)
"""Systems of containers: each image that is pulled brings setuid files, which count in containers alone."""


class EveryFile:
    """One walk over the file systems of the host's own. ``told``: paths that other kinds tell."""

    def __init__(self, ask: Ask, accounts: Accounts, told: set[str]) -> None:
        self._ask = ask
        self._accounts = accounts
        self._told = told
        self._brought: set[str] = set()
        self._strays: dict[str, Things] = {}
        self.found: dict[str, Things] = {
            kind: {}
            for kind in ("setuid file", "file capability", "configuration file", "file mode")
        }

    def look(self) -> dict[str, Things]:
        """Kind -> name -> value. Raises Unreadable where the package manager does not answer."""
        self._brought = set(self._of_packages())
        self._walk()
        programs = dict(self._folded())
        return {**self.found, "program": programs, "package file": dict(self._verified())}

    def _walk(self) -> None:
        root = self._ask.path("/")
        device = os.lstat(root).st_dev
        for folder, folders, names in os.walk(root):
            at = folder[len(self._ask.root) :].rstrip("/")
            folders[:] = [
                f
                for f in folders
                if f"{at}/{f}" not in IMAGES and _device(folder + "/" + f) == device
            ]
            for name in (*names, *folders):
                path = os.path.join(folder, name)  # noqa: PTH118 - pathlib costs 15 ms of CPU
                try:
                    self._one(path, path[len(self._ask.root) :], os.lstat(path))
                except OSError:
                    continue

    def _one(self, path: str, told: str, is_now: os.stat_result) -> None:
        mode = stat.S_IMODE(is_now.st_mode)
        if not stat.S_ISLNK(is_now.st_mode) and told.startswith(MODED):
            self._moded(told, mode, is_now)
        if stat.S_ISDIR(is_now.st_mode):
            return
        if told.startswith(("/etc/", "/root/.")):
            self._configuration(told)
        if not stat.S_ISREG(is_now.st_mode):
            return
        if mode & 0o111 and self._privileged(path, told, mode, is_now):
            return
        if told.startswith(BROUGHT) and (mode & 0o111 or LIBRARY.search(told)):
            self._stray(told, mode, is_now)

    def _privileged(self, path: str, told: str, mode: int, is_now: os.stat_result) -> bool:
        """Whether it runs with more rights than who starts it."""
        if mode & PRIVILEGED:
            self._note("setuid file", told, f"mode {mode:04o}, of {self._who(is_now)}")
        try:
            value = os.getxattr(path, CAPABILITY, follow_symlinks=False)
        except OSError:
            return bool(mode & PRIVILEGED)
        self._note("file capability", told, value.hex())
        return True

    def _moded(self, told: str, mode: int, is_now: os.stat_result) -> None:
        """Whom a file lets in: all of them where it is not as /etc has it, elsewhere where everybody may write."""
        is_open = mode & 0o002 and not mode & stat.S_ISVTX
        unusual = told.startswith("/etc/") and (mode, is_now.st_uid, is_now.st_gid) not in USUAL
        if (is_open or unusual) and not told.endswith(BACKUPS):
            self._note("file mode", told, f"{mode:04o}, of {self._who(is_now)}")

    def _configuration(self, told: str) -> None:
        if told in self._brought or told in self._told or _changes(told):
            return
        if told.startswith("/etc/") or told.count("/") == 2:
            self._note("configuration file", told, described(self._ask, told))

    def _stray(self, told: str, mode: int, is_now: os.stat_result) -> None:
        if told in self._brought:
            return
        what = f"{is_now.st_size} bytes"
        if is_now.st_size <= WHOLE:
            what = described(self._ask, told)
        top = "/".join(told.split("/")[:4])
        self._strays.setdefault(top, {})[told] = f"{what}, mode {mode:04o}"

    def _folded(self) -> Iterator[tuple[str, str]]:
        for top, found in sorted(self._strays.items()):
            if len(found) <= FOLDED:
                yield from found.items()
            else:
                yield f"{top}/*", f"{len(found)} programs, {_digest(repr(sorted(found.items())))}"

    def _note(self, kind: str, told: str, value: str) -> None:
        if len(self.found[kind]) < MOST:
            self.found[kind][told] = value

    def _who(self, found: os.stat_result) -> str:
        return f"{self._accounts.owner(found.st_uid)}:{self._accounts.group(found.st_gid)}"

    def _of_packages(self) -> Iterator[str]:
        """Every path that a package brought; /bin and the like are links into /usr (UsrMerge)."""
        if files.exists(self._ask.path(LISTS)):
            for name in files.names(self._ask.path(LISTS)):
                if name.endswith(".list"):
                    yield from _merged(files.read(f"{self._ask.path(LISTS)}/{name}"))
        elif self._ask.has("rpm"):
            yield from _merged(self._ask.run(["rpm", "-qal"], 60.0))

    def _verified(self) -> Iterator[tuple[str, str]]:
        """Files of packages that are other than these brought them, by the package manager's own list of digests."""
        manager = "dpkg" if files.exists(self._ask.path(LISTS)) else "rpm"
        if self._ask.root or not self._ask.has(manager):
            return
        for what, path in VERIFIED.findall(
            self._ask.run(VERIFY[manager], self._ask.patience, ok=(0, 1, 2))
        ):
            if "5" in what and path not in self._told:
                yield path, described(self._ask, path)
            elif what == "missing" and not path.startswith(DOCUMENTS):
                yield path, "missing"


def described(ask: Ask, path: str) -> str:
    """A file in few words; "" for what has no content."""
    at = ask.path(path)
    target = files.link(at)
    if target is not None:
        return "link to " + target
    return "content " + hashlib.sha256(files.data(at)).hexdigest()[:12]


def _merged(listed: str) -> Iterator[str]:
    for path in listed.splitlines():
        yield path
        if path.startswith(("/bin/", "/sbin/", "/lib")):
            yield "/usr" + path


def _changes(path: str) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in CHANGING)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _device(path: str) -> int:
    try:
        found = os.lstat(path)
    except OSError:
        return -1
    return -1 if stat.S_ISLNK(found.st_mode) else found.st_dev
