"""What a host is besides its stages, from a grown tree: accounts without their secrets, keys, files with rights, sockets."""

import base64
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.probe import files, sockets
from appliance.probe.ask import Ask
from appliance.probe.every_file import VERIFIED, is_update
from appliance.probe.posture import collect
from appliance.probe.sockets import listening

Grow = Callable[[dict[str, Any]], str]
BLOB = base64.b64encode(b"\0\0\0\x0bssh-ed25519" + b"k" * 36).decode()
KEY = "SHA256:" + base64.b64encode(hashlib.sha256(base64.b64decode(BLOB)).digest()).decode()[:-1]
SECRET = "$6$salt$hash"
DPKG = """Package: bash
Essential: yes
Status: hold ok installed
Version: 5.2

Package: nano
Status: install ok installed
Priority: important
Architecture: amd64
Version: 7.2-1
Description: small editor
 with a text of its own

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1.0
"""
HOST: dict[str, Any] = {
    "/etc/passwd": "root:x:0:0::/root:/bin/bash\nada:x:1000:1000::/home/ada:/bin/zsh\n",
    "/etc/group": "root:x:0:\nsudo:x:27:ada,far\n",
    "/etc/shadow": f"root:*:1::::::\nada:{SECRET}:1::::::\n",
    "/home/ada/.ssh/authorized_keys": f"ssh-ed25519 {BLOB} laptop\n",
    "/etc/sudoers.d/x": {"text": "ada ALL=(ALL) ALL\n", "mode": "0440"},
    "/var/lib/dpkg/status": DPKG,
    "/etc/systemd/system/evil.service": "[Service]\n",
    "/etc/systemd/system/multi-user.target.wants/evil.service": {"link": "../evil.service"},
    "/proc/modules": "nvidia 5 0 - Live 0x0 (POE)\next4 5 0 - Live 0x0\n",
    "/proc/self/mountinfo": "22 1 0:20 / / rw - ext4 /dev/sda1 rw\n",
    "/etc/resolv.conf": "nameserver 203.0.113.53\n",
    "/proc/sys/net/ipv4/ip_forward": "0\n",
    "/usr/bin/su": {"text": "x", "mode": "4755"},
    "/usr/bin/true": {"text": "x", "mode": "0755"},
}


def things(root: str, receipts: dict[str, Any] | None = None, *, deep: bool = False) -> Any:
    ask = Ask({"deep": deep}, root)
    return {**collect(ask, receipts or {})["posture"], "errors": ask.errors}


def test_each_kind_is_told_by_name_and_no_secret_is(grow: Grow) -> None:
    seen = things(grow(HOST))
    found = seen["things"]
    assert found["account"]["ada"] == (
        "uid 1000, gid 1000, shell /bin/zsh, home /home/ada, groups sudo, password set"
        f" ({hashlib.sha256(SECRET.encode()).hexdigest()[:6]})"
    )
    assert found["account"]["group sudo"] == "members far"
    assert found["key"] == {f"{KEY} of ada": "ssh-ed25519 laptop"}
    assert found["package"] == {"nano": "7.2-1", "bash": "5.2, held"}
    assert found["unit"] == {"evil.service": "wanted by multi-user.target"}
    assert found["unit file"].keys() == {"/etc/systemd/system/evil.service"}
    assert found["module"] == {"nvidia": "flags POE"}
    assert "mode 0440" in found["sudoers file"]["/etc/sudoers.d/x"]
    assert found["name server"] == {"203.0.113.53": "nameserver of /etc/resolv.conf"}
    assert found["kernel parameter"] == {"net.ipv4.ip_forward": "0"}
    assert "setuid file" not in found
    assert SECRET not in str(seen)
    assert seen["errors"] == {}


def test_files_that_give_rights_are_looked_for_where_that_is_asked(grow: Grow) -> None:
    found = things(grow(HOST), deep=True)["things"]
    assert found["setuid file"].keys() == {"/usr/bin/su"}
    assert "mode 4755" in found["setuid file"]["/usr/bin/su"]


