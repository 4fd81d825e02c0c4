"""Reads every file: setuid programs, capabilities, unpackaged and changed files, modes."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import stat
import sys
import time
from fnmatch import fnmatchcase

from appliance.probe import files, places
from appliance.probe.budget import Budget, shown
from appliance.probe.lines import lines_of
from appliance.probe.problems import Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from appliance.probe.accounts import Accounts
    from appliance.probe.ask import Ask

    Things = dict[str, str]

PRIVILEGED = stat.S_ISUID | stat.S_ISGID
CAPABILITY = "security.capability"
PEOPLE = 1000
DEEPEST = 100
"""Maximum depth of folders; the distribution's own go 20 deep."""
STRAYS = 20_000
"""Maximum number of unpackaged programs read in places of one owner other than root."""
SLICE_S = 0.8
"""Share of the time for places of users; root's come first."""
FOLDED = 200
"""Maximum number of unpackaged programs listed in one folder such as /opt; if there are more, the folder is listed."""
WHOLE = 1 << 20
"""Maximum bytes read of an unpackaged program; a larger one is compared by size."""
LISTS = "/var/lib/dpkg/info"
DPKG = "/var/lib/dpkg/status"
RECORDS = re.compile(r"^(.+)\.(list|md5sums|conffiles|triggers|preinst|postinst|prerm|postrm)$")
"""dpkg's lists of files, and scripts that it runs as root at the next update."""
VERSION = re.compile(r"^Package: (\S+)\n(?:(?!\n).*\n)*?Version: (\S+)$", re.M)
BROUGHT = ("/usr/", "/opt/")
MODED = ("/etc/", "/root/", "/boot/", *BROUGHT)
ACTING = (
    # Read by systemd, udev, the kernel's loaders, D-Bus and polkit; none of it is a program.
    *("/usr/lib/systemd/", "/usr/lib/udev/", "/usr/lib/sysctl.d/", "/usr/lib/modprobe.d/"),
    *("/usr/lib/modules-load.d/", "/usr/lib/tmpfiles.d/", "/usr/lib/sysusers.d/"),
    *("/usr/lib/environment.d/", "/usr/lib/binfmt.d/", "/usr/lib/pam.d/", "/usr/lib/security/"),
    *("/usr/share/dbus-1/", "/usr/share/polkit-1/", "/usr/share/pam-configs/"),
    *("/usr/local/lib/systemd/", "/usr/local/lib/udev/", "/usr/local/lib/sysctl.d/"),
    *("/usr/local/lib/tmpfiles.d/", "/usr/local/lib/modules-load.d/", "/usr/local/etc/"),
    *(
        "/usr/local/share/ca-certificates/",
        "/usr/local/share/dbus-1/",
        "/usr/share/ca-certificates/",
        "/root/.config/",
        "/root/.ssh/",
    ),
    *("/root/.local/", "/var/lib/systemd/linger/", "/var/lib/polkit-1/", "/var/spool/anacron/"),
    *("/var/lib/dpkg/diversions", "/var/lib/dpkg/statoverride", "/var/lib/dpkg/arch"),
    "/etc/ssl/certs/ca-certificates.crt",
)
"""Directories other than /etc with configuration and trust."""
NOT_ACTING = (
    "__pycache__",
    "hwdb.bin",
    "/root/.ssh/authorized_keys",
    "/root/.ssh/known_hosts",
    "/var/lib/dpkg/diversions-old",
    "/var/lib/dpkg/statoverride-old",
)
LINKED = ("/usr/bin/", "/usr/sbin/", "/usr/local/", "/usr/lib/systemd/", "/etc/alternatives/")
"""Folders in which a link decides which program starts."""
LISTED = ("/etc/", "/root/", "/boot/")
ACCESS = ("system.posix_acl_access", "system.posix_acl_default")
WHOM = {2: "user", 8: "group"}
"""Tags of ACL entries for a named user or group (linux/posix_acl.h)."""
GET_FLAGS, FLAGS = 0x80086601, {0x10: "immutable", 0x20: "append-only"}
"""linux/fs.h; no role can change such a file."""
BACKUPS = ("-", ".dpkg-old", ".dpkg-dist", ".dpkg-new")
LIBRARY = re.compile(r"\.(so(\.[\d.]+)?|py|pth|pl|sh|ko(\.\w+)?)$")
USUAL = frozenset({(0o644, 0, 0), (0o755, 0, 0), (0o444, 0, 0), (0o555, 0, 0)})
"""Modes and owners of /etc that are normal."""
DOCUMENTS = ("/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/", "/usr/share/info/")
"""Files that small images omit."""
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
"""Root file systems of containers: images contain setuid files, which are effective only in containers."""


