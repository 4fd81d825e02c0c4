"""What is nobody's in places that stages own: planted strangers are told, what stages and packages bring is not."""

import base64
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.models.facts import HostFacts
from appliance.probe.__main__ import answer
from appliance.probe.keys import fingerprints
from appliance.stages.base.collect import MOST, ROOM

Grow = Callable[[dict[str, Any]], str]
BLOB = base64.b64encode(b"\0\0\0\x0bssh-ed25519" + b"k" * 36).decode()
KEY = "SHA256:" + base64.b64encode(hashlib.sha256(base64.b64decode(BLOB)).digest()).decode()[:-1]
OWNS = [
    *("/etc/sudoers.d/*", "/etc/cron.d/*", "/etc/ssh/sshd_config.d/*", "/etc/ld.so.preload"),
    *("/etc/apt/sources.list.d/*.list", "!/etc/sudoers.d/theirs", "=/etc/pam.d/*", "=/etc/crontab"),
    *("=/etc/ssh/sshd_config", "/nowhere/*"),
    *("/var/spool/cron/crontabs/*", "/var/spool/cron/atjobs/*", "/var/lib/systemd/linger/*"),
]


def md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


def receipt(stage: str, *resources: tuple[str, str]) -> str:
    words = dict.fromkeys(("fingerprint", "written", "run", "appliance"), "x")
    states = [{"kind": kind, "name": name} for kind, name in resources]
    return json.dumps({"version": 1, "stage": stage, **words, "resources": states})


PEOPLE = "root:x:0:0::/root:/bin/bash\nada:x:1000:1000::/home/ada:/bin/bash\n"
HOST = {
    "/etc/passwd": PEOPLE,
    "/etc/group": "root:x:0:\n",
    "/etc/shadow": "root:*:1::::::\nada:!:1::::::\n",
    "/etc/sudoers.d/appliance": "ops ALL=(ALL) ALL\n",
    "/etc/sudoers.d/README": "of sudo\n",
    "/etc/sudoers.d/theirs": "x\n",
    "/etc/sudoers.d/README.dpkg-old": "x\n",
    "/etc/cron.d/e2scrub": "of e2fsprogs\n",
    "/etc/ssh/sshd_config.d/10-lab.conf": "UseDNS no\n",
    "/etc/appliance/simulated.json": json.dumps(
        {"areas": [], "files": ["/etc/ssh/sshd_config.d/10-lab.conf"]}
    ),
    "/etc/ssh/sshd_config": "Include x\n",
    "/etc/pam.d/sshd": "auth required pam_unix.so\n",
    "/etc/pam.d/common-auth": "made by a program\n",
    "/etc/apt/sources.list": "deb http://mirror/ bookworm main\n# deb [trusted=yes] x\n",
    "/root/.ssh/authorized_keys": f"# ours\nssh-ed25519 {BLOB} the site\n",
    "/var/lib/dpkg/status": "Package: a\nConffiles:\n"
    f" /etc/sudoers.d/README {md5('of sudo' + chr(10))}\n"
    f" /etc/cron.d/e2scrub {md5('of e2fsprogs' + chr(10))}\n"
    f" /etc/pam.d/sshd {md5('auth required pam_unix.so' + chr(10))}\nVersion: 1\n",
    "/var/lib/ucf/hashfile": f"{md5('Include x' + chr(10))}  /etc/ssh/sshd_config\n",
    "/usr/bin/dpkg-query": {"when": {"/etc/cron.d/of-a-package": "p: x\n", "-S": ""}, "exit": 1},
    "/var/lib/appliance/receipts/base.json": receipt(
        "base",
        ("file", "/etc/sudoers.d/appliance"),
        ("unit", "ssh.service"),
        ("unit", "o@1.service"),
    ),
}


def foreign(root: str, **request: object) -> list[tuple[str, str]]:
    return [(f.kind, f.at) for f in facts(root, **request).foreign or ()]