def test_files_of_containers_images_give_no_rights_on_the_host(grow: Grow) -> None:
    layer = {"text": "x", "mode": "4755"}
    images = {
        f"/var/lib/{at}/1/fs/usr/bin/su": layer for at in ("containerd/x", "docker", "enroot")
    }
    near = {"/var/lib/containerd-old/su": layer}
    found = things(grow({**HOST, **images, **near}), deep=True)["things"]
    assert found["setuid file"].keys() == {"/usr/bin/su", "/var/lib/containerd-old/su"}


def test_a_container_has_no_modules_of_its_own(grow: Grow) -> None:
    root = grow({**HOST, "/run/systemd/container": "systemd-nspawn"})
    assert things(root)["things"]["module"] == {}


def test_what_stages_left_is_named(grow: Grow) -> None:
    left = [{"kind": k, "name": "x"} for k in ("file", "user", "group", "package", "unit", "mount")]
    owned = things(grow(HOST), {"base": {"resources": left}})["owned"]
    assert owned == [
        *("/etc/systemd/system/x", "account group x", "account x", "mount x", "package x"),
        *("unit x", "x"),
    ]


def test_a_kind_that_cannot_be_read_is_said_and_costs_no_other(grow: Grow) -> None:
    root = grow({k: v for k, v in HOST.items() if k != "/etc/shadow"})
    seen = things(root)
    assert "account" not in seen["things"]
    assert "package" in seen["things"]
    assert "account: " in seen["errors"]["posture"]


ROW = "{n}: {local} {remote} {state} 0:0 00:0 0 {uid} 0 {inode} 1\n"
NOBODY = "00000000:0000"
ROWS = (
    ("tcp", "00000000:0016", NOBODY, "0A", 0, 11),
    ("tcp", "0100007F:0CEA", NOBODY, "0A", 0, 12),
    ("tcp", "00000000:C350", NOBODY, "0A", 0, 13),
    ("tcp", "00000000:1F90", NOBODY, "0A", 1000, 14),
    ("tcp", "0A00000A:0016", "0A000001:C000", "01", 0, 15),
    ("udp", "00000000:007B", NOBODY, "07", 0, 16),
    ("udp", "00000000:C351", NOBODY, "07", 0, 17),
    ("tcp", "00000000:02BC", NOBODY, "0A", 0, 18),
)
PROGRAMS = {11: "sshd", 12: "mariadbd", 13: "ganesha.nfsd", 16: "chronyd", 18: "rpc.statd"}


@pytest.fixture
def network(grow: Grow, tmp_path: Path) -> str:
    tables = {"tcp": "heads\n", "udp": "heads\n"}
    for n, (table, local, remote, state, uid, inode) in enumerate(ROWS):
        tables[table] += ROW.format(
            n=n, local=local, remote=remote, state=state, uid=uid, inode=inode
        )
    root = grow({f"/proc/net/{name}": text for name, text in tables.items()})
    for pid, (inode, program) in enumerate(PROGRAMS.items(), 100):
        folder = tmp_path / f"proc/{pid}/fd"
        folder.mkdir(parents=True)
        (folder / "3").symlink_to(f"socket:[{inode}]")
        (folder.parent / "comm").write_text(program + "\n")
    return root


def test_who_listens_is_told_by_port_and_program_and_people_s_work_is_not(network: str) -> None:
    assert dict(listening(Ask({}, network))) == {
        "tcp 22": "sshd",
        "tcp 3306 local": "mariadbd",
        "tcp of ganesha.nfsd, on any port": "ganesha.nfsd",
        "tcp of rpc.statd, on any port": "rpc.statd",
        "udp 123": "chronyd",
    }


def test_a_descriptor_closed_meanwhile_hides_no_other_of_its_program(
    network: str, tmp_path: Path
) -> None:
    for pid, before in ((100, "0"), (101, "9")):
        (tmp_path / f"proc/{pid}/fd" / before).write_text(
            "no link: readlink(2) fails as for one gone"
        )
    found = dict(listening(Ask({}, network)))
    assert (found["tcp 22"], found["tcp 3306 local"]) == ("sshd", "mariadbd")