KINDS = (
    *("setuid file", "file capability", "configuration file", "file mode"),
    *("access list", "file attribute", "program link", "program"),
)


class Walk:
    """A walk over the host's own file systems, by descriptors and without recursion: first folders that only root can write to, then others."""

    def __init__(
        self, ask: Ask, budget: Budget, look: Callable[[str, str, os.stat_result, int], None]
    ) -> None:
        self._ask, self._budget, self._look = ask, budget, look
        self._device = places.status(ask.path("/")).st_dev
        self._later: dict[str, int] = {}
        self._ends = self._until = time.monotonic() + ask.patience * SLICE_S

    def of_root(self) -> None:
        """Walk folders that only root can write to; unreadable ones are recorded."""
        self._below("/", places.ROOT)

    def of_others(self) -> None:
        """Walk the rest: world-writable folders first, then each owner's, with equal time for every owner."""
        self._until = (time.monotonic() + self._ends) / 2
        self._each(places.SHARED)
        owners = sorted(set(self._later.values()))
        for n, whose in enumerate(owners):
            now = time.monotonic()
            self._until = now + max(0.0, self._ends - now) / (len(owners) - n)
            self._each(whose)

    def _each(self, whose: int) -> None:
        # What is deferred meanwhile may be of the same owner.
        while tops := [top for top, of in self._later.items() if of == whose]:
            for top in tops:
                del self._later[top]
                self._below(top, whose)

    def _below(self, top: str, whose: int) -> None:
        stack: list[Folder] = []
        try:
            self._enter(stack, Folder(places.folder(self._ask.path(top)), top.rstrip("/"), whose))
            while stack:
                self._step(stack)
        except OSError as error:
            self._unread(whose, top, error)
        finally:
            for folder in stack:
                folder.close()

    def _step(self, stack: list[Folder]) -> None:
        folder = stack[-1]
        told, whose = folder.at, folder.whose
        if whose != places.ROOT and time.monotonic() > self._until:
            self._budget.left_out(whose, told, "no time was left")
            stack.pop().close()
            return
        try:
            name = next(folder.names, None)
            if name is None:
                stack.pop().close()
                return
            told = f"{folder.at}/{name}"
            if self._ask.path(told) in places.of_people():
                return
            found = os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
            whose = folder.owner_of(found)
            self._look(f"/proc/self/fd/{folder.fd}/{name}", told, found, whose)
            if stat.S_ISDIR(found.st_mode) and found.st_dev == self._device:
                self._folder(stack, name, told, found)
        except OSError as error:
            self._unread(whose, told, error)
            if told == folder.at:
                stack.pop().close()

    def _folder(self, stack: list[Folder], name: str, told: str, found: os.stat_result) -> None:
        """Enter a folder now, later, or not at all."""
        if told in IMAGES:
            return
        inner = whose_folder(found, stack[-1].whose)
        if inner != stack[-1].whose:
            self._defer(told, inner)
        elif len(stack) > DEEPEST:
            self._budget.left_out(inner, told, "folders nested too deep")
        elif self._budget.enters(inner):
            fd = os.open(name, places.READ | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=stack[-1].fd)
            self._enter(stack, Folder(fd, told, inner))
        else:
            self._budget.left_out(inner, told, "too many files to check")

    def _defer(self, told: str, whose: int) -> None:
        if self._budget.defers(whose):
            self._later[told] = whose
        else:
            self._budget.left_out(whose, told, "too many folders to check")

    def _enter(self, stack: list[Folder], folder: Folder) -> None:
        if os.fstat(folder.fd).st_dev != self._device:
            folder.close()
            return
        stack.append(folder)

    def _unread(self, whose: int, told: str, error: OSError) -> None:
        """A file that disappeared meanwhile is ignored."""
        if not isinstance(error, FileNotFoundError):
            self._budget.left_out(whose, told, error.strerror or str(error))


