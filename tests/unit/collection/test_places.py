"""Root's work in places that others can change: whatever they put there, nothing beyond it is touched."""

import ctypes
import errno
import grp
import os
import pwd
import stat
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
Keys = Callable[..., dict[str, Any]]
ROOT = os.geteuid() == 0
IDS = (os.geteuid() or 1500, os.getegid() or 1500)
OTHER = 1501
KEY = "ssh-ed25519 AAAAnew bob\n"
THEIRS = "ssh-ed25519 AAAAroot root\n"
AT_FDCWD, EXCHANGE = -100, 2
as_root = pytest.mark.skipif(not ROOT, reason="gives files to others")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of root's that every user gets through, which pytest's are not."""
    with TemporaryDirectory(prefix="places-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def prey(place: Path) -> Path:
    """What users want root to change for them."""
    folder = place / "prey"
    folder.mkdir(mode=0o755)
    (folder / "authorized_keys").write_text(THEIRS)
    (folder / "authorized_keys2").write_text(THEIRS)
    return folder


def state(folder: Path) -> list[tuple[str, int, int, int, str]]:
    """Names, modes, owners and contents."""
    listed = []
    for path in (folder, *sorted(folder.rglob("*"))):
        found = path.lstat()
        text = path.read_text() if path.is_file() else ""
        listed.append((path.name, found.st_mode, found.st_uid, found.st_gid, text))
    return listed


@pytest.fixture
def home(place: Path) -> Path:
    """Bob's."""
    folder = place / "home/bob"
    folder.mkdir(parents=True)
    os.chown(folder, *IDS)
    return folder


@pytest.fixture
def bob(
    run: Run, plugin: Plugin, host: Host, home: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Keys]:
    """Runs the module for bob: with keys as one of the site, without as somebody who has left."""
    module = plugin("module_utils.resources.accounts")
    entry = pwd.struct_passwd(("bob", "x", *IDS, "", str(home), "/bin/bash"))
    monkeypatch.setattr(module, "_passwd", lambda name: entry if name == "bob" else None)
    monkeypatch.setattr(module, "_shadow", lambda name: [name, "*"])
    admins = grp.struct_group(("admins", "x", 900, ["bob"]))
    monkeypatch.setattr(module.grp, "getgrnam", lambda name: {"admins": admins}[name])
    monkeypatch.setattr(module.grp, "getgrall", lambda: [admins])
    for tool in ("usermod", "gpasswd"):
        host.answer(tool, (0, "", ""))

    def once(keys: str = "", **more: Any) -> dict[str, Any]:
        users = [{"name": "bob", "groups": ["admins"], "keys": [keys]}] if keys else []
        given = {"only_in": [] if keys else ["admins"], "keys_in": str(home.parent / "apart")}
        return run("accounts", users=users, **given, **more)

    yield once
    # A folder without rights would be left over.
    for folder in home.glob(".ssh*"):
        if folder.is_dir() and not folder.is_symlink():
            folder.chmod(0o700)


def made_folder(ssh: Path) -> None:
    ssh.mkdir(mode=0o700)
    os.chown(ssh, *IDS)


def own_keys(ssh: Path) -> None:
    made_folder(ssh)
    for name in ("authorized_keys", "authorized_keys2"):
        (ssh / name).write_text(THEIRS)
        os.chown(ssh / name, *IDS)


def keys_in_folder(ssh: Path) -> None:
    made_folder(ssh)
    (ssh / "authorized_keys").mkdir()


def linked_keys(ssh: Path) -> None:
    made_folder(ssh)
    (ssh / "authorized_keys").symlink_to(ssh.parents[2] / "prey/authorized_keys")
    (ssh / "authorized_keys2").symlink_to("/dev/zero")


def hard_link(ssh: Path) -> None:
    made_folder(ssh)
    (ssh / "authorized_keys").hardlink_to(ssh.parents[2] / "prey/authorized_keys")


def pipe_for_keys(ssh: Path) -> None:
    made_folder(ssh)
    os.mkfifo(ssh / "authorized_keys")


def closed_folder(ssh: Path) -> None:
    own_keys(ssh)
    ssh.chmod(0o000)


def links(ssh: Path) -> None:
    (ssh.parent / "b").symlink_to(ssh.parents[2] / "prey")
    ssh.symlink_to("b")


