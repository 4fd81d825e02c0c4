"""What the probe tells of folders, devices, homes and logins that users need."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.probe.accounts import Accounts
from appliance.probe.ask import Ask
from appliance.probe.collectors import access

Grow = Callable[[dict[str, Any]], str]
PASSWD = "root:x:0:0::/root:/bin/sh\nbea:x:2001:2001::/home/bea:/bin/bash\nada:x:2002:2002::/home/ada:/bin/bash\n"


@pytest.fixture
def root(grow: Grow) -> str:
    made = grow({"/etc/passwd": PASSWD, "/etc/group": "", "/dev/nvidia0": "", "/dev/other": ""})
    Path(made).chmod(0o755)
    for at, mode in (("/tmp", 0o1777), ("/var/tmp", 0o755), ("/dev/shm", 0o1777)):
        folder = Path(made + at)
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(mode)
    return made


def spots(root: str) -> dict[str, dict[str, Any]]:
    return {spot["at"]: spot for spot in access.collect(Ask({}, root))["access"]["spots"]}


def test_folders_with_their_modes_and_files_in_place_of_devices(root: str) -> None:
    found = spots(root)
    assert (found["/tmp"]["kind"], found["/tmp"]["mode"]) == ("folder", 0o1777)
    assert found["/var/tmp"]["mode"] == 0o755
    assert found["/dev/nvidia0"]["kind"] == "other"
    assert "/dev/other" not in found


def test_a_folder_that_is_not_there_is_told(root: str) -> None:
    Path(root + "/dev/shm").rmdir()
    assert spots(root)["/dev/shm"]["kind"] == "missing"


def test_a_folder_on_the_way_that_is_closed_is_named(root: str) -> None:
    Path(root + "/var").chmod(0o700)
    assert spots(root)["/var/tmp"]["closed_by"] == "/var"
    Path(root + "/var").chmod(0o755)


def test_what_fills_a_folder_is_its_largest_entry_and_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 65536)
    (tmp_path / "small").write_bytes(b"x")
    (tmp_path / "link").symlink_to("/etc/passwd")
    accounts: Any = type("Accounts", (), {"owner": staticmethod(str)})
    said = access._largest(str(tmp_path), "/dev/shm", accounts)
    assert said.endswith(" /dev/shm/big")


def test_closed_logins_and_the_drivers_mode(root: str, grow: Grow) -> None:
    grow(
        {
            "/etc/nologin": "maintenance\n",
            "/proc/driver/nvidia/params": "ResmanDebugLevel: 1\nDeviceFileMode: 432\n",
        }
    )
    found = access.collect(Ask({}, root))["access"]
    assert found["nologin"] == ["/etc/nologin"]
    assert found["device_mode"] == 0o660


SHADOW = """\
root:*:19000:0:99999:7:::
bea:!:19000:0:99999:7::1:
ada:*:0:0:99999:7:::
old:*:10000:0:90:7:::
fit:*:19000:0:99999:7::99999:
"""


def test_accounts_that_pam_refuses_are_told_with_the_reason(root: str, grow: Grow) -> None:
    more = "".join(f"{name}:x:300{n}:300{n}::/:/bin/sh\n" for n, name in enumerate(("old", "fit")))
    grow({"/etc/passwd": PASSWD + more, "/etc/shadow": SHADOW})
    people = ["bea", "ada", "old", "fit", "gone"]
    said = access.collect(Ask({"people": people}, root))["access"]["closed_accounts"]
    assert {one["user"]: one["trouble"] for one in said} == {
        "bea": "has expired",
        "ada": "must change its password first",
        "old": "must change its password first",
    }


def test_without_a_file_of_passwords_no_account_is_called_closed(root: str) -> None:
    assert not access.collect(Ask({"people": ["bea"]}, root))["access"]["closed_accounts"]


def test_accounts_that_are_looked_up_elsewhere_are_told(root: str, grow: Grow) -> None:
    grow({"/etc/nsswitch.conf": "passwd: files sss\ngroup:  ldap # x\n#shadow: nis\nhosts: dns\n"})
    said = access.collect(Ask({}, root))["access"]["lookups"]
    assert said == [{"name": "group", "says": "ldap"}]


def test_limits_that_jobs_inherit_are_read_of_slurmd(root: str, grow: Grow) -> None:
    limits = (
        "Max open files            64                   64                   files\n"
        "Max locked memory         unlimited            unlimited            bytes\n"
    )
    grow(
        {
            "/sys/fs/cgroup/system.slice/slurmd.service/cgroup.procs": "42\n43\n",
            "/proc/42/limits": limits,
        }
    )
    assert access.collect(Ask({}, root))["access"]["job_limits"] == {"open files": 64}


def test_lines_that_end_or_limit_every_login_are_told(root: str, grow: Grow) -> None:
    grow(
        {
            "/etc/profile.d/a.sh": "exit\n",
            "/etc/profile.d/b.sh": "ulimit -v 100000\n",
            "/etc/profile.d/sound.sh": "if [ -z x ]; then\n  exit\nfi\nulimit -c 0\nulimit -n unlimited\n",
        }
    )
    said = access.collect(Ask({}, root))["access"]["variables"]
    assert said == [
        {"at": "/etc/profile.d/a.sh", "name": "exit"},
        {"at": "/etc/profile.d/b.sh", "name": "ulimit -v"},
    ]


def test_an_empty_list_of_authorities_is_told(root: str, grow: Grow) -> None:
    at = "/etc/ssl/certs/ca-certificates.crt"
    grow({at: ""})
    assert spots(root)[at]["kind"] == "bundle"
    grow({at: "-----BEGIN CERTIFICATE-----\n"})
    assert at not in spots(root)


def test_a_key_of_munge_that_was_written_after_its_start_is_told(root: str, grow: Grow) -> None:
    grow({"/etc/munge/munge.key": "x", "/run/munge/munged.pid": "7\n"})
    for age, newer in ((60, True), (-60, False)):
        started = Path(root + "/etc/munge/munge.key").stat().st_mtime - age
        os.utime(root + "/run/munge/munged.pid", (started, started))
        assert access.collect(Ask({}, root))["access"]["munge_key_is_newer"] is newer


def test_sudo_that_is_not_setuid_is_told(root: str, grow: Grow) -> None:
    grow({"/usr/bin/sudo": "x"})
    Path(root + "/usr/bin/sudo").chmod(0o755)
    assert spots(root)["/usr/bin/sudo"]["kind"] == "setuid"
    Path(root + "/usr/bin/sudo").chmod(0o4755)
    assert ("/usr/bin/sudo" in spots(root)) is bool(os.geteuid())


def test_of_proxies_those_that_take_no_connection_are_told(root: str, grow: Grow) -> None:
    with socket.create_server(("127.0.0.1", 0)) as alive, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        sound, dead = (one.getsockname()[1] for one in (alive, free))
        grow(
            {
                "/etc/environment": f"http_proxy=http://127.0.0.1:{sound}\n",
                "/etc/profile.d/x.sh": f'export HTTPS_PROXY="http://bea:secret@127.0.0.1:{dead}/"\n',
            }
        )
        said = access.collect(Ask({}, root))["access"]["proxies"]
    server = f"127.0.0.1:{dead}"
    assert said == [{"at": "/etc/profile.d/x.sh", "name": "HTTPS_PROXY", "server": server}]


def test_homes_that_are_missing_or_somebody_elses(root: str) -> None:
    Path(root + "/home/bea").mkdir(parents=True)
    said = access.collect(Ask({"people": ["bea", "ada", "gone"]}, root))["access"]["homes"]
    assert [(home["user"], home["trouble"].split()[0]) for home in said] == [
        ("bea", "belongs"),
        ("ada", "is"),
    ]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 0", ""),
        (
            "echo 'munge: Error: Failed to access \"/run/munge/munge.socket.2\"' >&2; exit 1",
            'Error: Failed to access "/run/munge/munge.socket.2"',
        ),
    ],
)
def test_munge_is_tried_as_nobody(
    script: str, said: str, root: str, grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    tool = {"text": f"#!/bin/sh\n{script}\n", "mode": "0755"}
    grow({"/usr/bin/munge": tool, "/usr/bin/setpriv": tool})
    assert access.collect(Ask({}, root))["access"]["munge"] == said


def test_without_munge_it_is_not_tried(root: str) -> None:
    assert access.collect(Ask({}, root))["access"]["munge"] is None


def test_what_every_user_reads_and_runs_is_told_only_where_it_is_closed(
    root: str, grow: Grow
) -> None:
    grow({"/usr/bin/srun": "x", "/usr/bin/sbatch": "", "/usr/bin/munge": "x"})
    for at, mode in (("/etc/passwd", 0o600), ("/etc/group", 0o644), ("/usr/bin/srun", 0o700)):
        Path(root + at).chmod(mode)
    for at in ("/usr/bin/sbatch", "/usr/bin/munge"):
        Path(root + at).chmod(0o755)
    found = {at: spot["kind"] for at, spot in spots(root).items()}
    assert found["/etc/passwd"] == "common"
    assert found["/usr/bin/srun"] == "program"
    assert found["/usr/bin/sbatch"] == "empty"
    assert not {"/etc/group", "/usr/bin/munge"} & set(found)


def test_logins_under_way_stand_in_the_title_of_sshd(root: str, grow: Grow) -> None:
    title = "sshd: /usr/sbin/sshd -D [listener] 12 of 128-512 startups"
    grow({"/run/sshd.pid": "565\n", "/proc/565/cmdline": title})
    assert access.collect(Ask({}, root))["access"]["startups"] == [12, 128, 512]


def test_a_crowd_is_told_and_those_of_jobs_are_not(root: str, grow: Grow) -> None:
    groups = "/sys/fs/cgroup/system.slice"
    grow(
        {
            f"{groups}/ssh.service/cgroup.procs": "1\n" * 1600,
            f"{groups}/slurmstepd.scope/cgroup.procs": "1\n" * 1600,
            f"{groups}/cron.service/pids.current": "60\n",
            f"{groups}/cron.service/pids.max": "64\n",
            f"{groups}/dbus.service/pids.current": "6\n",
            f"{groups}/dbus.service/pids.max": "max\n",
            "/proc/1/comm": "sleep\n",
        }
    )
    found = access.collect(Ask({}, root))["access"]["crowds"]
    assert {(one["group"].rpartition("/")[2], one["tasks"], one["most"]) for one in found} == {
        ("ssh.service", 1600, None),
        ("cron.service", 60, 64),
    }


def test_variables_that_decide_what_programs_see_are_told(root: str, grow: Grow) -> None:
    grow(
        {
            "/etc/profile.d/00.sh": "export CUDA_VISIBLE_DEVICES=\nexport EDITOR=vi\n",
            "/etc/profile.d/01.csh": "setenv LD_PRELOAD x\n",
            "/etc/environment": "# LD_PRELOAD=no\nLD_PRELOAD=/opt/x.so\n",
        }
    )
    assert access.collect(Ask({}, root))["access"]["variables"] == [
        {"at": "/etc/environment", "name": "LD_PRELOAD"},
        {"at": "/etc/profile.d/00.sh", "name": "CUDA_VISIBLE_DEVICES"},
    ]


def keys_of_ada(root: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = access.collect(Ask({"admins": ["ada", "gone"]}, root))["access"][
        "loose_keys"
    ]
    return found


@pytest.fixture
def ada(root: str, grow: Grow) -> str:
    group = "ada:x:2002:\nvision:x:3001:ada,bea\n"
    passwd = PASSWD.replace("2002:2002", f"{os.getuid()}:2002").replace(
        "root:x:0:0", "root:x:9999:9999"
    )
    grow(
        {
            "/home/ada/.ssh/authorized_keys": "ssh-ed25519 A\n",
            "/etc/group": group,
            "/etc/passwd": passwd,
        }
    )
    for at in ("/home", "/home/ada", "/home/ada/.ssh"):
        Path(root + at).chmod(0o755)
    Path(root + "/home/ada/.ssh/authorized_keys").chmod(0o600)
    return root


@pytest.mark.parametrize("at", ["/home/ada", "/home/ada/.ssh", "/home/ada/.ssh/authorized_keys"])
@pytest.mark.parametrize("mode", [0o777, 0o702])
def test_what_others_can_write_is_refused_by_sshd(ada: str, at: str, mode: int) -> None:
    assert keys_of_ada(ada) == []
    Path(ada + at).chmod(mode)
    assert keys_of_ada(ada) == [{"user": "ada", "at": at, "trouble": f"has mode {mode:04o}"}]


def test_a_group_may_write_on_debian_where_it_has_no_other_member(
    ada: str, grow: Grow, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(ada + "/home/ada").chmod(0o770)
    accounts = Accounts(Ask({}, ada))
    assert not access._is_private(Ask({}, ada), accounts, "ada", 2002)
    grow({"/etc/debian_version": "12\n"})
    assert access._is_private(Ask({}, ada), accounts, "ada", 2002)
    assert not access._is_private(Ask({}, ada), accounts, "ada", 3001)
    assert not access._is_private(Ask({}, ada), accounts, "ada", 4711)
    for is_private, found in ((True, 0), (False, 1)):
        monkeypatch.setattr(access, "_is_private", lambda *_, it=is_private: it)
        assert len(keys_of_ada(ada)) == found


PAM_FILES = {
    "/etc/pam.d/sshd": "\n# x\n@include common-auth\naccount  required  pam_nologin.so  x=y # z\nauth substack other\n",
    "/etc/pam.d/common-auth": "auth\t[success=1 default=ignore]\tpam_unix.so nullok secret=x\npassword required pam_deny.so\n",
    "/etc/pam.d/other": "-auth optional pam_gone.so\nauth optional pam_lost.so\n@include sshd\n",
    "/etc/pam.d/cups": "auth required pam_deny.so\n",
    "/usr/lib/x86_64-linux-gnu/security/pam_unix.so": "",
    "/usr/lib/x86_64-linux-gnu/security/pam_nologin.so": "",
}


def test_the_lines_of_pam_with_their_numbers_and_without_arguments(root: str, grow: Grow) -> None:
    grow(PAM_FILES)
    said = access.collect(Ask({}, root))["access"]["pam"]
    told = [(row["at"], row["type"], row["control"], row["module"]) for row in said]
    assert ("sshd:4", "account", "required", "pam_nologin.so") in told
    assert ("sshd:3", "session", "include", "common-auth") in told
    assert ("common-auth:1", "auth", "[success=1 default=ignore]", "pam_unix.so") in told
    assert [row["module"] for row in said if row.get("missing")] == ["pam_lost.so"]
    assert "pam_gone.so" not in str(said)
    assert "pam_deny.so" not in str(said)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({}, "no line below /etc/pam.d/ can be read"),
        ({"/etc/pam.d/sshd": "auth required pam_unix.so\n" * 201}, "201 lines decide"),
        (
            {"/etc/pam.d/sshd/x": "", "/etc/pam.d/su": "auth required pam_unix.so\n"},
            "Is a directory",
        ),
    ],
)
def test_lines_of_pam_that_are_not_all_known_are_not_judged(
    root: str, grow: Grow, change: dict[str, str], why: str
) -> None:
    grow(change)
    said = access.collect(Ask({}, root))["access"]
    assert why in said["pam_unread"]
    assert "pam" not in said