def facts(root: str, **request: object) -> HostFacts:
    owned = {"base": OWNS, "slurm": ["/etc/slurm/*"]}
    asked = {"areas": ["foreign"], "owned": owned, "keys": {"/root": [KEY]}, **request}
    found = HostFacts.model_validate_json(json.dumps(answer(json.dumps(asked).encode(), root)))
    assert "foreign" not in found.errors
    return found


def test_a_host_as_stages_and_packages_left_it_has_none(grow: Grow) -> None:
    assert facts(grow(HOST)).foreign == ()


SERVICES = {
    "/etc/passwd": "munge:x:110:117::/nonexistent:/usr/sbin/nologin\n"
    "slurm:x:64030:64030::/nonexistent:/bin/false\n"
    "postgres:x:111:118::/var/lib/postgresql:/bin/bash\n"
    "operator:x:11:0::/root:/sbin/nologin\n",
    "/etc/group": "root:x:0:\nsudo:x:27:ada\nmunge:x:117:\n",
    "/etc/shadow": "munge:!:1::::::\nslurm:*:1::::::\npostgres:!*:1::::::\noperator:*:1::::::\n",
}
PLANTED: dict[str, tuple[dict[str, Any], tuple[str, str]]] = {
    "sudoers": (
        {"/etc/sudoers.d/zz": "m ALL=(ALL) NOPASSWD: ALL\n"},
        ("file", "/etc/sudoers.d/zz"),
    ),
    "sshd": (
        {"/etc/ssh/sshd_config.d/00-a.conf": "PermitRootLogin yes\n"},
        ("file", "/etc/ssh/sshd_config.d/00-a.conf"),
    ),
    "cron": ({"/etc/cron.d/x": "* * * * * root id\n"}, ("file", "/etc/cron.d/x")),
    "link": ({"/etc/cron.d/l": {"link": "/tmp/x"}}, ("link", "/etc/cron.d/l")),
    "folder": ({"/etc/cron.d/d/x": ""}, ("folder", "/etc/cron.d/d")),
    "preload": ({"/etc/ld.so.preload": "/tmp/x.so\n"}, ("file", "/etc/ld.so.preload")),
    "source": (
        {"/etc/apt/sources.list.d/x.list": "deb http://x/ x main\n"},
        ("file", "/etc/apt/sources.list.d/x.list"),
    ),
    "unsigned": (
        {"/etc/apt/sources.list": "deb [arch=amd64 trusted=yes] http://x/ x main\n"},
        ("line", "/etc/apt/sources.list"),
    ),
    "pam": (
        {"/etc/pam.d/sshd": "auth sufficient pam_permit.so\n"},
        ("changed", "/etc/pam.d/sshd"),
    ),
    "conffile": ({"/etc/cron.d/e2scrub": "other\n"}, ("changed", "/etc/cron.d/e2scrub")),
    "sshd_config": (
        {"/etc/ssh/sshd_config": "Include x\nMatch User bob\n"},
        ("changed", "/etc/ssh/sshd_config"),
    ),
    "drop-in": (
        {"/etc/systemd/system/ssh.service.d/zz.conf": "[Service]\nUser=x\n"},
        ("file", "/etc/systemd/system/ssh.service.d/zz.conf"),
    ),
    "drop-in of a template": (
        {"/run/systemd/system/o@.service.d/zz.conf": ""},
        ("file", "/run/systemd/system/o@.service.d/zz.conf"),
    ),
    "unit that hides another": (
        {"/etc/systemd/system/ssh.service": "[Service]\n"},
        ("file", "/etc/systemd/system/ssh.service"),
    ),
    "key": (
        {"/root/.ssh/authorized_keys": f"ssh-ed25519 {BLOB}\nssh-rsa AAAA{BLOB} m\n"},
        ("key", "/root/.ssh/authorized_keys"),
    ),
    "second file of keys": (
        {"/root/.ssh/authorized_keys2": f"ssh-ed25519 AAAA{BLOB} m\n"},
        ("key", "/root/.ssh/authorized_keys2"),
    ),
    "number of root": (
        {"/etc/passwd": "root:x:0:0::/root:/bin/bash\ntoor:x:0:0::/root:/bin/sh\n"},
        ("account", "toor"),
    ),
    "no password": ({"/etc/shadow": "root:*:1::::::\nada::1::::::\n"}, ("account", "ada")),
    "number of root, as libc reads it": (
        {"/etc/passwd": "root:x:0:0::/root:/bin/bash\ntoor:x:00:0::/root:/bin/sh\n"},
        ("account", "toor"),
    ),
    "a sign": (
        {"/etc/passwd": "root:x:0:0::/root:/bin/bash\ntoor:x:+0:0::/root:/bin/sh\n"},
        ("account", "toor"),
    ),
    "a blank": (
        {"/etc/passwd": "root:x:0:0::/root:/bin/bash\n toor:x: 0:0::/root:/bin/sh\n"},
        ("account", "toor"),
    ),
    "fewer fields": (
        {"/etc/passwd": "root:x:0:0::/root:/bin/bash\ntoor:x:0:0\n"},
        ("account", "toor"),
    ),
    "more fields": (
        {"/etc/passwd": "root:x:0:0::/root:/bin/bash\ntoor:x:0:0::/:/bin/sh:x\n"},
        ("account", "toor"),
    ),
    "no password in passwd itself": (
        {"/etc/passwd": "root:x:0:0::/root:/bin/bash\nada::1000:1000::/home/ada:/bin/sh\n"},
        ("account", "ada"),
    ),
    "no password and no shell": (
        {**SERVICES, "/etc/shadow": "munge::1::::::\n"},
        ("account", "munge"),
    ),
    "no password in the line that counts": (
        {"/etc/shadow": "root:*:1::::::\nada::1::::::\nada:!:1::::::\n"},
        ("account", "ada"),
    ),
    "a password of a service": (
        {**SERVICES, "/etc/shadow": "munge:$y$x:1::::::\n"},
        ("password", "munge"),
    ),
    "a shell of a service": (
        {**SERVICES, "/etc/passwd": SERVICES["/etc/passwd"].replace("nologin", "bash", 1)},
        ("shell", "munge"),
    ),
    "a service in sudo": ({**SERVICES, "/etc/group": "sudo:x:27:munge\n"}, ("group", "munge")),
    "in another group of that number": (
        {**SERVICES, "/etc/group": "sudo:x:27:\nmine:x:027: munge\n"},
        ("group", "munge"),
    ),
    "in a second line of the group": (
        {**SERVICES, "/etc/group": "disk:x:6:\ndisk:x:6:ada,munge\n"},
        ("group", "munge"),
    ),
    "Slurm's number is above those of people": (
        {**SERVICES, "/etc/group": "root:x:0:slurm\n"},
        ("group", "slurm"),
    ),
    "root's group as its own": (
        {**SERVICES, "/etc/passwd": SERVICES["/etc/passwd"].replace(":117:", ":0:")},
        ("primary group", "munge"),
    ),
    "crontab": (
        {"/var/spool/cron/crontabs/ada": "* * * * * ./x\n"},
        ("file", "/var/spool/cron/crontabs/ada"),
    ),
    "services without a login": (
        {"/var/lib/systemd/linger/ada": ""},
        ("file", "/var/lib/systemd/linger/ada"),
    ),
}