MOUNTED = """22 1 0:20 / / rw - ext4 /dev/sda1 rw
23 22 0:21 / /opt/data rw,noexec - tmpfs evil rw
24 22 0:22 / /run/user/0 rw - tmpfs tmpfs rw
25 22 0:23 / /mnt/a rw - fuse.sshfs x rw
26 22 0:24 / /proc/x rw - autofs x rw
"""


def test_file_systems_of_the_host_are_told_and_those_that_come_and_go_are_not(grow: Grow) -> None:
    found = things(grow({**HOST, "/proc/self/mountinfo": MOUNTED}))["things"]["mount"]
    assert found == {"/": "ext4 of /dev/sda1", "/opt/data": "tmpfs of evil, noexec"}


CHAINS = """table inet appliance {
\tchain input {
\t\ttype filter hook input priority filter; policy drop;
\t}
}
table ip theirs {
\tchain c {
\t}
}
"""


def test_tables_of_the_firewall_are_told_by_where_they_look_in(grow: Grow) -> None:
    nft = {"text": f"#!/bin/sh\ncat <<'E'\n{CHAINS}E\n", "mode": "0755"}
    found = things(grow({**HOST, "/usr/sbin/nft": nft}))["things"]["firewall table"]
    assert found == {"inet appliance": "at input", "ip theirs": "at no hook"}


def slurm(**said: str) -> dict[str, Any]:
    """Programs that answer by their words: "assoc" as key for "sacctmgr show assoc"."""
    cases = "".join(f"*{word}*) cat <<'E'\n{text}\nE\n;;\n" for word, text in said.items())
    program = {"text": f'#!/bin/sh\ncase "$*" in\n{cases}esac\n', "mode": "0755"}
    names = ("slurmctld", "scontrol", "sacctmgr", "strigger")
    return {**HOST, **{f"/usr/sbin/{name}": program for name in names}}


def test_what_slurm_holds_besides_its_files(grow: Grow) -> None:
    found = things(
        grow(
            slurm(
                assoc="root||||||||||\nroot|ada|||||||||\nroot|eve||gres/gpu=1|||||||",
                qos="normal|0||||||",
                partition="PartitionName=gpu MaxTime=00:05:00 Nodes=gpu-1 State=UP",
                reservation="ReservationName=evil Nodes=gpu-1 Users=root Accounts=(null)",
                user="games|Operator\nada|None",
                get="1 node gpu-1 down 0 slurm /bin/false",
            )
        )
    )
    assert found["errors"] == {}
    told = {kind: t for kind, t in found["things"].items() if kind.startswith("Slurm ")}
    assert told == {
        "Slurm partition": {"gpu MaxTime": "00:05:00", "gpu State": "UP"},
        "Slurm reservation": {"evil": "nodes gpu-1, users root"},
        "Slurm operator": {"games": "Operator"},
        "Slurm account": {"root": "no limit", "root eve": "grptres gres/gpu=1"},
        "Slurm QOS": {"normal": "priority 0"},
        "Slurm trigger": {"/bin/false": "at down of node gpu-1, of slurm"},
    }


def test_no_reservation_is_none(grow: Grow) -> None:
    found = things(grow(slurm(reservation="No reservations in the system")))
    assert found["things"]["Slurm reservation"] == {}


def test_a_controller_that_is_silent_is_a_gap(grow: Grow) -> None:
    broken = {"text": "#!/bin/sh\necho no >&2; exit 1\n", "mode": "0755"}
    found = things(grow({**slurm(), "/usr/sbin/scontrol": broken}))
    assert "Slurm partition" not in found["things"]
    assert "Slurm partition: scontrol failed with 1: no" in found["errors"]["posture"]


