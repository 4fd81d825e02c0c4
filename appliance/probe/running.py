"""State at run time that no file in /etc shows: transient units, settings of running daemons, and of the network.

None of it outlives the next boot, and all of it decides what happens until then.
"""

from __future__ import annotations

import hashlib
import re

from appliance.probe import files
from appliance.probe.lines import lines_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from appliance.probe.ask import Ask

    Pairs = Iterator[tuple[str, str]]
    Looks = dict[str, Callable[[], Pairs]]

GROUPS = "/sys/fs/cgroup/system.slice"
WANTED = "/etc/systemd/system"
STATIC = frozenset(
    f"{name}.service"
    for name in ("dbus", "systemd-journald", "systemd-logind", "systemd-udevd", "polkit")
)
"""Daemons that run without being enabled by a link in /etc."""
TRANSIENT = "/run/systemd/transient"
LASTING = (".service", ".timer", ".path", ".socket", ".mount")
UNLIMITED = {
    **{"cpu.max": ("max 100000",), "cpu.weight": ("100",), "cpuset.cpus": ("",)},
    **{"memory.max": ("max",), "memory.high": ("max",), "io.max": ("",), "cgroup.freeze": ("0",)},
}
"""By file of a control group, its content without a limit."""
PEOPLE, RESERVED = 1000, range(60_000, 65_536)
"""First uid of people, and ranges reserved for distributions and systemd (systemd.io, UIDS-GIDS)."""
LOADER = re.compile(rb"(?:^|\0)(LD_[A-Z_]+|BASH_ENV|PYTHONPATH|PERL5LIB)=")
"""Variables that load foreign code into a program (ld.so(8))."""
COUNTS = re.compile(rb" \d+ of \d+-\d+ startups")
"""Part of sshd's title that counts its sessions."""
LIMIT = re.compile(r"^Max (.*?) {2,}(\S+) +(\S+)", re.M)
LEFT_TO_SYSTEMD = frozenset({"processes", "pending signals"})
"""Limits that follow the memory of the machine."""
SYSTEM = ("/usr/", "/opt/", "/bin/", "/sbin/", "/lib", "/snap/", "/nix/")
CONTAINED = ("kubepods", "/docker", "cri-containerd", "slurmstepd", "/job_", "machine.slice")
"""Control groups of containers and jobs, whose files are not the host's."""
GONE = " (deleted)"
PODS = re.compile(
    r"\bdev (cali|flannel|cni|vxlan|tunl|veth|lxc|cilium|kube-|docker|br-|nodelocaldns)"
)
"""Interfaces that a pod network creates and deletes."""
BY_PROTOCOL = re.compile(r"\bproto (kernel|ra|dhcp|bird|80|bgp|ospf|zebra)\b")
"""Routes set by the kernel or a protocol."""
USUAL_RULES = frozenset({"0:", "32766:", "32767:"})
USUAL_QUEUES = frozenset({"noqueue", "mq", "fq_codel", "fq", "pfifo_fast", "ingress", "clsact"})


def looks(ask: Ask) -> Looks:
    """Return kind -> its reader; none if systemd does not run."""
    if not files.exists(ask.path("/run/systemd/system")):
        return {}
    found: Looks = {
        "transient unit": lambda: _transient(ask),
        "daemon": lambda: _daemons(ask),
        "root process": lambda: _foreign(ask),
    }
    if ask.has("systemctl"):
        found["service variable"] = lambda: _environment(ask)
    if ask.has("ip"):
        found["route"] = lambda: _routes(ask)
        found["routing rule"] = lambda: _rules(ask)
        found["address"] = lambda: _addresses(ask)
    if ask.has("tc"):
        found["traffic control"] = lambda: _queues(ask)
    return found


def _transient(ask: Ask) -> Pairs:
    """Return units created through systemd's API, as systemd-run does."""
    for name in files.names(ask.path(TRANSIENT)):
        if name.endswith(LASTING):
            said = files.text(ask.path(f"{TRANSIENT}/{name}"))
            runs = [line for line in lines_of(said) if line.startswith(("ExecStart=", "Unit="))]
            yield name, f"content {_digest(repr(runs or said).encode())}"


def _daemons(ask: Ask) -> Pairs:
    """Return enabled services that run; those that stages watch, even if disabled."""
    wanted = {*STATIC, *ask.units}
    for folder in files.names(ask.path(WANTED)):
        if folder.endswith((".wants", ".requires")):
            wanted.update(files.names(ask.path(f"{WANTED}/{folder}")))
    ours = _field(files.text(ask.path("/proc/1/status")), "Cpus_allowed_list")
    for name in files.names(ask.path(GROUPS)):
        if name in wanted:
            members = files.text(ask.path(f"{GROUPS}/{name}/cgroup.procs")).split()
            if members:
                main = min(members, key=lambda pid: _rank(ask, pid))
                yield name, ", ".join([*_set(ask, name), *_given(ask, main, ours)])