class Folder:
    """A folder of the walk. ``whose``: who can write to it, as returned by ``whose_folder``."""

    def __init__(self, fd: int, at: str, whose: int) -> None:
        self.fd, self.at, self.whose = fd, at, whose
        try:
            # By descriptor, and one name after another: a folder may hold millions.
            self._entries = os.scandir(fd)
        except OSError:
            os.close(fd)
            raise
        self.names = (entry.name for entry in self._entries)

    def owner_of(self, found: os.stat_result) -> int:
        """Return the owner that an entry counts for."""
        if self.whose != places.SHARED:
            return self.whose
        # What is root's in a folder of all may be somebody's link to a file of root's.
        return found.st_uid or places.SHARED

    def close(self) -> None:
        """Close both descriptors."""
        self._entries.close()
        os.close(self.fd)


def whose_folder(found: os.stat_result, above: int) -> int:
    """Return who can write to a folder: root alone, all, or its owner and the owners of its parents."""
    if above not in {places.ROOT, places.SHARED}:
        return above
    if found.st_uid not in {0, os.geteuid()}:
        return found.st_uid
    return places.SHARED if places.is_shared(found) else above


class EveryFile:
    """One walk over the host's own file systems. ``told``: paths that other kinds report."""

    def __init__(self, ask: Ask, accounts: Accounts, told: set[str]) -> None:
        self._ask = ask
        self._accounts = accounts
        self._told = told
        self._brought: set[str] = set()
        self._strays: dict[tuple[str, int], Things] = {}
        self._looked: dict[int, int] = {}
        self._whose = places.ROOT
        self._budget = Budget(KINDS)
        self._homes = {
            row[5]: int(row[2]) for row in accounts.users.values() if int(row[2]) >= PEOPLE
        }

    def look(self) -> dict[str, Things]:
        """Return kind -> name -> value; a kind that could not be read is missing, and the reason is noted. Raises Unreadable, OSError."""
        self._brought = set(self._of_packages())
        walk = Walk(self._ask, self._budget, self._one)
        walk.of_root()
        found = dict(self._budget.found)
        for kind, read in (("package file", self._verified), ("package record", self._records)):
            try:
                found[kind] = dict(read())
            except (OSError, Unreadable) as error:
                self._ask.problem("posture", f"{kind}: {error}")
        walk.of_others()
        self._folded()
        for line in self._budget.gaps(self._accounts.owner):
            self._ask.problem("posture", line)
        return found

    def _one(self, path: str, told: str, is_now: os.stat_result, whose: int) -> None:
        self._whose = whose
        mode = stat.S_IMODE(is_now.st_mode)
        is_link = stat.S_ISLNK(is_now.st_mode)
        if not is_link and told.startswith(MODED):
            self._moded(told, mode, is_now)
            self._listed(path, told, mode)
        if not is_link and told.startswith("/home/"):
            self._at_home(told, mode, is_now)
        if is_link and self._leads(path, told):
            return
        if stat.S_ISDIR(is_now.st_mode):
            return
        if told.startswith(("/etc/", "/root/.", *ACTING)):
            self._configuration(told, mode, is_link=is_link)
        if told.startswith("/etc/") and stat.S_ISREG(is_now.st_mode):
            self._flagged(told)
        if not stat.S_ISREG(is_now.st_mode):
            return
        if mode & 0o111 and self._privileged(path, told, mode, is_now):
            return
        if told.startswith(BROUGHT) and (mode & 0o111 or LIBRARY.search(told)):
            self._stray(told, mode, is_now)

    def _leads(self, path: str, told: str) -> bool:
        """Report a link that decides which program starts. Return whether it only leads to a folder."""
        if self._whose == places.ROOT and _is_folder(path, told):
            return True
        if told.startswith(LINKED) and told not in self._told:
            self._note("program link", told, "to " + os.readlink(path))  # noqa: PTH115
        return False

    def _privileged(self, path: str, told: str, mode: int, is_now: os.stat_result) -> bool:
        """Report a program that runs with more rights than its caller."""
        if mode & PRIVILEGED:
            self._note("setuid file", told, f"mode {mode:04o}, of {self._who(is_now)}")
        try:
            value = os.getxattr(path, CAPABILITY, follow_symlinks=False)
        except OSError:
            return bool(mode & PRIVILEGED)
        self._note("file capability", told, value.hex())
        return True

    def _moded(self, told: str, mode: int, is_now: os.stat_result) -> None:
        """Report unusual modes: in /etc all that differ from the usual ones, elsewhere world-writable ones."""
        is_open = mode & 0o002 and not mode & stat.S_ISVTX
        unusual = told.startswith("/etc/") and (mode, is_now.st_uid, is_now.st_gid) not in USUAL
        if (is_open or unusual) and not told.endswith(BACKUPS):
            self._note("file mode", told, f"{mode:04o}, of {self._who(is_now)}")

    def _listed(self, path: str, told: str, mode: int) -> None:
        """Report access lists; if one of them permits writing, the group bits show it."""
        if not told.startswith(LISTED) and not mode & 0o020:
            return
        for name in ACCESS:
            try:
                value = os.getxattr(path, name, follow_symlinks=False)
            except OSError:
                continue
            words = ", ".join(self._entries(value))
            if words:
                kept = name == ACCESS[1]
                self._note("access list", told + (" for new files" if kept else ""), words)

    def _entries(self, value: bytes) -> Iterator[str]:
        for at in range(4, len(value) - 7, 8):
            tag, rights = (int.from_bytes(value[at + n : at + n + 2], "little") for n in (0, 2))
            if tag in WHOM:
                number = int.from_bytes(value[at + 4 : at + 8], "little")
                look = self._accounts.owner if tag == 2 else self._accounts.group
                letters = "".join(
                    c if rights & bit else "-"
                    for c, bit in zip("rwx", (4, 2, 1))  # noqa: B905
                )
                yield f"{WHOM[tag]} {look(number)} {letters}"

    def _at_home(self, told: str, mode: int, is_now: os.stat_result) -> None:
        """Report files that start with a user's session and that another user can write to, and thereby act as that user."""
        home = "/".join(told.split("/")[:3])
        uid, rest = self._homes.get(home), told[len(home) :]
        if uid is None or (rest and (not rest.startswith("/.") or rest.count("/") > 2)):
            return
        if mode & 0o022 or is_now.st_uid not in {uid, 0}:
            self._note("file mode", told, f"{mode:04o}, of {self._who(is_now)}")

    def _flagged(self, told: str) -> None:
        """Report attributes (chattr(1)); some file systems have none."""
        descriptor = -1
        try:
            descriptor = places.opened(self._ask.path(told))
            said = fcntl.ioctl(descriptor, GET_FLAGS, bytes(8))
        except OSError:
            return
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        flags = int.from_bytes(said[:4], sys.byteorder)
        words = [word for bit, word in FLAGS.items() if flags & bit]
        if words:
            self._note("file attribute", told, " ".join(words))

    def _records(self) -> Iterator[tuple[str, str]]:
        """Return dpkg's records of each package with its version, because each version has its own."""
        if not files.exists(self._ask.path(LISTS)):
            return
        versions = dict(VERSION.findall(files.read(self._ask.path(DPKG), 64 << 20)))
        parts: dict[str, list[str]] = {}
        for name in files.names(self._ask.path(LISTS)):
            found = RECORDS.match(name)
            if found:
                parts.setdefault(found.group(1), []).append(name)
        for package, names in parts.items():
            total = hashlib.sha256()
            for name in names:
                total.update(os.fsencode(name) + files.data(f"{self._ask.path(LISTS)}/{name}"))
            version = versions.get(package.partition(":")[0], "none")
            yield package, f"{version}, content {total.hexdigest()[:12]}"

    def _configuration(self, told: str, mode: int, *, is_link: bool) -> None:
        if told in self._brought or told in self._told:
            return
        acts = told.startswith(ACTING) and not any(word in told for word in NOT_ACTING)
        if not acts and _changes(told):
            return
        if told.startswith(BROUGHT) and (is_link or mode & 0o111 or LIBRARY.search(told)):
            return  # a program's, which is told as such
        if acts or told.startswith("/etc/") or told.count("/") == 2:
            self._note("configuration file", told, described(self._ask, told))

    def _stray(self, told: str, mode: int, is_now: os.stat_result) -> None:
        if told in self._brought:
            return
        if self._whose != places.ROOT:
            self._looked[self._whose] = self._looked.get(self._whose, 0) + 1
            if self._looked[self._whose] > STRAYS:
                self._budget.left_out(self._whose, told, "too many programs to check")
                return
        what = f"{is_now.st_size} bytes"
        if is_now.st_size <= WHOLE:
            what = described(self._ask, told)
        top = "/".join(told.split("/")[:4])
        found = self._strays.setdefault((top, self._whose), {})
        found[shown(told)] = f"{what}, mode {mode:04o}"

    def _folded(self) -> None:
        for (top, whose), found in sorted(self._strays.items()):
            self._whose = whose
            if len(found) <= FOLDED:
                for told, value in found.items():
                    self._note("program", told, value)
            else:
                value = f"{len(found)} programs, {_digest(repr(sorted(found.items())))}"
                self._note("program", f"{top}/*", value)

    def _note(self, kind: str, told: str, value: str) -> None:
        self._budget.note(kind, told, value, self._whose)

    def _who(self, found: os.stat_result) -> str:
        return f"{self._accounts.owner(found.st_uid)}:{self._accounts.group(found.st_gid)}"

    def _of_packages(self) -> Iterator[str]:
        """Return every path of a package; /bin and others are links into /usr (UsrMerge)."""
        if files.exists(self._ask.path(LISTS)):
            for name in files.names(self._ask.path(LISTS)):
                if name.endswith(".list"):
                    yield from _merged(files.read(f"{self._ask.path(LISTS)}/{name}"))
        elif self._ask.has("rpm"):
            yield from _merged(self._ask.run(["rpm", "-qal"], 60.0))

    def _verified(self) -> Iterator[tuple[str, str]]:
        """Return files that differ from their package, by the package manager's own digests."""
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


def is_update(kind: str, was: str, now: str) -> bool:
    """Return whether a difference only follows from a package that was installed, removed or updated, which kind "package" reports."""
    return kind == "package record" and was.partition(",")[0] != now.partition(",")[0]


def described(ask: Ask, path: str) -> str:
    """A short description of a file; "" without content."""
    at = ask.path(path)
    target = files.link(at)
    if target is not None:
        return "link to " + target
    try:
        return "content " + hashlib.sha256(files.data(at)).hexdigest()[:12]
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"not read: {error.strerror}"


def _is_folder(path: str, told: str) -> bool:
    """Return whether root's link leads to a folder, which is reported at its own place. Links of others could lead to a server that never answers."""
    if not told.startswith((*LINKED, "/etc/", "/root/.", *ACTING)):
        return False
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116
    except OSError:
        return False


def _merged(listed: str) -> Iterator[str]:
    for path in lines_of(listed):
        yield path
        if path.startswith(("/bin/", "/sbin/", "/lib")):
            yield "/usr" + path


def _changes(path: str) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in CHANGING)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
