"""appliance.host.accounts against a pretended user database."""

import grp
import os
import pwd
import subprocess  # noqa: TID251 - another process has to hold a lease
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import pytest

from tests.support.collection_host import Host

Run = Callable[..., dict[str, Any]]
Plugin = Callable[[str], ModuleType]
KEY = "ssh-ed25519 AAAA ada"
IDS = (os.geteuid() or 1500, os.getegid() or 1500)
"""Of the users: root works in their homes as they themselves."""


class Database:
    """Users and groups as pwd and grp give them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.users: dict[str, pwd.struct_passwd] = {}
        self.groups: dict[str, grp.struct_group] = {}

    def user(self, name: str, shell: str = "/bin/bash") -> None:
        entry = (name, "x", *IDS, "", str(self.home / name), shell)
        self.users[name] = pwd.struct_passwd(entry)
        (self.home / name).mkdir()
        os.chown(self.home / name, *IDS)

    def group(self, name: str, gid: int, *members: str) -> None:
        self.groups[name] = grp.struct_group((name, "x", gid, list(members)))


@pytest.fixture
def homes() -> Iterator[Path]:
    """A folder that every user gets through, which pytest's are not."""
    with TemporaryDirectory(prefix="homes-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def database(
    plugin: Plugin, host: Host, homes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Database:
    """An empty database; the shadow file knows ada's password and that bob has none."""
    found = Database(homes)
    module = plugin("module_utils.resources.accounts")
    (tmp_path / "shadow").write_text("ada:$6$x:1::::::\nbob:*:1::::::\n")
    monkeypatch.setattr(module, "SHADOW", str(tmp_path / "shadow"))
    monkeypatch.setattr(module.pwd, "getpwnam", lambda name: found.users[name])
    monkeypatch.setattr(module.grp, "getgrnam", lambda name: found.groups[name])
    monkeypatch.setattr(module.grp, "getgrall", lambda: list(found.groups.values()))
    for tool in ("useradd", "usermod", "userdel", "groupadd", "groupmod", "gpasswd"):
        host.answer(tool, (0, "", ""))
    return found


def test_a_new_group_and_user_are_made(run: Run, host: Host, database: Database) -> None:
    answer = run(
        "accounts",
        groups=[{"name": "ops", "gid": 900}],
        users=[{"name": "ada", "uid": 1500, "groups": ["ops"]}],
    )
    assert answer["changed"]
    assert host.calls == [
        "groupadd -g 900 ops",
        "useradd -s /bin/bash -p * -m -K HOME_MODE=0700 -K PASS_MIN_DAYS=0 -K PASS_MAX_DAYS=99999 -u 1500 -U -G ops ada",
    ]
    wanted = {"groups": ["ops"], "uid": 1500, "shell": "/bin/bash", "password": "locked"}
    assert answer["resources"] == [
        {"kind": "group", "name": "ops", "wanted": {"gid": 900}},
        {"kind": "user", "name": "ada", "wanted": wanted},
    ]


def test_who_comes_back_gets_the_number_of_the_home(
    run: Run, host: Host, database: Database, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = plugin("module_utils.resources.accounts")
    database.user("ada")
    del database.users["ada"]
    monkeypatch.setattr(module, "HOMES", str(database.home))
    monkeypatch.setattr(module, "_owner_of", lambda path: 54321)
    run("accounts", users=[{"name": "ada"}])
    monkeypatch.setattr(module, "_owner_of", lambda path: 0)
    run("accounts", users=[{"name": "ada"}])
    assert host.calls == [
        "useradd -s /bin/bash -p * -m -K HOME_MODE=0700 -K PASS_MIN_DAYS=0 -K PASS_MAX_DAYS=99999 -u 54321 -U ada",
        "useradd -s /bin/bash -p * -m -K HOME_MODE=0700 -K PASS_MIN_DAYS=0 -K PASS_MAX_DAYS=99999 -U ada",
    ]


def test_a_system_user_gets_no_home_and_no_shell(run: Run, host: Host, database: Database) -> None:
    run("accounts", users=[{"name": "munge", "system": True}])
    assert host.calls == ["useradd -s /usr/sbin/nologin -p * --system -M -U munge"]


def test_a_user_who_is_right_is_left_alone(run: Run, host: Host, database: Database) -> None:
    database.user("bob")
    database.group("ops", 900, "bob")
    answer = run("accounts", users=[{"name": "bob", "groups": ["ops"]}], groups=[{"name": "ops"}])
    assert (answer["changed"], host.calls) == (False, [])


def test_what_is_wrong_is_corrected_in_one_call(run: Run, host: Host, database: Database) -> None:
    database.user("ada", shell="/bin/sh")
    database.group("ops", 900)
    run("accounts", users=[{"name": "ada", "groups": ["ops"]}])
    assert host.calls == ["usermod -s /bin/bash -G ops -p * ada"]


def test_groups_that_nobody_gave_are_taken_away(run: Run, host: Host, database: Database) -> None:
    database.user("bob")
    database.group("ops", 900, "bob")
    database.group("root", 0, "bob")
    assert run("accounts", users=[{"name": "bob", "groups": ["ops"]}])["changed"]
    assert host.calls == ["usermod -G ops bob"]


def test_roots_group_is_nobodys_primary_one(run: Run, host: Host, database: Database) -> None:
    database.user("bob")
    database.group("root", 0)
    database.users["bob"] = pwd.struct_passwd(
        ("bob", "x", 1500, 0, "", str(database.home / "bob"), "/bin/bash")
    )
    run("accounts", users=[{"name": "bob"}])
    assert host.calls == ["groupadd bob", "usermod -g bob bob"]


def test_roots_number_is_refused(run: Run, host: Host, database: Database) -> None:
    database.users["bob"] = pwd.struct_passwd(("bob", "x", 0, 1500, "", "/home/bob", "/bin/bash"))
    answer = run("accounts", users=[{"name": "bob"}])
    assert (answer["failed"], host.calls) == (True, [])
    assert answer["msg"] == "user bob: has root's number, give it one of its own: usermod -u"


def test_check_mode_calls_nothing(run: Run, host: Host, database: Database) -> None:
    answer = run("accounts", check=True, users=[{"name": "ada", "keys": [KEY]}])
    assert answer["changed"]
    assert host.calls == []


def test_keys_are_exactly_those_given(run: Run, database: Database) -> None:
    database.user("bob")
    wanted = [{"name": "bob", "keys": [KEY]}]
    file = database.home / "bob/.ssh/authorized_keys"
    assert run("accounts", users=wanted)["changed"]
    file.write_text(KEY + "\nssh-rsa BBBB intruder\n")
    assert run("accounts", users=wanted)["changes"] == ["keys of bob"]
    assert file.read_text() == KEY + "\n"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert not run("accounts", users=wanted)["changed"]


HOLDER = """
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
fcntl.fcntl(os.open(sys.argv[1], os.O_RDWR), fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lease_that_a_user_holds_on_the_keys_stops_nothing(run: Run, database: Database) -> None:
    database.user("bob")
    wanted = [{"name": "bob", "keys": [KEY]}]
    file = database.home / "bob/.ssh/authorized_keys"
    run("accounts", users=wanted)
    file.write_text("ssh-rsa BBBB intruder\n")
    with subprocess.Popen((sys.executable, "-c", HOLDER, str(file)), stdin=-1, stdout=-1) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        assert run("accounts", users=wanted)["changes"] == ["keys of bob"]
        holder.communicate()
    assert file.read_text() == KEY + "\n"


def test_a_ssh_folder_that_is_a_link_is_set_aside(
    run: Run, database: Database, tmp_path: Path
) -> None:
    database.user("bob")
    ssh = database.home / "bob/.ssh"
    ssh.symlink_to(tmp_path)
    before = sorted(tmp_path.iterdir())
    said = run("accounts", users=[{"name": "bob", "keys": [KEY]}])
    assert f"{ssh}: set aside as .ssh.before-appliance" in said["changes"]
    assert (ssh / "authorized_keys").read_text() == KEY + "\n"
    assert (ssh.parent / ".ssh.before-appliance").readlink() == tmp_path
    assert sorted(tmp_path.iterdir()) == before


def test_who_is_no_longer_named_loses_the_login(run: Run, host: Host, database: Database) -> None:
    database.user("ada")
    database.user("bob")
    database.group("admins", 901, "ada", "bob")
    keys = database.home / "ada/.ssh/authorized_keys"
    keys.parent.mkdir()
    keys.write_text(KEY)
    apart = database.home / "apart"
    apart.mkdir()
    (apart / "ada").write_text(KEY)
    bob = {"name": "bob", "groups": ["admins"]}
    run("accounts", users=[bob], only_in=["admins"], keys_in=str(apart))
    assert host.calls == ["usermod -s /usr/sbin/nologin -p * -e 1 ada", "gpasswd -d ada admins"]
    assert not keys.exists()
    assert list(apart.iterdir()) == []


def test_the_account_of_deployments_is_not_taken_from_them(
    run: Run, host: Host, database: Database
) -> None:
    database.user("ada")
    database.user("debian")
    database.group("admins", 901, "ada", "debian")
    ada = {"name": "ada", "groups": ["admins"]}
    said = run("accounts", users=[ada], only_in=["admins"], deploys_as="debian")
    assert "user debian: deployments log in as it" in said["msg"]
    assert [call for call in host.calls if "debian" in call] == []
    assert "msg" not in run("accounts", users=[ada], only_in=["admins"], deploys_as="ada")


def test_who_goes_to_another_circle_keeps_the_login(
    run: Run, host: Host, database: Database
) -> None:
    database.user("bob")
    database.group("admins", 901, "bob")
    database.group("users", 902, "bob")
    given = [{"name": "bob", "groups": ["users"]}]
    run("accounts", users=given, only_in=["admins", "users"])
    assert host.calls == ["usermod -G users bob", "gpasswd -d bob admins"]


def test_who_comes_back_has_an_account_that_has_not_expired(
    run: Run, host: Host, database: Database, tmp_path: Path
) -> None:
    database.user("bob")
    database.user("carol")
    # Of carol somebody chose the day.
    (tmp_path / "shadow").write_text("bob:*:1:0:99999:7::1:\ncarol:*:1:0:99999:7::20000:\n")
    run("accounts", users=[{"name": "bob"}, {"name": "carol"}])
    assert host.calls == ["usermod -e  bob"]


def test_keys_apart_are_a_file_of_roots_and_the_home_is_left_alone(
    run: Run, host: Host, database: Database, monkeypatch: pytest.MonkeyPatch, plugin: Plugin
) -> None:
    module = plugin("module_utils.resources.accounts")
    me = (str(os.geteuid()), str(os.getegid()))
    real = module.Wanted
    monkeypatch.setattr(module, "Wanted", lambda *a: real(*a[:3], *me))
    monkeypatch.setattr(module, "attributes_differ", lambda *_: [])
    monkeypatch.setattr(module, "differences", lambda *_: [])
    monkeypatch.setattr(module, "set_attributes", lambda *_: None)
    database.user("bob")
    folder = database.home / "keys"
    bob = {"name": "bob", "keys": [KEY], "keys_apart": True, "make_home": False}
    assert run("accounts", users=[bob], keys_in=str(folder))["changed"]
    assert (folder / "bob").read_text() == KEY + "\n"
    assert (folder / "bob").stat().st_mode & 0o777 == 0o644
    assert not (database.home / "bob/.ssh").exists()
    again = run("accounts", users=[bob], keys_in=str(folder))
    assert again.get("changed") is False, again
    del database.users["bob"]
    run("accounts", users=[bob], keys_in=str(folder))
    assert host.calls == [
        "useradd -s /bin/bash -p * -M -K PASS_MIN_DAYS=0 -K PASS_MAX_DAYS=99999 -U bob"
    ]


def test_an_absent_user_is_removed_once(run: Run, host: Host, database: Database) -> None:
    item = {"name": "bob", "state": "absent"}
    assert not run("accounts", users=[item])["changed"]
    database.user("bob")
    assert run("accounts", users=[item])["changed"]
    assert host.calls == ["userdel bob"]


def test_a_refusal_names_the_account_and_the_reason(
    run: Run, host: Host, database: Database
) -> None:
    host.answer("useradd", (4, "", "useradd: UID 1000 is not unique\n"))
    answer = run("accounts", users=[{"name": "ada", "uid": 1000}])
    assert answer["msg"] == "user ada: useradd: UID 1000 is not unique"
