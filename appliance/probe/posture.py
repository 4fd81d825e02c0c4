"""State of a host outside the stages: accounts, keys, privileged programs, sockets, packages, units; compared with another day.

Names and values are words for people; a value that cannot be told in a line is the beginning of a digest.
"""

from __future__ import annotations

import hashlib
import re
import stat
from importlib import import_module

from appliance.probe import files, keys, places
from appliance.probe.accounts import Accounts
from appliance.probe.budget import shown
from appliance.probe.collectors import filesystems
from appliance.probe.every_file import EveryFile
from appliance.probe.lines import lines_of
from appliance.probe.problems import Unreadable
from appliance.probe.sockets import listening

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from appliance.probe.ask import Ask, Facts

    Things = dict[str, str]

DEEP = (
    *("setuid file", "file capability", "configuration file", "file mode", "program"),
    *("package file", "package record", "access list", "file attribute", "program link"),
)
"""Kinds that require reading every file."""
DPKG = "/var/lib/dpkg/status"
INSTALLED = re.compile(
    r"^Package: (\S+)\n(?:Essential: .*\n)?Status: (\S+) \S+ installed\n(?:(?!\n).*\n)*?Version: (\S+)$",
    re.M,
)
KEY_FILES = ("authorized_keys", "authorized_keys2")
LONGEST = 300
"""Maximum characters of a link's target."""
MOST, ROOM = 10_000, 2 << 20
"""Maximum number of items of a kind, and of their characters together."""
LONGEST_LINE = 4000
SUDOERS = ("/etc/sudoers", "/etc/sudoers.d/")
SOURCES = (
    *("/etc/apt/sources.list", "/etc/apt/sources.list.d/", "/etc/apt/trusted.gpg.d/"),
    *("/etc/apt/keyrings/", "/etc/yum.repos.d/"),
)
CRON = (
    *("/etc/crontab", "/etc/cron.d/", "/etc/cron.hourly/", "/etc/cron.daily/", "/etc/cron.weekly/"),
    *("/etc/cron.monthly/", "/var/spool/cron/crontabs/", "/var/spool/cron/"),
    "/var/spool/cron/atjobs/",
)
UNITS = "/etc/systemd/system"
UNIT_PLACES = (
    *(UNITS, "/run/systemd/system"),
    *("/etc/systemd/system.control", "/run/systemd/system.control"),
)
"""Folders of units and drop-ins that are not from packages; systemctl set-property writes to the last two."""
BESIDE = ("appliance.probe.running", "appliance.stages.slurm.collect.beside")
"""Further files to read, and the stages that manage them."""
ETAB = "/var/lib/nfs/etab"
TOLD = ("sudoers file", "package source", "cron file", "unit file")
OWN_KINDS = {
    **{"file": "", "link": "", "user": "account ", "group": "account group "},
    **{"package": "package ", "unit": "unit ", "directory": "", "mount": "mount "},
    **{"nftables": "firewall table ", "sysctl": "kernel parameter "},
}
"""Resources of receipts that have checks of their own, and their kinds here."""
PARAMETERS = (
    *("kernel.randomize_va_space", "kernel.kptr_restrict", "kernel.dmesg_restrict"),
    *("kernel.perf_event_paranoid", "kernel.unprivileged_bpf_disabled", "kernel.core_pattern"),
    *("kernel.yama.ptrace_scope", "kernel.modules_disabled", "kernel.kexec_load_disabled"),
    *("kernel.sysrq", "kernel.modprobe", "user.max_user_namespaces", "fs.suid_dumpable"),
    *("fs.protected_symlinks", "fs.protected_hardlinks", "fs.protected_fifos"),
    *("fs.protected_regular", "net.core.bpf_jit_harden", "net.ipv4.ip_forward"),
    *("net.ipv4.ip_unprivileged_port_start", "net.ipv4.tcp_syncookies"),
    *("net.ipv4.conf.all.rp_filter", "net.ipv4.conf.all.accept_redirects"),
    *("net.ipv4.conf.all.route_localnet", "net.ipv4.conf.all.proxy_arp"),
    *("net.ipv6.conf.all.forwarding", "net.ipv6.conf.all.accept_redirects"),
    *("net.ipv6.conf.all.accept_ra", "net.ipv6.conf.all.disable_ipv6"),
    *("net.ipv4.icmp_echo_ignore_all", "net.ipv4.tcp_congestion_control", "net.ipv4.tcp_ecn"),
    *("net.ipv4.ip_local_port_range", "net.ipv4.ip_nonlocal_bind", "net.ipv4.ip_default_ttl"),
    *("net.ipv4.conf.all.arp_ignore", "net.ipv4.conf.all.log_martians"),
    *("net.ipv4.conf.all.secure_redirects", "net.ipv4.tcp_max_syn_backlog"),
    *("net.ipv4.tcp_mtu_probing", "net.ipv4.tcp_timestamps", "net.ipv4.tcp_sack"),
    *("vm.overcommit_memory", "vm.overcommit_ratio", "vm.panic_on_oom", "vm.mmap_min_addr"),
    *("vm.oom_kill_allocating_task", "kernel.pid_max", "kernel.panic_on_oops"),
    *("kernel.io_uring_disabled", "kernel.nmi_watchdog", "kernel.core_uses_pid"),
    *("kernel.ftrace_enabled", "dev.tty.ldisc_autoload"),
)
"""Kernel parameters that affect access or speed (kernel.org, admin-guide/sysctl), even if no stage sets them."""
CHAIN = re.compile(r"\ttype \w+ hook (\w+) ")
SYSTEM = ("/usr/", "/etc/", "/bin/", "/sbin/", "/lib", "/boot/", "/root/")
HIDING = re.compile(r"/proc/\d+")
"""A mount over the folder of a process, which hides the process."""
PASSING = ("autofs", "binfmt_misc", "nsfs")
"""File systems that are mounted on access."""


