"""What runs beside what is written: daemons by what they were given, units of no file, programs of nowhere, routes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.probe.ask import Ask
from appliance.probe.running import looks

Grow = Callable[[dict[str, Any]], str]

STATUS = "Name:\tx\nState:\tS (sleeping)\nUid:\t{uid}\t0\t0\t0\nCpus_allowed_list:\t{cpus}\n"
LIMITS = "Max open files            1024                 524288               files\n"
GROUP = "/sys/fs/cgroup/system.slice/slurmd.service"
HOST: dict[str, Any] = {
    "/run/systemd/system/x": "",
    "/proc/1/status": STATUS.format(uid=0, cpus="0-7"),
    "/etc/systemd/system/multi-user.target.wants/slurmd.service": {"link": "x"},
    f"{GROUP}/cgroup.procs": "70\n7\n",
    f"{GROUP}/memory.max": "max\n",
    "/sys/fs/cgroup/system.slice/passing.service/cgroup.procs": "9\n",
    "/proc/7/status": STATUS.format(uid=0, cpus="0-7"),
    "/proc/7/exe": {"link": "/usr/sbin/slurmd"},
    "/proc/7/limits": LIMITS,
    "/proc/7/stat": "7 (slurmd) S " + " ".join("0" * 30),
    "/proc/7/oom_score_adj": "0\n",
    "/proc/7/cmdline": "/usr/sbin/slurmd\0-D\0",
    "/proc/7/environ": "PATH=/bin\0LANG=C\0",
    "/proc/7/cgroup": "0::/system.slice/slurmd.service\n",
}


def seen(root: str, kind: str) -> dict[str, str]:
    return dict(looks(Ask({}, root))[kind]())


def daemon(root: str) -> str:
    told = seen(root, "daemon")
    assert told.keys() == {"slurmd.service"}
    return told["slurmd.service"]


def test_nothing_is_told_where_systemd_does_not_run(grow: Grow) -> None:
    assert looks(Ask({}, grow({"/etc/hosts": ""}))) == {}


def test_a_daemon_that_is_to_run_is_told_and_one_that_passes_is_not(grow: Grow) -> None:
    usual = daemon(grow(HOST))
    assert usual.startswith("runs /usr/sbin/slurmd, arguments ")
    assert usual.endswith(", nice 0, oom 0")


@pytest.mark.parametrize(
    ("files", "word"),
    [
        ({f"{GROUP}/memory.max": "4096\n"}, "memory.max 4096"),
        ({f"{GROUP}/cgroup.freeze": "1\n"}, "cgroup.freeze 1"),
        ({"/proc/7/status": STATUS.format(uid=0, cpus="0")}, "on processors 0"),
        (
            {"/proc/7/status": STATUS.format(uid=0, cpus="0-7").replace("S (s", "T (s")},
            "stopped",
        ),
        ({"/proc/7/status": ""}, "hidden"),
        ({"/proc/7/environ": "A=1\0LD_PRELOAD=/tmp/secret.so\0"}, "with LD_PRELOAD"),
        ({"/proc/7/exe": {"link": "/usr/sbin/slurmd (deleted)"}}, "which was replaced or removed"),
        ({"/proc/7/oom_score_adj": "-1000\n"}, "oom -1000"),
    ],
)
def test_what_a_daemon_was_given_since_it_started_is_told(
    grow: Grow, files: dict[str, Any], word: str
) -> None:
    told = daemon(grow({**HOST, **files}))
    assert word in told
    assert "secret" not in told


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cmdline", "/usr/sbin/slurmd\0-D\0-v\0"),
        ("limits", LIMITS.replace("524288", "99")),
    ],
)
def test_other_arguments_or_limits_are_told(grow: Grow, name: str, text: str) -> None:
    root = grow(HOST)
    before = daemon(root)
    Path(root, "proc/7", name).write_text(text)
    assert daemon(root) != before


def test_sshd_is_the_same_however_many_sessions_it_counts(grow: Grow) -> None:
    root = grow(HOST)
    told = set()
    for n in (0, 3):
        title = f"sshd: /usr/sbin/sshd -D [listener] {n} of 128-512 startups\0"
        Path(root, "proc/7/cmdline").write_text(title)
        told.add(daemon(root))
    assert len(told) == 1


def test_units_that_no_file_knows_are_told_and_scopes_are_not(grow: Grow) -> None:
    made = {
        f"/run/systemd/transient/{name}": "[Service]\nExecStart=x\n"
        for name in ("a.service", "s.scope")
    }
    assert seen(grow({**HOST, **made}), "transient unit").keys() == {"a.service"}


def process(pid: int, exe: str, uid: int = 0, group: str = "/user.slice") -> dict[str, Any]:
    at = f"/proc/{pid}"
    return {
        f"{at}/exe": {"link": exe},
        f"{at}/status": STATUS.format(uid=uid, cpus="0"),
        f"{at}/cgroup": f"0::{group}\n",
    }


def test_programs_of_root_that_lie_nowhere_are_told(grow: Grow) -> None:
    processes = {
        **process(20, "/tmp/evil"),
        **process(21, "/memfd:x (deleted)"),
        **process(22, "/home/ada/a.out", uid=1000),
        **process(23, "/coredns", group="/kubepods.slice/x"),
        **process(24, "/usr/sbin/sshd (deleted)"),
    }
    assert seen(grow({**HOST, **processes}), "root process") == {
        "/tmp/evil": "still there",
        "/memfd:x": "removed since it started",
    }


def program(said: str) -> dict[str, str]:
    return {"text": f"#!/bin/sh\ncat <<'E'\n{said}\nE\n", "mode": "0755"}


@pytest.mark.parametrize(
    ("tool", "kind", "said", "told"),
    [
        (
            "systemctl",
            "service variable",
            "LANG=C\nEVIL=secret",
            {"LANG", "EVIL"},
        ),
        (
            "ip",
            "route",
            "default via 10.0.0.1 dev eth0 proto static\n10.0.0.0/24 dev eth0 proto kernel scope link\n"
            "blackhole 203.0.113.0/24\n10.1.0.0/26 dev cali12 scope link",
            {"default via 10.0.0.1 dev eth0 proto static", "blackhole 203.0.113.0/24"},
        ),
        (
            "ip",
            "routing rule",
            "0:\tfrom all lookup local\n100:\tfrom 10.0.0.9 lookup main",
            {"100: from 10.0.0.9 lookup main"},
        ),
        (
            "ip",
            "address",
            "2: eth0    inet 10.0.0.9/24 brd 10.0.0.255 scope global eth0\n"
            "2: eth0    inet 10.0.0.100/32 scope global eth0\n"
            "2: eth0    inet6 fe80::1/64 scope link\n3: cali1    inet 10.9.0.1/24 scope global cali1\n"
            "4: eth1    inet 10.0.1.9/24 brd 10.0.1.255 scope global dynamic eth1",
            {"10.0.0.9/24"},
        ),
        (
            "tc",
            "traffic control",
            "qdisc noqueue 0: dev lo root refcnt 2\nqdisc netem 8001: dev eth0 root refcnt 2 limit 1000 delay 3ms",
            {"netem on eth0"},
        ),
    ],
)
def test_what_the_network_and_all_services_were_told(
    grow: Grow, tool: str, kind: str, said: str, told: set[str]
) -> None:
    found = seen(grow({**HOST, f"/usr/sbin/{tool}": program(said)}), kind)
    assert found.keys() == told
    assert "secret" not in str(found)


def test_a_process_that_ends_meanwhile_is_none(grow: Grow) -> None:
    root = grow({**HOST, **process(20, "/tmp/evil")})
    Path(root, "proc/20/status").unlink()
    assert seen(root, "root process") == {}


@pytest.mark.parametrize(("uid", "started"), [(2001, 0), (0, 9)])
def test_what_runs_in_the_group_of_a_daemon_is_not_taken_for_it(
    grow: Grow, uid: int, started: int
) -> None:
    """cron runs crontabs in its own group, also those that are older than itself; and numbers of processes begin anew."""
    other = {
        f"{GROUP}/cgroup.procs": "3\n70\n7\n",
        "/proc/3/status": STATUS.format(uid=uid, cpus="0"),
        "/proc/3/exe": {"link": "/home/mallory/x"},
        "/proc/3/stat": f"3 (x) S {'0 ' * 18}{started} 0",
        "/proc/70/status": STATUS.format(uid=0, cpus="0-7"),
        "/proc/70/stat": f"70 (x) S {'0 ' * 18}5 0",
        "/proc/7/stat": f"7 (slurmd) S {'0 ' * 18}4 0 0 0 0 0 0 0 0 0",
    }
    root = grow({**HOST, **other})
    told = daemon(root)
    Path(root + GROUP, "cgroup.procs").write_text("7\n")
    assert told == daemon(root)


def test_a_process_of_a_daemon_that_ends_meanwhile_hides_nothing(grow: Grow) -> None:
    """sshd's group has a process for each login that is about to end."""
    started = f"7 (slurmd) S {'0 ' * 18}4 0 0 0 0 0 0 0 0 0"
    root = grow({**HOST, f"{GROUP}/cgroup.procs": "3\n7\n", "/proc/7/stat": started})
    told = daemon(root)
    Path(root + GROUP, "cgroup.procs").write_text("7\n")
    assert told == daemon(root)