def closed_home(ssh: Path) -> None:
    own_keys(ssh)
    ssh.parent.chmod(0o000)


def endless_keys(ssh: Path) -> None:
    made_folder(ssh)
    (ssh / "authorized_keys").touch()
    os.truncate(ssh / "authorized_keys", 1 << 40)
    (ssh / "authorized_keys").chmod(0o600)
    os.chown(ssh / "authorized_keys", *IDS)


STRANGE: dict[str, Callable[[Path], None]] = {
    "nothing": lambda ssh: None,
    "link": lambda ssh: ssh.symlink_to(ssh.parents[2] / "prey"),
    "link to a link": links,
    "link to itself": lambda ssh: ssh.symlink_to(".ssh"),
    "link to nothing": lambda ssh: ssh.symlink_to("nowhere"),
    "file": lambda ssh: ssh.touch(),
    "pipe": os.mkfifo,
    "keys": own_keys,
    "a folder for keys": keys_in_folder,
    "links for keys": linked_keys,
    "a hard link": hard_link,
    "a pipe for keys": pipe_for_keys,
    "closed": closed_folder,
    "in a closed home": closed_home,
    "keys without an end": endless_keys,
}


@pytest.mark.parametrize("strange", STRANGE)
def test_keys_of_the_site_come_to_whatever_home(
    bob: Keys, home: Path, prey: Path, strange: str
) -> None:
    before = state(prey)
    STRANGE[strange](home / ".ssh")
    assert bob(KEY)["changed"]
    ssh = home / ".ssh"
    assert (ssh / "authorized_keys").read_text() == KEY
    assert not ssh.is_symlink()
    for path, mode in ((ssh, 0o700), (ssh / "authorized_keys", 0o600)):
        found = path.lstat()
        assert (stat.S_IMODE(found.st_mode), found.st_uid) == (mode, IDS[0]), path
    assert state(prey) == before
    again = bob(KEY)
    assert not again["changed"], again


@pytest.mark.parametrize("strange", STRANGE)
def test_keys_of_who_left_open_nothing_and_no_others_are_taken(
    bob: Keys, home: Path, prey: Path, strange: str
) -> None:
    before = state(prey)
    STRANGE[strange](home / ".ssh")
    assert "user bob: gpasswd" in bob()["changes"]
    assert state(prey) == before
    ssh = home / ".ssh"
    assert not ssh.is_symlink()
    assert not any((ssh / name).is_file() for name in ("authorized_keys", "authorized_keys2"))


@as_root
def test_a_folder_of_somebody_else_is_not_given_to_the_user(
    bob: Keys, home: Path, prey: Path
) -> None:
    # Renamed by the user, who needs no right to it for that.
    prey.chmod(0o700)
    prey.rename(home / ".ssh")
    before = state(home / ".ssh")[1:]
    bob(KEY)
    aside = home / ".ssh.before-appliance"
    assert state(aside)[1:] == before
    assert (aside.stat().st_uid, stat.S_IMODE(aside.stat().st_mode)) == (0, 0o700)
    assert (home / ".ssh/authorized_keys").read_text() == KEY


@as_root
def test_root_works_in_a_home_as_the_user(bob: Keys, home: Path) -> None:
    """On many file servers root is nobody, and can do nothing in a home."""
    seen: list[tuple[str, int]] = []
    with watching(
        lambda event, args: seen.append((event, os.geteuid())) if str(home) in str(args) else None
    ):
        bob(KEY)
    assert {user for event, user in seen if event in {"os.mkdir", "os.rename"}} <= {IDS[0]}
    assert (home / ".ssh").stat().st_gid == IDS[1]
    assert (os.geteuid(), os.getegid()) == (0, 0)


WATCHERS: list[Callable[[str, Any], None]] = []
WORK = ("open", "os.", "shutil.")


def _hook(event: str, args: Any) -> None:
    """Called before each system call that works on a path (PEP 578)."""
    if WATCHERS and event.startswith(WORK):
        watcher = WATCHERS.pop()
        try:
            watcher(event, args)
        finally:
            WATCHERS.append(watcher)


