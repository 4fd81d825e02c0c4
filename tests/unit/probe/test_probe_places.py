"""Places of users: what they put there leads root nowhere; what root put somewhere is read as ever."""

import os
import stat
import subprocess  # noqa: TID251 - another process has to hold a lease
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.probe import files, places
from appliance.probe.ask import Ask
from appliance.probe.places import Untrusted
from appliance.probe.state import Observer

MALLORY, BOB = 54321, 54322
WORDS = "root's own words"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A folder of root's with a secret of root's and a home of mallory's beside it."""
    (tmp_path / "secret").write_text(WORDS)
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "closed").mkdir(mode=0o700)
    (tmp_path / "closed/file").write_text(WORDS)
    (tmp_path / "home").mkdir()
    (tmp_path / "home").chmod(0o755)
    return tmp_path


@pytest.fixture
def home(top: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Her own: as root by its owner; for an ordinary user all that is his counts as hers, and what is root's is not to be had."""
    if os.geteuid():
        monkeypatch.setattr(os, "geteuid", lambda: 0)
    (top / "home/mallory").mkdir(mode=0o755)
    return top / "home/mallory"


def give(path: Path, uid: int = MALLORY) -> Path:
    """To an ordinary user; to whom all is already where the test runs as one."""
    try:
        os.chown(path, uid, uid, follow_symlinks=False)
    except PermissionError:
        pytest.skip("only root makes somebody else's file")
    return path


def own(path: Path, text: str = "hers") -> Path:
    path.write_text(text)
    return path


def link(path: Path, target: Path) -> Path:
    path.symlink_to(target)
    return path


Attempt = Callable[[Path, Path], Path]


def linked_file(home: Path, top: Path) -> Path:
    return link(home / "f", top / "secret")


def linked_folder(home: Path, top: Path) -> Path:
    return link(home / "d", top / "closed") / "file"


def linked_by_a_relative_way(home: Path, top: Path) -> Path:
    del top
    return link(home / "f", Path("../../secret"))


def linked_twice(home: Path, top: Path) -> Path:
    link(home / "a", top / "secret")
    return link(home / "b", Path("a"))


def hard_link(home: Path, top: Path) -> Path:
    os.link(top / "secret", home / "f")
    return home / "f"


def pipe(home: Path, top: Path) -> Path:
    del top
    os.mkfifo(home / "f")
    return home / "f"


def folder(home: Path, top: Path) -> Path:
    del top
    (home / "f").mkdir()
    return home / "f"


def of_somebody_else(home: Path, top: Path) -> Path:
    del top
    return give(own(home / "f"), BOB)


def in_a_folder_of_somebody_else(home: Path, top: Path) -> Path:
    del top
    (home / "f").mkdir()
    own(home / "f/g")
    give(home / "f", BOB)
    return home / "f/g"


ATTEMPTS: tuple[Attempt, ...] = (
    linked_file,
    linked_folder,
    linked_by_a_relative_way,
    linked_twice,
    hard_link,
    pipe,
    folder,
    of_somebody_else,
    in_a_folder_of_somebody_else,
)


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda a: a.__name__)
def test_nothing_of_another_is_read_in_a_place_of_a_user(
    attempt: Attempt, home: Path, top: Path
) -> None:
    give(home)
    path = attempt(home, top)
    with pytest.raises(
        OSError, match=r"not followed|no regular file|another account|hard link|closed|direct"
    ):
        files.data(str(path))


def test_her_own_files_and_those_root_left_for_her_are_read(home: Path) -> None:
    give(home)
    assert files.read(str(give(own(home / "f"))), of=MALLORY) == "hers"
    assert files.read(str(own(home / "r", "for her"))) == "for her"
    with pytest.raises(Untrusted, match="another account"):
        files.read(str(home / "f"), of=BOB)


