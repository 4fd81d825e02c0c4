"""What only a look at every file tells: programs with rights, files that packages did not bring or bring otherwise, modes."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import stat
import sys
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
PEOPLE = 1000
MOST = 4_000
"""Things of a kind that are told; a host that has more lies, or is no appliance."""
FOLDED = 200
"""Programs of no package in one folder of /opt, /usr/local or the like; more are told as that folder."""
WHOLE = 1 << 20
"""Bytes of a program of no package that are read; of a larger one its size tells."""
LISTS = "/var/lib/dpkg/info"
DPKG = "/var/lib/dpkg/status"
RECORDS = re.compile(r"^(.+)\.(list|md5sums|conffiles|triggers|preinst|postinst|prerm|postrm)$")
"""By what dpkg judges files, and what it runs as root at the next update."""
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
"""Places beside /etc whose files decide what is done, and whom one trusts."""
NOT_ACTING = (
    "__pycache__",
    "hwdb.bin",
    "/root/.ssh/authorized_keys",
    "/root/.ssh/known_hosts",
    "/var/lib/dpkg/diversions-old",
    "/var/lib/dpkg/statoverride-old",
)
LINKED = ("/usr/bin/", "/usr/sbin/", "/usr/local/", "/usr/lib/systemd/", "/etc/alternatives/")
"""Where a link decides which program is started."""
LISTED = ("/etc/", "/root/", "/boot/")
ACCESS = ("system.posix_acl_access", "system.posix_acl_default")
WHOM = {2: "user", 8: "group"}
"""Of the entries of an access list those of somebody named (linux/posix_acl.h)."""
GET_FLAGS, FLAGS = 0x80086601, {0x10: "immutable", 0x20: "append-only"}
"""linux/fs.h; such a file no role can put right."""
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
            for kind in (
                *("setuid file", "file capability", "configuration file", "file mode"),
                *("access list", "file attribute", "program link"),
            )
        }
        self._homes = {
            row[5]: int(row[2]) for row in accounts.users.values() if int(row[2]) >= PEOPLE
        }

    def look(self) -> dict[str, Things]:
        """Kind -> name -> value. Raises Unreadable where the package manager does not answer."""
        self._brought = set(self._of_packages())
        self._walk()
        programs = dict(self._folded())
        records = dict(self._records())
        verified = dict(self._verified())
        return {
            **self.found,
            "program": programs,
            "package file": verified,
            "package record": records,
        }

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
        is_link = stat.S_ISLNK(is_now.st_mode)
        if not is_link and told.startswith(MODED):
            self._moded(told, mode, is_now)
            self._listed(path, told, mode)
        if not is_link and told.startswith("/home/"):
            self._at_home(told, mode, is_now)
        if is_link and told.startswith(LINKED) and told not in self._told:
            self._note("program link", told, "to " + (files.link(path) or ""))
        if stat.S_ISDIR(is_now.st_mode):
            return
        if told.startswith(("/etc/", "/root/.", *ACTING)):
            self._configuration(told, mode, is_link=is_link)
        if told.startswith("/etc/") and stat.S_ISREG(is_now.st_mode):
            self._flagged(path, told)
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

    def _listed(self, path: str, told: str, mode: int) -> None:
        """Who else is let in by name; where such a list lets anybody write, the bits of the group say so."""
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
        """What starts with a person's session and another may write: whoever does is that person, and root where that is one who may be."""
        home = "/".join(told.split("/")[:3])
        uid, rest = self._homes.get(home), told[len(home) :]
        if uid is None or (rest and (not rest.startswith("/.") or rest.count("/") > 2)):
            return
        if mode & 0o022 or is_now.st_uid not in {uid, 0}:
            self._note("file mode", told, f"{mode:04o}, of {self._who(is_now)}")

    def _flagged(self, path: str, told: str) -> None:
        """Attributes of the file system (chattr(1)); some file systems have none."""
        descriptor = -1
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
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
        """What dpkg knows of each package, with its version: of another version it is another."""
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
                total.update(name.encode() + files.data(f"{self._ask.path(LISTS)}/{name}"))
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


def is_update(kind: str, was: str, now: str) -> bool:
    """Whether a difference only says that a package came, went or has another version, which kind "package" tells."""
    return kind == "package record" and was.partition(",")[0] != now.partition(",")[0]


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