class watching:
    """Has ``watcher`` called; hooks cannot be taken out again, so there is one for all."""

    added = False

    def __init__(self, watcher: Callable[[str, Any], None]) -> None:
        self.watcher = watcher

    def __enter__(self) -> None:
        if not watching.added:
            sys.addaudithook(_hook)
            watching.added = True
        WATCHERS.append(self.watcher)

    def __exit__(self, *_: object) -> None:
        WATCHERS.remove(self.watcher)


class Swapper:
    """Swaps two names before the system calls whose numbers are given, as a user's program in a loop would by chance."""

    def __init__(self, one: Path, two: Path, at: Callable[[int], bool]) -> None:
        self.names = (bytes(one), bytes(two))
        self.at = at
        self.count = 0

    def __call__(self, event: str, args: Any) -> None:
        self.count += 1
        if self.at(self.count):
            libc = ctypes.CDLL(None, use_errno=True)
            libc.renameat2(AT_FDCWD, self.names[0], AT_FDCWD, self.names[1], EXCHANGE)


MOMENTS = [*((lambda n, k=k: n == k) for k in range(1, 60)), lambda n: True, lambda n: n % 2 == 0]


@pytest.mark.parametrize("leaves", [False, True])
def test_a_link_swapped_in_at_any_moment_leads_nowhere(
    bob: Keys, home: Path, prey: Path, leaves: bool
) -> None:
    before = state(prey)
    for at in MOMENTS:
        for old in home.iterdir():
            remove(old)
        own_keys(home / ".ssh")
        # With another mode there is more to change.
        (home / ".ssh").chmod(0o755)
        (home / "link").symlink_to(prey)
        with watching(Swapper(home / ".ssh", home / "link", at)):
            bob("" if leaves else KEY)
        assert state(prey) == before
    assert (os.geteuid(), os.getegid()) == (IDS[0] if not ROOT else 0, os.getegid())


def remove(path: Path) -> None:
    """Whatever it is."""
    if path.is_dir() and not path.is_symlink():
        for inner in path.iterdir():
            remove(inner)
        path.rmdir()
    else:
        path.unlink()


def test_the_key_in_use_is_not_taken_from_the_account_of_deployments(bob: Keys, home: Path) -> None:
    own_keys(home / ".ssh")
    said = bob(KEY, deploys_as="bob")
    assert "none of the keys it has now would stay" in said["msg"]
    assert (home / ".ssh/authorized_keys").read_text() == THEIRS
    assert bob(THEIRS + KEY, deploys_as="bob")["changed"]
    assert bob(KEY, deploys_as="bob")["changed"]


def test_what_is_no_folder_stays_where_it_lets_deployments_in(
    bob: Keys, home: Path, prey: Path
) -> None:
    (home / ".ssh").symlink_to(prey)
    assert "is no folder of its own" in bob(KEY, deploys_as="bob")["msg"]
    assert (home / ".ssh").is_symlink()


@as_root
def test_who_has_roots_number_keeps_roots_keys(
    bob: Keys, host: Host, plugin: Plugin, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_keys(home / ".ssh")
    entry = pwd.struct_passwd(("bob", "x", 0, 0, "", str(home), "/bin/bash"))
    monkeypatch.setattr(plugin("module_utils.resources.accounts"), "_passwd", lambda name: entry)
    bob()
    assert host.calls == ["gpasswd -d bob admins"]
    assert (home / ".ssh/authorized_keys").read_text() == THEIRS


@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o775])
def test_a_link_in_an_open_folder_is_not_followed(
    run: Run, place: Path, prey: Path, mode: int
) -> None:
    scratch = place / "scratch"
    scratch.mkdir()
    scratch.chmod(mode)
    (scratch / "ours").symlink_to(prey)
    before = state(prey)
    me = {"owner": str(os.geteuid()), "group": str(os.getegid())}
    item = {"path": str(scratch / "ours"), "mode": "1777", **me}
    assert "a link in a folder that others can write to" in run("files", directories=[item])["msg"]
    links = [{"path": str(scratch / "ours/authorized_keys"), "target": "/x"}]
    assert "a link in a folder that others can write to" in run("files", links=links)["msg"]
    gone = [{"path": str(scratch / "ours/authorized_keys"), "state": "absent"}]
    assert "a link in a folder that others can write to" in run("files", files=gone)["msg"]
    assert state(prey) == before