def test_roots_links_lead_on_where_root_alone_can_put_one(top: Path) -> None:
    link(top / "way", top / "closed")
    link(top / "file", Path("way/file"))
    assert files.read(str(top / "file")) == WORDS
    assert files.read(str(top / "way/file")) == WORDS
    assert files.link(str(top / "file")) == "way/file"
    assert files.names(str(top / "way")) == ["file"]
    assert stat.S_ISREG(places.status(str(top / "file"), follow=True).st_mode)
    assert stat.S_ISLNK(places.status(str(top / "file")).st_mode)


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_where_all_may_write_no_link_is_followed(top: Path, mode: int) -> None:
    shared = top / "shared"
    shared.mkdir()
    shared.chmod(mode)
    link(shared / "f", top / "secret")
    os.link(top / "secret", shared / "g")
    with pytest.raises(Untrusted, match="not followed"):
        files.data(str(shared / "f"))
    if mode == 0o1777:
        own(shared / "mine").chmod(0o600)
        assert files.read(str(shared / "mine")) == "hers"
    if os.geteuid() == 0:
        with pytest.raises(Untrusted, match="hard link"):
            files.data(str(shared / "g"))


def test_a_circle_of_links_ends(top: Path) -> None:
    link(top / "a", Path("b"))
    link(top / "b", Path("a"))
    with pytest.raises(OSError, match="Too many"):
        files.data(str(top / "a"))


def test_a_device_is_never_opened_whoever_links_to_it(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link(top / "dog", Path("/dev/null"))
    opened: list[int] = []
    plain = os.open

    def watched(path: str, flags: int, *rest: int, **more: int) -> int:
        fd = plain(path, flags, *rest, **more)
        if not flags & os.O_PATH and stat.S_ISCHR(os.fstat(fd).st_mode):
            opened.append(fd)
        return fd

    monkeypatch.setattr(os, "open", watched)
    with pytest.raises(Untrusted, match="no regular file"):
        files.data(str(top / "dog"))
    assert opened == []


@pytest.mark.parametrize(
    "path", ["/proc/self/root/etc/hostname", "/proc/self/cwd/x", "/proc/self/fd/0"]
)
def test_what_a_process_has_open_is_no_way_to_a_file(path: str) -> None:
    with pytest.raises(Untrusted):
        files.data(path)


def test_files_of_the_kernel_and_descriptors_of_a_process_are_listed() -> None:
    assert files.text("/proc/self/status")
    assert files.names("/proc/self/fd")
    assert files.number("/proc/sys/kernel/pid_max")


MOUNTED = "36 25 0:32 / {at} rw,nosuid - fuse.sshfs x rw,user_id={uid},group_id=0\n"


@pytest.mark.parametrize(("uid", "is_read"), [(0, True), (MALLORY, False)])
def test_a_file_system_that_a_user_serves_is_not_asked(
    top: Path, monkeypatch: pytest.MonkeyPatch, uid: int, *, is_read: bool
) -> None:
    table = own(top / "mountinfo", MOUNTED.format(at=str(top / "closed"), uid=uid))
    monkeypatch.setattr(places, "MOUNTS", str(table))
    monkeypatch.setattr(places, "_PEOPLE", [])
    monkeypatch.setattr(places, "_ROOTS", set())
    assert (files.text(str(top / "closed/file")) == WORDS) is is_read


def test_descriptors_are_given_back(top: Path, home: Path) -> None:
    give(home)
    for attempt in (linked_file, hard_link):
        path = attempt(home, top)
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(20):
            files.text(str(path))
            files.exists(str(top / "none/x"))
            files.text(str(top / "secret"))
        assert len(list(Path("/proc/self/fd").iterdir())) == before
        path.unlink()


HOLDER = """
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
fcntl.fcntl(os.open(sys.argv[1], os.O_RDWR), fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lease_keeps_nobody_waiting_and_is_told(home: Path) -> None:
    """Whoever owns a file may hold one on it, and take it again each time the kernel breaks it."""
    argv = [sys.executable, "-c", HOLDER, str(own(home / "f"))]
    with subprocess.Popen(argv, stdin=-1, stdout=-1) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(Untrusted, match="lease"):
            files.data(str(home / "f"))
        holder.communicate()
    assert files.read(str(home / "f")) == "hers"


def test_a_folder_that_root_closed_in_a_place_of_an_account_is_seen_and_not_entered(
    home: Path,
) -> None:
    give(home)
    (home / "state").mkdir(mode=0o700)
    with pytest.raises(Untrusted, match="closed to the owner"):
        places.status(str(home / "state"), follow=True)
    assert stat.S_IMODE(places.entry(str(home / "state")).st_mode) == 0o700
    looks = Observer(Ask({}, "/"), [])
    assert looks.look("directory", str(home / "state"))["owner"] == "root"
    link(home / "away", home.parent.parent / "closed")
    assert "owner" not in looks.look("directory", str(home / "away"))