FILES: dict[str, Any] = {
    **HOST,
    "/var/lib/dpkg/info/nano.list": "/.\n/bin/nano\n/etc/nanorc\n/usr/bin/su\n/usr/bin/true\n",
    "/usr/bin/nano": {"text": "x", "mode": "0755"},
    "/etc/nanorc": "x",
    "/etc/profile.d/x.sh": "x",
    "/etc/shadow-": "x",
    "/etc/ld.so.cache": "x",
    "/root/.bashrc": "x",
    "/root/.bash_history": "x",
    "/usr/local/bin/srun": {"text": "x", "mode": "0755"},
    "/usr/local/lib/x.pth": "x",
    "/usr/local/share/words": "x",
}


def test_files_of_no_package_are_told_where_they_start_or_set_something(grow: Grow) -> None:
    found = things(grow(FILES), deep=True)["things"]
    assert found["program"].keys() == {"/usr/local/bin/srun", "/usr/local/lib/x.pth"}
    configured = found["configuration file"].keys()
    assert {"/etc/profile.d/x.sh", "/root/.bashrc"} <= configured
    silent = {"/etc/nanorc", "/etc/shadow-", "/etc/shadow", "/etc/ld.so.cache"}
    assert configured.isdisjoint({*silent, "/root/.bash_history", "/etc/sudoers.d/x"})
    assert found["program"]["/usr/local/bin/srun"].startswith("content ")


def test_who_may_become_whom_is_told_with_the_account_and_what_opens_a_group(grow: Grow) -> None:
    more = {
        "/etc/subuid": "ada:0:65536\nghost:1:2\n",
        "/etc/gshadow": f"sudo:{SECRET}:ada:\nadm:*::ada\n",
    }
    seen = things(grow({**HOST, **more}))
    found = seen["things"]["account"]
    assert "subordinate uid 0:65536" in found["ada"]
    assert found["subordinate ghost"] == "uid 1:2"
    assert found["group sudo"] == "members far, password set, given away by ada"
    assert "group adm" not in found
    assert SECRET not in str(seen)


def test_another_password_is_told(grow: Grow) -> None:
    root = grow(HOST)
    before = things(root)["things"]["account"]
    Path(root, "etc/shadow").write_text(f"root:*:1\nada:{SECRET}x:1\n")
    after = things(root)["things"]["account"]
    assert before["ada"] != after["ada"]
    assert before["root"] == after["root"]


ACTING = (
    *("/usr/lib/udev/rules.d/99-x.rules", "/usr/lib/systemd/system/dbus.service.d/x.conf"),
    *("/usr/local/share/ca-certificates/x.crt", "/root/.config/systemd/user/x.service"),
    *("/var/lib/systemd/linger/games", "/var/lib/dpkg/diversions"),
    "/etc/ssl/certs/ca-certificates.crt",
)


def test_files_that_decide_something_are_told_outside_etc_too(grow: Grow) -> None:
    silent = {"/usr/share/words": "x", "/root/.ssh/known_hosts": "x", "/etc/ssl/certs/x.pem": "x"}
    root = grow({**FILES, **dict.fromkeys(ACTING, "x"), **silent})
    found = things(root, deep=True)["things"]["configuration file"].keys()
    assert set(ACTING) <= found
    assert found.isdisjoint(silent)


def test_links_that_decide_which_program_starts_are_told(grow: Grow) -> None:
    links = ("/usr/local/bin/srun", "/etc/alternatives/awk", "/usr/share/x")
    tree = {k: v for k, v in FILES.items() if k != "/usr/local/bin/srun"}
    found = things(grow({**tree, **{at: {"link": "/tmp/evil"} for at in links}}), deep=True)
    assert found["things"]["program link"] == dict.fromkeys(links[:2], "to /tmp/evil")


def test_what_dpkg_judges_by_is_told_but_for_an_update(grow: Grow) -> None:
    root = grow(FILES)

    def record() -> str:
        return str(things(root, deep=True)["things"]["package record"]["nano"])

    usual = record()
    assert usual.startswith("7.2-1, content ")
    Path(root, "var/lib/dpkg/info/nano.list").write_text("/usr/bin/evil\n")
    planted = record()
    Path(root, "var/lib/dpkg/status").write_text(DPKG.replace("7.2-1", "7.2-2"))
    updated = record()
    assert usual != planted
    assert not is_update("package record", usual, planted)
    assert is_update("package record", usual, updated)
    assert not is_update("package file", usual, updated)