@pytest.mark.parametrize(("change", "told"), PLANTED.values(), ids=PLANTED)
def test_a_stranger_is_told(grow: Grow, change: dict[str, Any], told: tuple[str, str]) -> None:
    assert foreign(grow({**HOST, **change})) == [told]


def test_owner_time_and_first_telling_line_are_told(grow: Grow) -> None:
    text = "#!/bin/sh\n\n# a remark\n  id > /tmp/x  \nmore\n"
    root = grow({**HOST, "/etc/cron.d/x": text})
    os.utime(Path(root) / "etc/cron.d/x", (1.0, 1_700_000_000.0))
    (found,) = facts(root).foreign or ()
    assert (found.modified, found.line) == (1_700_000_000.0, "…")
    assert found.owner in {"root", str(os.geteuid())}


@pytest.mark.parametrize(
    ("rest", "lines"),
    [
        ("# a remark\n#another\n\n", 1),
        ("#1001 ALL=(ALL) NOPASSWD: ALL\n", 2),
        ("#include /tmp/x\n", 2),
        ("#includedir /tmp/x\n", 2),
        ("#" * ROOM + "\nmallory ALL=(ALL) ALL\n", 2),
    ],
    ids=["remarks", "a person by number", "another file", "a folder", "behind what is read"],
)
def test_lines_that_count_are_no_remarks_and_none_is_hidden(
    grow: Grow, rest: str, lines: int
) -> None:
    (found,) = facts(grow({**HOST, "/etc/sudoers.d/x": f"ops ALL=(ALL) ALL\n{rest}"})).foreign or ()
    assert (found.line, found.lines) == ("ops ALL=(ALL) ALL", lines)