def _rank(ask: Ask, pid: str) -> tuple[bool, bool, int, int]:
    """Return the sort key of a process: whether it ended or is a user's, its start, and its id.

    A crontab's programs run in cron's group, numbers start over, and a daemon's short-lived processes end while they are looked at.
    """
    at = ask.path(f"/proc/{pid}/")
    uids, started = _field(files.text(at + "status"), "Uid").split(), _words(at)[19:20]
    if not uids or not started:
        return True, False, 0, int(pid)
    is_persons = int(uids[0]) >= PEOPLE and int(uids[0]) not in RESERVED
    return False, is_persons, int(started[0]), int(pid)


def _set(ask: Ask, name: str) -> Iterator[str]:
    for file, usual in UNLIMITED.items():
        value = files.text(ask.path(f"{GROUPS}/{name}/{file}"))
        if value and value not in usual:
            yield f"{file} {value}"


def _given(ask: Ask, pid: str, ours: str) -> Iterator[str]:
    """Return what changed in a process since its start."""
    at = ask.path(f"/proc/{pid}/")
    status = files.text(at + "status")
    if not status:
        yield "hidden"
        return
    program = files.link(at + "exe") or ""
    yield f"runs {program.replace(GONE, '')}"
    if program.endswith(GONE):
        yield "which was replaced or removed since"
    if _field(status, "State").startswith(("T", "t")):
        yield "stopped"
    if _field(status, "Cpus_allowed_list") != ours:
        yield f"on processors {_field(status, 'Cpus_allowed_list')}"
    loaded = sorted({name.decode() for name in LOADER.findall(_data(at + "environ"))})
    if loaded:
        yield "with " + " ".join(loaded)
    yield f"arguments {_digest(COUNTS.sub(b'', _data(at + 'cmdline').rstrip(bytes(1))))}"
    limits = LIMIT.findall(files.text(at + "limits"))
    said = [f"{n} {low}:{high}" for n, low, high in limits if n not in LEFT_TO_SYSTEMD]
    yield f"limits {_digest(' '.join(said).encode())}"
    yield f"nice {_nice(at)}, oom {files.text(at + 'oom_score_adj')}"


def _nice(at: str) -> str:
    words = _words(at)
    return words[16] if len(words) > 16 else ""


def _words(at: str) -> list[str]:
    """Return the fields of proc(5)'s stat after the name, which its owner chooses; the first one is field 3."""
    return files.text(at + "stat").rpartition(")")[2].split()


def _foreign(ask: Ask) -> Pairs:
    """Return root's processes whose program is in an unusual place or was deleted."""
    for pid in filter(str.isdigit, files.names(ask.path("/proc"))):
        at = ask.path(f"/proc/{pid}/")
        program = files.link(at + "exe")
        if program is None or program.startswith(SYSTEM):
            continue
        if _field(files.text(at + "status"), "Uid").split()[:1] != ["0"]:
            continue
        if not any(word in files.text(at + "cgroup") for word in CONTAINED):
            gone = "removed since it started" if program.endswith(GONE) else "still there"
            yield program.replace(GONE, ""), gone


def _environment(ask: Ask) -> Pairs:
    """Return the environment that systemd gives every service; values may be secrets."""
    for line in lines_of(ask.run(["systemctl", "show-environment"])):
        name, equals, value = line.partition("=")
        if equals:
            yield name, f"value {_digest(value.encode())}"


def _routes(ask: Ask) -> Pairs:
    for family in ("-4", "-6"):
        said = ask.run(["ip", family, "route", "show", "table", "all"], ok=(0, 2))
        for line in (" ".join(raw.split()) for raw in lines_of(said)):
            if not PODS.search(line) and not BY_PROTOCOL.search(line):
                yield re.sub(r" (expires|pref|metric) \S+", "", line), "IPv" + family[1]


def _rules(ask: Ask) -> Pairs:
    for family in ("-4", "-6"):
        for line in lines_of(ask.run(["ip", family, "rule"], ok=(0, 2))):
            number, _, rule = " ".join(line.split()).partition(" ")
            if number not in USUAL_RULES:
                yield f"{number} {rule}", "IPv" + family[1]


def _addresses(ask: Ask) -> Pairs:
    """Return addresses set by hand; single-host addresses are omitted, because the cluster's address moves."""
    for line in lines_of(ask.run(["ip", "-oneline", "address"], ok=(0, 2))):
        words = line.split()
        device, family, address = words[1], words[2], words[3]
        lone = address.endswith(("/32", "/128"))
        is_pods = PODS.search(f"dev {device}")
        if "global" in words and "dynamic" not in words and not lone and not is_pods:
            yield address, f"on {device.partition('@')[0]}, {family}"


def _queues(ask: Ask) -> Pairs:
    """Return queueing disciplines that delay, drop or limit packets."""
    for line in lines_of(ask.run(["tc", "qdisc"], ok=(0, 1))):
        words = line.split()
        if len(words) > 4 and words[1] not in USUAL_QUEUES and not PODS.search(line):
            rest = " ".join(w for w in words[5:] if w not in {"root", "refcnt"})
            yield f"{words[1]} on {words[4]}", rest


def _field(status: str, name: str) -> str:
    for line in lines_of(status):
        if line.startswith(name + ":"):
            return line.partition(":")[2].strip()
    return ""


def _data(path: str) -> bytes:
    try:
        return files.data(path)
    except OSError:
        return b""


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]