def test_a_place_of_a_person_that_another_may_write_is_told(grow: Grow) -> None:
    me = os.getuid()
    passwd = f"root:x:0:0::/root:/bin/bash\nada:x:{max(me, 1000)}:1000::/home/ada:/bin/zsh\n"
    tree = {
        "/etc/passwd": passwd,
        "/home/ada/.bashrc": {"text": "x", "mode": "0666"},
        "/home/ada/.profile": {"text": "x", "mode": "0644"},
        "/home/ada/data": {"text": "x", "mode": "0666"},
        "/home/eve/.bashrc": {"text": "x", "mode": "0666"},
    }
    modes = things(grow({**FILES, **tree}), deep=True)["things"]["file mode"]
    assert {name for name in modes if name.startswith("/home/")} == {"/home/ada/.bashrc"}


def test_what_everybody_may_write_is_told_and_what_a_file_of_etc_lets_in(grow: Grow) -> None:
    opened = {"text": "x", "mode": "0666"}
    found = things(
        grow({**FILES, "/usr/lib/x": opened, "/etc/y": {**opened, "mode": "0600"}}), deep=True
    )
    modes = found["things"]["file mode"]
    assert modes["/usr/lib/x"].startswith("0666, of ")
    assert modes["/etc/y"].startswith("0600, of ")
    assert "/usr/bin/nano" not in modes


def test_many_programs_of_one_folder_are_one_line_that_changes_with_any_of_them(grow: Grow) -> None:
    many = {f"/opt/kit/v1/bin/p{i}": {"text": "x", "mode": "0755"} for i in range(201)}
    root = grow({**FILES, **many})
    before = things(root, deep=True)["things"]["program"]
    assert before["/opt/kit/v1/*"].startswith("201 programs, ")
    assert not [name for name in before if name.startswith("/opt/kit/v1/bin")]
    Path(root, "opt/kit/v1/bin/p7").write_text("y")
    assert things(root, deep=True)["things"]["program"]["/opt/kit/v1/*"] != before["/opt/kit/v1/*"]


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("??5?????? c /etc/default/chrony", ("??5??????", "/etc/default/chrony")),
        ("missing   c /etc/logrotate.d/x", ("missing", "/etc/logrotate.d/x")),
        ("missing     /usr/lib/x.so", ("missing", "/usr/lib/x.so")),
        ("S.5....T.  c /etc/chrony.conf", ("S.5....T.", "/etc/chrony.conf")),
        ("..5......    /usr/bin/a b", ("..5......", "/usr/bin/a b")),
    ],
)
def test_what_dpkg_and_rpm_say_of_a_file(line: str, read: tuple[str, str]) -> None:
    assert VERIFIED.findall(line + "\n") == [read]


def test_who_opens_very_much_keeps_nobody_from_being_seen(
    network: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processes of people are read last, and of them no more than a part."""
    monkeypatch.setattr(sockets, "MOST", 2)
    for pid in (2, 3):
        folder = tmp_path / f"proc/{pid}/fd"
        folder.mkdir(parents=True)
        (folder.parent / "status").write_text("Name:\tx\nUid:\t2001\t0\t0\t0\n")
        (folder.parent / "comm").write_text("mallory\n")
        for fd in range(5):
            (folder / str(fd)).symlink_to("socket:[11]" if fd == 1 else "socket:[12]")
    read: list[str] = []
    plain = files.link

    def link(path: str) -> str | None:
        read.append(path)
        return plain(path)

    monkeypatch.setattr(files, "link", link)
    found = dict(listening(Ask({}, network)))
    assert found["tcp 22"] == "mallory sshd"
    assert len([path for path in read if "/proc/2/" in path or "/proc/3/" in path]) == 2
    assert read[-1].endswith("/proc/2/fd/1")
