"""Obstacles to users' work that the probe finds outside the files of the stages."""

import fcntl
import os
import struct
import subprocess  # noqa: TID251 - a process that holds a lock
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.probe import sockets
from appliance.probe.accounts import Accounts
from appliance.probe.ask import Ask
from appliance.probe.collectors import access, network, obstacles

Grow = Callable[[dict[str, Any]], str]
PASSWD = "root:x:0:0::/root:/bin/sh\nbea:x:2001:2001::/home/bea:/bin/bash\ncarol:x:2002:2002::/:/bin/sh\n"
BASE = {"/etc/passwd": PASSWD, "/etc/group": "carol:x:2002:\nwheel:x:3001:\n"}
STATUS = """Package: bash
Status: install ok installed
Description: a shell
 which says half-configured
Version: 5

Package: tzdata
Status: install ok half-configured
Version: 1

Package: gone
Status: deinstall ok config-files

Package: libc6
Priority: required
Status: install reinstreq half-installed
"""
LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max cpu time              unlimited            unlimited            seconds
Max file size             1000000              1000000              bytes
Max processes             50                   50                   processes
Max open files            1024                 524288               files
"""
GROUP = "/sys/fs/cgroup/system.slice/slurmd.service/cgroup.procs"
PLUGINS = "/usr/lib/x86_64-linux-gnu/slurm-wlm"


def stat_of(comm: str, *, state: str = "S", ticks: int = 0, nice: int = 0, started: int = 0) -> str:
    """/proc/PID/stat (proc(5))."""
    words = [state, "1", "1", "1", "0", "-1", "0", *["0"] * 4, str(ticks), "0", "0", "0", "20", str(nice), "1", "0", str(started), "0"]  # fmt: skip
    return f"7 ({comm}) {' '.join(words)}"


def found(root: str, startup: dict[str, str] | None = None, *groups: str) -> list[dict[str, Any]]:
    ask = Ask({}, root)
    return obstacles.collect(ask, Accounts(ask), startup or {}, list(groups))


def of(kind: str, *given: Any) -> list[dict[str, Any]]:
    return [one for one in found(*given) if one["kind"] == kind]


def test_packages_that_are_neither_installed_nor_removed() -> None:
    assert sorted(obstacles.unfinished(STATUS.encode())) == [
        ("libc6", "half-installed"),
        ("tzdata", "half-configured"),
    ]
    assert not list(obstacles.unfinished(STATUS.encode().replace(b" half-", b" not-")))


def test_what_an_interrupted_dpkg_has_left(grow: Grow) -> None:
    root = grow({**BASE, "/var/lib/dpkg/status": STATUS, "/var/lib/dpkg/updates/0001": "x"})
    told = found(root)
    assert {one["at"] for one in told if one["kind"] == "package"} == {"tzdata", "libc6"}
    assert any(one["kind"] == "package journal" for one in told)
    Path(root + "/var/lib/dpkg/updates/0001").unlink()
    Path(root + "/var/lib/dpkg/updates/tmp.i").write_text("")
    assert not of("package journal", root)


def test_while_dpkg_runs_only_its_lock_is_told(grow: Grow) -> None:
    root = grow({**BASE, "/var/lib/dpkg/status": STATUS, "/var/lib/dpkg/lock": ""})
    hold = (
        "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); "
        "print('held', flush=True); time.sleep(60)"
    )
    argv = (sys.executable, "-c", hold, root + "/var/lib/dpkg/lock")
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout
            holder.stdout.readline()
            (one,) = (one for one in found(root) if one["kind"].startswith("package"))
            assert (one["kind"], one["process"]) == ("package lock", holder.pid)
        finally:
            holder.kill()
    assert not of("package lock", root)


def test_a_lock_of_our_own_process_is_none(tmp_path: Path) -> None:
    """fcntl(2) tells of other processes only."""
    file = tmp_path / "lock"
    with file.open("w") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        assert obstacles._holder(str(file)) == 0


def test_limits_priority_and_processors_that_others_inherit(grow: Grow) -> None:
    tree = {
        GROUP: "7\n",
        "/sys/fs/cgroup/system.slice/ssh.service/cgroup.procs": "8\n9\n",
        "/proc/7/limits": LIMITS,
        "/proc/7/stat": stat_of("slurmd", nice=19),
        "/proc/8/stat": stat_of("sshd"),
        "/proc/8/status": "Cpus_allowed:\t00000000,00000001\n",
        "/proc/1/status": "Cpus_allowed:\t00000001,ffffffff\n",
        "/proc/1/stat": stat_of("systemd", nice=5),
    }
    told = found(grow({**BASE, **tree}))
    assert {(o["at"], o["says"], o["value"]) for o in told if o["kind"] == "limit"} == {
        ("slurmd", "file size", 1000000),
        ("slurmd", "processes", 50),
        ("slurmd", "open files", 524288),
    }
    assert [(o["at"], o["value"]) for o in told if o["kind"] == "priority"] == [("slurmd", 14)]
    (one,) = (o for o in told if o["kind"] == "affinity")
    assert (one["at"], one["value"], one["says"]) == ("sshd", 1, "33")


@pytest.mark.parametrize(("flags", "is_down"), [("0x9", False), ("0x8", True)])
def test_a_loopback_interface_that_is_down(grow: Grow, flags: str, is_down: bool) -> None:
    assert bool(of("loopback", grow({**BASE, "/sys/class/net/lo/flags": flags}))) is is_down


def test_ports_for_connections(grow: Grow) -> None:
    (one,) = of("ports", grow({**BASE, "/proc/sys/net/ipv4/ip_local_port_range": "40000\t40003"}))
    assert one["value"] == 4


def attribute(kind: int, content: bytes) -> bytes:
    size = 4 + len(content)
    return struct.pack("=HH", size, kind) + content + bytes(-size % 4)


@pytest.mark.parametrize(("action", "says"), [(1, ""), (6, "blackhole"), (8, "prohibit")])
def test_rules_of_routing_that_refuse_packets(action: int, says: str) -> None:
    body = bytes([2, 0, 0, 0, 0, 0, 0, action]) + bytes(4)
    body += attribute(6, struct.pack("=I", 100)) + attribute(20, struct.pack("=II", 2001, 2001))
    told = list(obstacles.rule(body))
    assert [(o["says"], o["value"], o["of"]) for o in told] == (
        [(says, 100, "2001-2001")] if says else []
    )


def test_plugins_that_slurm_cannot_load(grow: Grow) -> None:
    conf = "ProctrackType=proctrack/cgroup\nTaskPlugin=task/none\nSelectType=select/cons_tres\n"
    tree = {
        "/etc/slurm/slurm.conf": conf,
        f"{PLUGINS}/auth_munge.so": "elf",
        f"{PLUGINS}/cred_munge.so": "",
        f"{PLUGINS}/libslurmfull.so": {"text": "elf", "mode": "0600"},
        f"{PLUGINS}/select_cons_tres.so": "elf",
    }
    told = of("plugin", grow({**BASE, **tree}))
    assert {(Path(o["at"]).name, o["says"]) for o in told} == {
        ("cred_munge.so", "empty"),
        ("libslurmfull.so", "closed"),
        ("proctrack_cgroup.so", "missing"),
    }


SAVED = "/var/lib/slurm/slurmctld"


def test_an_entry_that_its_daemon_cannot_use(grow: Grow, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"job_state": 0o100600, "clustername": 0o100644, "hash.3": 0o40755}
    tree = {f"{SAVED}/{name}": "" for name in names}
    conf = f"SlurmUser=slurm\nStateSaveLocation={SAVED}\n"
    tools = {"/etc/slurm/slurm.conf": conf, "/usr/sbin/slurmctld": {"when": {}}}
    root = grow({**BASE, **tree, **tools, "/etc/passwd": PASSWD + "slurm:x:64030:2::/:/bin/sh\n"})

    def entry(path: str) -> os.stat_result:
        name = Path(path).name
        if path.startswith(root + SAVED):
            owner = 0 if name in rooted else 64030
            return os.stat_result((names.get(name, 0o40700), 0, 0, 1, owner, 0, 0, 0, 0, 0))
        raise FileNotFoundError(path)

    monkeypatch.setattr("appliance.probe.places.entry", entry)
    cases: list[tuple[set[str], list[str]]] = [
        ({"clustername"}, []),
        ({"clustername", "job_state"}, ["job_state"]),
        ({"hash.3"}, ["hash.3"]),
        ({"slurmctld"}, [""]),
    ]
    for rooted, told in cases:  # noqa: B007 - read by entry
        assert [Path(o["says"]) for o in of("owner", root)] == [Path(SAVED, one) for one in told]


def test_the_room_of_a_spool_is_that_of_its_mount(grow: Grow) -> None:
    tree: dict[str, Any] = {
        "/etc/slurm/slurm.conf": "SlurmdSpoolDir=/var/lib/slurm/slurmd\n",
        "/proc/self/mountinfo": ROW.format("/", "rw", "rw"),
        "/usr/sbin/slurmd": {"when": {}},
        GROUP: "",
    }
    (one,) = of("room", grow({**BASE, **tree}))
    assert (one["at"], one["says"]) == ("/var/lib/slurm/slurmd", "slurmd")
    assert one["value"] > 0
    remote = "36 35 98:0 / /var/lib/slurm rw - nfs4 head:/x rw\n"
    tree["/proc/self/mountinfo"] += remote
    assert of("room", grow({**BASE, **tree})) == []


ROW = "36 35 98:0 / {} {} - ext4 /dev/sda {}\n"


@pytest.mark.parametrize(
    ("mounts", "is_told"),
    [
        ([("/", "rw", "rw")], False),
        ([("/", "ro", "rw")], True),
        ([("/", "ro", "ro"), ("/var/lib/slurm", "rw", "rw")], False),
        ([("/", "rw", "rw"), ("/var/lib/slurm/slurmd", "ro,noatime", "rw")], True),
        ([("/", "rw", "rw"), ("/var/lib/slurm/slurmd", "rw", "ro")], True),
        ([("/", "rw", "rw"), ("/var/lib/slurm/slurmd2", "ro", "ro")], False),
        ([("/var/lib/slurm", "ro", "rw"), ("/var/lib/slurm", "rw", "rw")], False),
    ],
)
def test_a_spool_on_a_read_only_file_system(
    grow: Grow, mounts: list[tuple[str, str, str]], is_told: bool
) -> None:
    tree = {
        "/etc/slurm/slurm.conf": "SlurmdSpoolDir=/var/lib/slurm/slurmd\nStateSaveLocation=/var/lib/slurm/slurmd\n",
        "/proc/self/mountinfo": "".join(ROW.format(*one) for one in mounts),
        "/usr/sbin/slurmd": {"when": {}},
        GROUP: "",
    }
    told = [(o["at"], o["says"]) for o in of("read-only", grow({**BASE, **tree}))]
    assert told == ([("/var/lib/slurm/slurmd", "slurmd")] if is_told else [])


@pytest.mark.parametrize(
    ("deny", "allow", "clients"),
    [
        ("sshd: 10.0.0.11 gpu-2\n", "", ["10.0.0.11", "gpu-2"]),
        ("ALL : ALL\n", "", ["ALL"]),
        ("#sshd: 10.0.0.11\nrpcbind: ALL\n", "", []),
        ("ALL: ALL\n", "sshd: ALL\n", []),
    ],
)
def test_clients_that_may_not_log_in(grow: Grow, deny: str, allow: str, clients: list[str]) -> None:
    told = of("denied", grow({**BASE, "/etc/hosts.deny": deny, "/etc/hosts.allow": allow}))
    assert [one["says"] for one in told] == clients


def test_limits_of_users(grow: Grow) -> None:
    text = "#* hard nproc 1\n* hard nproc 5\n@vision - nofile 64 # few\n* soft nproc 3\n* hard core 0\n"
    told = of("user limit", grow({**BASE, "/etc/security/limits.conf": text}))
    assert [(o["of"], o["says"], o["value"]) for o in told] == [
        ("* hard", "nproc", 5),
        ("@vision -", "nofile", 64),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("export PATH=/opt/bin\n", "PATH"),
        ("PATH=/opt/bin:$PATH\nexport PATH\n", ""),
        ('PATH="/usr/local/bin:/usr/bin:/bin"\n', ""),
        ("PATH=/opt/bin\nPATH=/usr/bin\n", ""),
        ("export TMPDIR=/none\n", "TMPDIR"),
        ("export TMPDIR=/etc\n", ""),
        ("export TMPDIR=/scratch/$USER\n", ""),
        ("umask 0777\n", "umask 0777"),
        ("umask 077\n", ""),
        ("umask 022\n", ""),
        ("sleep 20\n", "sleep 20"),
        ("set -e\n", "set -e"),
        ("set -o vi\n", ""),
        ("  set -e\n", ""),
        ("cd /none || exit 1\n", "cd"),
        ("cd /etc || exit 1\n", ""),
    ],
)
def test_lines_of_login_scripts_that_break_a_shell(grow: Grow, text: str, says: str) -> None:
    told = of("login", grow(BASE), {"/etc/profile.d/x.sh": text})
    assert [one["says"] for one in told] == ([says] if says else [])


@pytest.mark.parametrize(
    ("text", "is_sound"),
    [
        ("if [ -d /x ]; then\n  A=(1 2)\nfi\n[[ a == b ]]\n", True),
        ("if [ -d /x ]; then\n", False),
        ("fi\n", False),
        ("exit 2\n", True),
    ],
)
def test_a_script_that_bash_cannot_read_is_run_by_nobody(text: str, is_sound: bool) -> None:
    assert obstacles._parses(Ask({}, ""), text) is is_sound


def test_of_several_scripts_the_broken_one_is_named(
    grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(obstacles, "_parses", lambda ask, text: "then" not in text)
    texts = {
        "/etc/profile": "umask 022\n",
        "/etc/profile.d/x.sh": "then\n",
        "/etc/environment": "then",
    }
    assert [(one["at"], one["says"]) for one in of("login", grow(BASE), texts)] == [
        ("/etc/profile.d/x.sh", "syntax")
    ]


def busy(group: str, **stat: Any) -> dict[str, str]:
    at = f"/sys/fs/cgroup{group}"
    return {
        f"{at}/cpu.stat": "usage_usec 90000000\nuser_usec 1\n",
        f"{at}/cgroup.procs": "7\n",
        f"{at}/cpu.pressure": "some avg10=9.10 avg60=51.20 avg300=4.00 total=1\nfull avg60=3.00\n",
        "/proc/7/stat": stat_of("python", **stat),
        "/proc/7/comm": "python\n",
        "/proc/uptime": "1000.0 1.0\n",
    }


TICK = os.sysconf("SC_CLK_TCK")


def test_processors_that_a_program_uses(grow: Grow) -> None:
    group = "/user.slice/user-2001.slice/session-3.scope"
    root = grow({**BASE, **busy(group, ticks=90 * TICK, started=900 * TICK)})
    (one,) = of("processors", root, {}, group)
    assert (one["at"], one["says"], one["value"], one["waits"]) == (group, "python", 0.9, 51.2)
    Path(root + f"/sys/fs/cgroup{group}/cpu.pressure").unlink()
    (one,) = of("processors", root, {}, group)
    assert one["waits"] is None


@pytest.mark.parametrize(
    ("group", "stat"),
    [
        ("/system.slice/x.service", {"ticks": 90 * TICK, "started": 0}),  # 0.09 processors
        ("/system.slice/x.service", {"ticks": 30 * TICK, "started": 970 * TICK}),  # too young
        ("/system.slice/slurmd.service", {"ticks": 90 * TICK, "started": 900 * TICK}),  # a job
    ],
)
def test_daemons_and_jobs_are_not_told(grow: Grow, group: str, stat: dict[str, Any]) -> None:
    assert not of("processors", grow({**BASE, **busy(group, **stat)}), {}, group)


def test_a_group_that_has_used_little_is_not_read(grow: Grow) -> None:
    group = "/system.slice/x.service"
    tree = busy(group, ticks=90 * TICK, started=900 * TICK)
    tree[f"/sys/fs/cgroup{group}/cpu.stat"] = "usage_usec 900\n"
    assert not of("processors", grow({**BASE, **tree}), {}, group)


def test_numbers_of_the_site_that_others_have(grow: Grow) -> None:
    numbers = {"uid": ["2001 bea", "2002 bob"], "gid": ["2002 bob", "3001 vision", "3002 x"]}
    ask = Ask({"numbers": numbers}, grow(BASE))
    told = [
        (o["kind"], o["number"], o["by"], o["wanted"]) for o in access._taken(ask, Accounts(ask))
    ]
    assert told == [
        ("uid", 2002, "carol", "bob"),
        ("gid", 2002, "carol", "bob"),
        ("gid", 3001, "wheel", "vision"),
    ]


def action(kind: bytes, parms: bytes, attribute_of_actions: int) -> bytes:
    act = attribute(1, kind + b"\0") + attribute(2, attribute(2, parms))
    return attribute(attribute_of_actions, attribute(1, act))


MIRRED = struct.pack("=IIiiiiI", 1, 0, 4, 1, 1, 1, 1)
DROPS = struct.pack("=IIiii", 1, 0, 2, 1, 1)
PASSES = struct.pack("=IIiii", 1, 0, 0, 1, 1)


@pytest.mark.parametrize(
    ("kind", "options", "does"),
    [
        (b"u32", action(b"mirred", MIRRED, 7), "redirect"),
        (b"u32", action(b"police", b"", 7), "police"),
        (b"flower", action(b"gact", DROPS, 3), "drop"),
        (b"matchall", action(b"gact", PASSES, 2), ""),
        (b"matchall", action(b"mirred", MIRRED[:20] + struct.pack("=iI", 2, 1), 2), ""),  # a copy
        (b"bpf", attribute(7, b"cil_from_netdev\0"), ""),
    ],
)
def test_filters_that_lose_packets(kind: bytes, options: bytes, does: str) -> None:
    body = struct.pack("=BxxxiIII", 0, 7, 0x80000800, 0xFFFF0000, 7 << 16 | 8)
    body += attribute(1, kind + b"\0") + attribute(2 | 0x8000, options)
    assert network.losing(body) == does


def test_filters_are_asked_for_where_a_discipline_holds_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def dump(what: int, body: bytes, _: int) -> list[bytes]:
        if what == network.GETQDISC:
            head = struct.pack("=BxxxiIII", 0, 7, 0, 0, 0)
            return [head + attribute(1, b"clsact\0")]
        asked.append(struct.unpack("=BxxxiIII", body)[3])
        head = struct.pack("=BxxxiIII", 0, 7, 0, 0, 9 << 16)
        return [head + attribute(1, b"u32\0") + attribute(2, action(b"mirred", MIRRED, 7))]

    monkeypatch.setattr(network, "_dump", dump)
    told = network._slowed()[7]["filters"]
    assert asked == [0xFFFFFFF2, 0xFFFFFFF3]
    assert told[1] == {"does": "redirect", "parent": "ffff:fff3", "priority": 9}


def test_who_holds_a_port(grow: Grow) -> None:
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    row = "   0: {} 00000000:0000 0A 00000000:00000000 00:00000000 00000000  2001        0 {} 1\n"
    tree = {
        "/proc/net/tcp": head + row.format("0100007F:2382", 11) + row.format("0100007F:0050", 12),
        "/proc/net/tcp6": head + row.format("0" * 32 + ":2385", 13),
        "/proc/7/status": "Uid:\t2001\t2001\n",
        "/proc/7/comm": "python3\n",
        "/proc/7/fd/3": {"link": "socket:[11]"},
        "/proc/7/fd/4": {"link": "socket:[12]"},
        "/proc/1/status": "Uid:\t0\t0\n",
        "/proc/1/comm": "systemd\n",
        "/proc/1/fd/9": {"link": "socket:[13]"},
    }
    ask = Ask({}, grow({**BASE, **tree}))
    assert sockets.holders_of(ask, (9090, 9093)) == {
        9090: [sockets.Holder("python3", 7, of_all=False)],
        9093: [sockets.Holder("systemd", 1, of_all=True)],
    }


def test_a_look_that_ends_with_an_error_is_no_silence(
    grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(ask: Ask) -> Iterator[dict[str, Any]]:
        raise OSError(5, "Input/output error")
        yield

    def gone(ask: Ask) -> Iterator[dict[str, Any]]:
        raise ProcessLookupError(3, "No such process")
        yield

    monkeypatch.setattr(obstacles, "_daemons", refused)
    monkeypatch.setattr(obstacles, "_denied", gone)
    unread = [one for one in found(grow(BASE)) if one["kind"] == "unread"]
    assert [(one["at"], one["says"]) for one in unread] == [("daemons", "Input/output error")]