class Posture:
    """One reading; a kind that cannot be read does not affect the others."""

    def __init__(self, ask: Ask, receipts: dict[str, Facts]) -> None:
        self._ask = ask
        self._receipts = receipts
        self._accounts = Accounts(ask)

    def look(self) -> Facts:
        """Return kind -> name -> value, and the items that stages own."""
        looks: dict[str, Callable[[], Iterator[tuple[str, str]]]] = {
            "account": self._people,
            "key": self._keys,
            "sudoers file": lambda: self._files(SUDOERS),
            "package source": lambda: self._files(SOURCES),
            "package": self._packages,
            "cron file": lambda: self._files(CRON),
            "unit": self._enabled,
            "unit file": self._unit_files,
            "socket": lambda: listening(self._ask),
            "module": self._modules,
            "mount": self._mounts,
            "firewall table": self._tables,
            "kernel parameter": self._parameters,
            "name server": self._resolver,
            "export": self._exports,
        }
        for module in BESIDE:
            looks.update(import_module(module).looks(self._ask))
        found: dict[str, Things] = {}
        for kind, look in looks.items():
            try:
                found[kind] = self._told(kind, look())
            except OSError as error:
                self._ask.problem("posture", f"{kind}: {error.strerror}: {error.filename}")
            except Unreadable as error:
                self._ask.problem("posture", f"{kind}: {error}")
        if self._ask.deep:
            told = {name for kind in TOLD for name in found.get(kind, {})}
            try:
                found.update(EveryFile(self._ask, self._accounts, told).look())
            except (OSError, Unreadable) as error:
                self._ask.problem("posture", f"every file: {error}")
        return {"things": found, "owned": sorted(self._owned())}

    def _told(self, kind: str, pairs: Iterator[tuple[str, str]]) -> Things:
        """Return at most the maximum of items, and report that there are more."""
        found: Things = {}
        room = ROOM
        for name, value in pairs:
            room -= len(name) + len(value)
            if len(found) >= MOST or room < 0:
                self._ask.problem("posture", f"{kind}: more than {len(found)} are not listed")
                break
            found[shown(name, LONGEST_LINE)] = shown(value, LONGEST_LINE)
        return found

    def _owned(self) -> Iterator[str]:
        for receipt in self._receipts.values():
            for state in receipt.get("resources", ()):
                if state["kind"] in OWN_KINDS:
                    yield OWN_KINDS[state["kind"]] + state["name"]
                if state["kind"] == "keyword":
                    yield state["name"].partition(" ")[0]
                if state["kind"] == "unit":  # of which a mask is told as its state
                    yield f"{UNITS}/{state['name']}"

    def _people(self) -> Iterator[tuple[str, str]]:
        below = dict(self._subordinate())
        for name, row in self._accounts.users.items():
            groups = [
                g for g, fields in self._accounts.groups.items() if name in fields[3].split(",")
            ]
            words = [f"uid {row[2]}", f"gid {row[3]}", f"shell {row[6]}", f"home {row[5]}"]
            words += [f"groups {' '.join(sorted(groups))}"] if groups else []
            words += [f"subordinate {below.pop(name)}"] if name in below else []
            yield name, ", ".join([*words, f"password {self._accounts.secret(name)}"])
        for name, told in below.items():
            yield f"subordinate {name}", told
        opened = dict(self._accounts.opened_groups())
        for name, fields in self._accounts.groups.items():
            # Those of a directory; a local account tells its groups itself.
            far = sorted(set(fields[3].split(",")) - {""} - set(self._accounts.users))
            words = ["members " + " ".join(far)] if far else []
            words += [opened[name]] if name in opened else []
            if words:
                yield f"group {name}", ", ".join(words)

    def _subordinate(self) -> Iterator[tuple[str, str]]:
        """Return the id ranges of users (subuid(5)): a range that includes 0 makes its user root."""
        found: dict[str, list[str]] = {}
        for what in ("subuid", "subgid"):
            for line in lines_of(files.text(self._ask.path(f"/etc/{what}"))):
                name, _, numbers = line.partition(":")
                found.setdefault(name, []).append(f"{what[3:]} {numbers}")
        for name, told in found.items():
            yield name, " ".join(told)

    def _keys(self) -> Iterator[tuple[str, str]]:
        for name, row in self._accounts.users.items():
            texts: list[str] = []
            for file in KEY_FILES:
                path = self._ask.path(f"{row[5]}/.ssh/{file}")
                try:
                    said = files.data(path, keys.BYTES + 1, int(row[2]))
                except (FileNotFoundError, NotADirectoryError):
                    continue
                except OSError as error:
                    yield f"{keys.NOT_READ} .ssh/{file} of {name}", str(error.strerror)
                    continue
                if len(said) > keys.BYTES:
                    yield (
                        f"{keys.NOT_READ} .ssh/{file} behind {keys.BYTES} bytes of {name}",
                        "too long",
                    )
                texts.append(said[: keys.BYTES].decode("utf-8", "replace"))
            yield from keys.of_account(name, texts)

    def _files(self, places: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        for place in places:
            names = files.names(self._ask.path(place)) if place.endswith("/") else [""]
            for path in (place + name for name in names):
                value = self._file(path)
                if value:
                    yield path, value

    def _unit_files(self) -> Iterator[tuple[str, str]]:
        for place in UNIT_PLACES:
            drop_ins = [f for f in files.names(self._ask.path(place)) if f.endswith(".d")]
            yield from self._files((place + "/", *(f"{place}/{f}/" for f in drop_ins)))

    def _exports(self) -> Iterator[tuple[str, str]]:
        """Return what the kernel's NFS server exports now, independent of /etc/exports (exportfs(8))."""
        for line in lines_of(files.text(self._ask.path(ETAB))):
            what, _, whom = line.partition("\t")
            client, _, options = whom.partition("(")
            yield f"{what} to {client}", options.rstrip(")")

    def _file(self, path: str) -> str:
        at = self._ask.path(path)
        try:
            found = places.status(at)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except places.Untrusted as error:
            return f"not read: {error.strerror}"
        if stat.S_ISLNK(found.st_mode):
            return "link to " + (files.link(at) or "")[:LONGEST]
        if not stat.S_ISREG(found.st_mode):
            return ""
        try:
            content = "content " + hashlib.sha256(files.data(at)).hexdigest()[:12]
        except OSError as error:
            content = f"not read: {error.strerror}"
        owner = self._accounts.owner(found.st_uid)
        return f"{content}, mode {stat.S_IMODE(found.st_mode):04o}, of {owner}"

    def _packages(self) -> Iterator[tuple[str, str]]:
        if files.exists(self._ask.path(DPKG)):
            for name, wanted, version in INSTALLED.findall(
                files.read(self._ask.path(DPKG), 64 << 20)
            ):
                yield name, version + (", held" if wanted == "hold" else "")
        elif self._ask.has("rpm"):
            for line in lines_of(self._ask.run(["rpm", "-qa", "--qf", "%{NAME} %{EVR}\n"], 10.0)):
                name, _, version = line.partition(" ")
                yield name, version

    def _enabled(self) -> Iterator[tuple[str, str]]:
        """Return units enabled by links in /etc, as systemctl enable creates them."""
        wanted: dict[str, list[str]] = {}
        for folder in files.names(self._ask.path(UNITS)):
            by, dot, kind = folder.rpartition(".")
            if dot and kind in {"wants", "requires"}:
                for name in files.names(self._ask.path(f"{UNITS}/{folder}")):
                    wanted.setdefault(name, []).append(by)
        for name, by_all in wanted.items():
            yield name, "wanted by " + " ".join(sorted(by_all))

    def _modules(self) -> Iterator[tuple[str, str]]:
        """Return modules that are not the distribution's: taint flags O and E (kernel.org, tainted-kernels). A container has none of its own."""
        for line in lines_of(files.text(self._ask.path("/proc/modules"))):
            words = line.split()
            flags = words[-1] if words[-1].startswith("(") else ""
            if set(flags) & set("OE") and not self._is_container():
                yield words[0], "flags " + flags.strip("()")

    def _mounts(self) -> Iterator[tuple[str, str]]:
        """Return mounts of the host, without those of runtimes and users, which change often."""
        for at, mount in filesystems.mounts(self._ask).items():
            in_system = at.startswith(SYSTEM) or HIDING.match(at)
            passes = mount.type in PASSING or (mount.type.startswith("fuse") and not in_system)
            usual = at.startswith((*filesystems.MANY, "/proc/", "/sys/", "/dev/"))
            if not passes and (in_system or not usual):
                flags = ", ".join(mount.flags)
                yield at, f"{mount.type} of {mount.source}" + (f", {flags}" if flags else "")

    def _tables(self) -> Iterator[tuple[str, str]]:
        """Return the hooks of firewall tables; their rules are not compared."""
        if not self._ask.has("nft"):
            return
        hooks: dict[str, set[str]] = {}
        for line in lines_of(self._ask.run(["nft", "list", "chains"], ok=(0, 1))):
            hook = CHAIN.match(line.replace("\t\t", "\t"))
            if line.startswith("table "):
                at = hooks.setdefault(line[len("table ") :].rstrip(" {"), set())
            elif hook:
                at.add(hook.group(1))
        for name in hooks:
            yield name, "at " + (" ".join(sorted(hooks[name])) or "no hook")

    def _parameters(self) -> Iterator[tuple[str, str]]:
        for name in PARAMETERS:
            value = files.text(self._ask.path("/proc/sys/" + name.replace(".", "/")))
            if value:
                yield name, value

    def _resolver(self) -> Iterator[tuple[str, str]]:
        for line in lines_of(files.text(self._ask.path("/etc/resolv.conf"))):
            word, _, value = line.partition(" ")
            if word in {"nameserver", "search", "domain", "options"}:
                yield value.strip(), f"{word} of /etc/resolv.conf"

    def _is_container(self) -> bool:
        return files.exists(self._ask.path("/run/systemd/container"))


def collect(ask: Ask, receipts: dict[str, Any]) -> Facts:
    """The area ``posture``."""
    return {"posture": Posture(ask, receipts).look()}