def test_words_of_strangers_are_cut_and_cleaned(grow: Grow) -> None:
    root = grow({**HOST, "/etc/cron.d/x": "a\x1b[31m\u202e" + "b" * 500, "/etc/cron.d/\x1by": "z"})
    found = facts(root).foreign or ()
    assert len(found) == 2
    assert all("\x1b" not in f.line + f.at and len(f.line) <= 200 for f in found)


def test_what_a_package_brings_without_a_list_is_asked_for(grow: Grow) -> None:
    assert foreign(grow({**HOST, "/etc/cron.d/of-a-package": "x\n"})) == []


def test_a_stage_without_a_receipt_owns_nothing(grow: Grow) -> None:
    more = {"/etc/slurm/x.conf": "x\n"}
    assert foreign(grow({**HOST, **more})) == []
    finished = {"/var/lib/appliance/receipts/slurm.json": receipt("slurm")}
    assert foreign(grow({**HOST, **more, **finished})) == [("file", "/etc/slurm/x.conf")]


def test_where_no_stage_is_finished_nobody_looks(grow: Grow) -> None:
    host = {k: v for k, v in HOST.items() if "receipts" not in k}
    assert facts(grow(host)).foreign is None


def test_keys_nobody_can_judge_are_not_judged(grow: Grow) -> None:
    assert foreign(grow({**HOST, **PLANTED["key"][0]}), keys={}) == []


def test_of_very_many_the_first_are_told(grow: Grow) -> None:
    many = {f"/etc/cron.d/x{n:03}": "x\n" for n in range(MOST + 5)}
    told = foreign(grow({**HOST, **many}))
    assert (len(told), told[-1]) == (MOST + 1, ("more", "5 more"))


def test_shadow_that_is_hidden_is_said_and_nothing_is_called_good(grow: Grow) -> None:
    root = grow({k: v for k, v in HOST.items() if k != "/etc/shadow"})
    asked = json.dumps({"areas": ["foreign"], "owned": {"base": OWNS}}).encode()
    found = HostFacts.model_validate_json(json.dumps(answer(asked, root)))
    assert found.foreign is None
    assert "shadow" in found.errors["foreign"]


def test_keys_are_known_by_their_fingerprints() -> None:
    text = f'from="10.0.0.1",command="x" ssh-ed25519 {BLOB} a b\n\n# x\nnonsense AAAA!\n'
    digest = hashlib.sha256(b"x").hexdigest()[:12]
    assert list(fingerprints(text)) == [
        (KEY, f"ssh-ed25519 {KEY} a b, with from=10.0.0.1, command ({digest})", BLOB[-16:]),
        ("", "lines that are no key: 1", ""),
    ]


@pytest.mark.parametrize("number", ["", "+-3", "\u00b2", "9" * 5000, "0x0", "3 "])
def test_a_line_that_libc_takes_for_none_ends_no_look(grow: Grow, number: str) -> None:
    passwd = PEOPLE + f"toor:x:{number}:0::/root:/bin/sh\n"
    assert foreign(grow({**HOST, "/etc/passwd": passwd})) == []