def test_a_link_of_roots_own_is_followed(run: Run, place: Path) -> None:
    (place / "disk").mkdir()
    (place / "scratch").symlink_to("disk")
    item = {"path": str(place / "scratch"), "mode": "0700", "owner": str(os.geteuid())}
    assert run("files", directories=[{**item, "group": str(os.getegid())}])["changed"]
    assert stat.S_IMODE((place / "disk").stat().st_mode) == 0o700
    assert (place / "scratch").is_symlink()


@as_root
def test_a_folder_that_a_user_made_first_is_not_taken_for_ours(run: Run, place: Path) -> None:
    scratch = place / "scratch"
    scratch.mkdir()
    scratch.chmod(0o1777)
    (scratch / "ours").mkdir()
    os.chown(scratch / "ours", OTHER, OTHER)
    said = run("files", directories=[{"path": str(scratch / "ours"), "mode": "0755"}])
    assert f"ours belongs to number {OTHER}, who could make it there first" in said["msg"]
    assert (scratch / "ours").stat().st_uid == OTHER


@as_root
def test_neither_is_one_that_a_user_puts_in_the_place_of_ours(run: Run, place: Path) -> None:
    open_folder = place / "open"
    open_folder.mkdir()
    open_folder.chmod(0o777)
    for at in MOMENTS[:30]:
        for old in open_folder.iterdir():
            remove(old)
        theirs = open_folder / "theirs"
        theirs.mkdir()
        os.chown(theirs, OTHER, OTHER)
        with watching(Swapper(open_folder / "ours", theirs, at)):
            run("files", directories=[{"path": str(open_folder / "ours"), "mode": "0755"}])
        owners = sorted(path.stat().st_uid for path in open_folder.iterdir())
        assert owners in ([OTHER], [0, OTHER])


@as_root
def test_no_home_is_made_where_others_can_make_it(
    run: Run, bob: Keys, host: Host, place: Path
) -> None:
    scratch = place / "scratch"
    scratch.mkdir()
    scratch.chmod(0o1777)
    said = run("accounts", users=[{"name": "eve", "home": str(scratch / "eve")}])
    assert "homes lie only in a folder of root's" in said["msg"]
    assert host.calls == []


def test_a_home_lies_in_the_folder_that_was_looked_at(
    run: Run, plugin: Plugin, place: Path, prey: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin("module_utils.resources.homes"), "SKELETON", str(prey))
    before = state(prey)
    place.chmod(0o777)
    for at in MOMENTS[:40]:
        for old in (place / "homes", place / "link"):
            if old.is_symlink() or old.exists():
                remove(old)
        (place / "homes").mkdir(mode=0o755)
        (place / "link").symlink_to(prey)
        with watching(Swapper(place / "homes", place / "link", at)):
            run("homes", folder=str(place / "homes"), homes=[{"name": "bob", "uid": IDS[0]}])
        assert state(prey) == before


def test_a_strangers_file_is_moved_from_the_folder_that_was_looked_at(
    run: Run, plugin: Plugin, home: Path, prey: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        plugin("module_utils.resources.live"), "KEPT_AT", str(home.parent / "purged")
    )
    (home / ".ssh").symlink_to(prey)
    home.chmod(0o777)
    before = state(prey)
    said = run("live", strangers=[str(home / ".ssh/authorized_keys2")])
    assert "a link in a folder that others can write to" in said["msg"]
    assert state(prey) == before


@pytest.mark.parametrize("size", [3, 1 << 40])
def test_a_strangers_file_is_copied_to_another_file_system_unless_it_has_no_end(
    run: Run, plugin: Plugin, place: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    places = plugin("module_utils.places")
    monkeypatch.setattr(plugin("module_utils.resources.live"), "KEPT_AT", str(place / "purged"))

    def far(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(places.os, "rename", far)
    (place / "rc").write_text("abc")
    os.truncate(place / "rc", size)
    said = run("live", strangers=[str(place / "rc")])
    if size == 3:
        (kept,) = (place / "purged").rglob("rc")
        assert (kept.read_text(), stat.S_IMODE(kept.stat().st_mode)) == ("abc", 0o600)
        assert not (place / "rc").exists()
    else:
        assert "is larger than 64 MiB" in said["msg"]
        assert (place / "rc").exists()