def test_accounts_as_packages_make_them_have_nothing_too_much(grow: Grow) -> None:
    assert foreign(grow({**HOST, **SERVICES})) == []


def test_work_of_who_is_free_to_have_it_is_no_strangers(grow: Grow) -> None:
    """More of it than is told of strangers, too: a host of many users has no finding for that."""
    work = {
        **{f"/var/spool/cron/crontabs/u{n}": "* * * * * x\n" for n in range(MOST + 1)},
        "/var/spool/cron/crontabs/ada": "* * * * * x\n",
        "/var/lib/systemd/linger/u1": "",
        "/var/lib/systemd/linger/ada": "",
    }
    free = [f"@u{n}" for n in range(MOST + 1)]
    assert foreign(grow({**HOST, **work}), owned={"base": [*OWNS, *free]}) == [
        ("file", "/var/lib/systemd/linger/ada"),
        ("file", "/var/spool/cron/crontabs/ada"),
    ]


def test_a_job_of_at_is_judged_by_whose_it_is(grow: Grow) -> None:
    at = {"/var/spool/cron/atjobs/a0001": "#!/bin/sh\n"}
    me = f"me:x:{os.geteuid()}:1::/:/usr/sbin/nologin\n" if os.geteuid() else ""
    root = grow({**HOST, **at, "/etc/passwd": PEOPLE + me})
    name = "me" if me else "root"
    assert foreign(root, owned={"base": [*OWNS, f"@{name}"]}) == []
    assert foreign(root, owned={"base": [*OWNS, "@ada"]}) == [
        ("file", "/var/spool/cron/atjobs/a0001")
    ]


def test_a_link_in_the_place_of_a_free_crontab_is_told(grow: Grow) -> None:
    root = grow({**HOST, "/var/spool/cron/crontabs/bob": {"link": "/etc/shadow"}})
    assert foreign(root, owned={"base": [*OWNS, "@bob"]}) == [
        ("link", "/var/spool/cron/crontabs/bob")
    ]


def test_a_key_within_an_option_or_a_remark_is_not_the_line_s() -> None:
    other = base64.b64encode(b"\0\0\0\x0bssh-ed25519" + b"o" * 36).decode()
    text = f'command="x ssh-ed25519 {BLOB} y" ssh-ed25519 {other} {KEY}\n'
    ((key, told, _),) = fingerprints(text)
    assert key != KEY
    assert KEY not in told.split()


def test_a_file_that_crontab_leaves_while_it_reads_is_no_strangers(grow: Grow) -> None:
    """crontab(1) copies what it is given into tmp.XXXXXX, as long as its user likes; cron(8) runs none of that."""
    left = {"/var/spool/cron/crontabs/tmp.aB3xYz": "* * * * * x\n"}
    me = f"me:x:{os.geteuid()}:1::/:/usr/sbin/nologin\n" if os.geteuid() else ""
    root = grow({**HOST, **left, "/etc/passwd": PEOPLE + me})
    owner = "me" if os.geteuid() else "root"
    assert foreign(root, owned={"base": [*OWNS, f"@{owner}"]}) == []
    assert foreign(root, owned={"base": [*OWNS, "@ada"]}) == [("file", *left)]


def test_what_an_admin_hides_costs_no_other_place_its_look(grow: Grow, tmp_path: Path) -> None:
    hidden = "/home/ada/.ssh/rc"
    root = grow({**HOST, "/home/ada/x": "", "/etc/cron.d/x": "* * * * * root id\n"})
    (tmp_path / "home/ada/.ssh").symlink_to("/root/.ssh")
    (tmp_path / "home/ada").chmod(0o777)
    found = facts(root, owned={"base": [*OWNS, hidden]}).foreign or ()
    assert [(f.kind, f.at) for f in found] == [("file", "/etc/cron.d/x"), ("folder", hidden)]
    assert found[1].line == "not read: a symbolic link, not followed"
