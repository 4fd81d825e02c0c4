"""Files of the site that others could write: each step of their paths, with real folders, links and modes."""

import os
import stat
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from appliance import ownership
from appliance.actions.sites.opening import Target, runs_of
from appliance.config.load import load_profile, load_site
from appliance.errors import ConfigError
from appliance.journal import Journal, hold
from appliance.ownership import Untrusted, open_own, require, require_all, require_file, write_anew
from tests.support.site_folder import SITE

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
EVE = 54321


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("SUDO_UID", raising=False)
    ownership.strangers_of.cache_clear()
    yield
    ownership.strangers_of.cache_clear()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A sound site in a folder of its own."""
    folder = tmp_path / "sites/acme"
    (folder / "secrets").mkdir(parents=True)
    (folder / "s.yml").write_text(SITE)
    for name in ("munge_key", "slurmdbd_password", "id_ed25519", "bmc"):
        (folder / "secrets" / name).write_text("x" * 64 + "\n")
        (folder / "secrets" / name).chmod(0o600)
    (folder / "known_hosts").write_text("")
    return folder


def open_to_all(path: Path) -> None:
    path.chmod(stat.S_IMODE(path.stat().st_mode) | 0o002)


def test_a_site_that_nobody_else_can_write_is_taken(site: Path) -> None:
    for path in (site, site / "s.yml", site / "secrets/bmc", site / "runs/lock", Path("/")):
        require(path)


@pytest.mark.parametrize(
    "place", ["../..", "..", ".", "s.yml", "known_hosts", "secrets", "secrets/munge_key"]
)
def test_a_site_that_everybody_can_write_is_refused_with_the_command_that_cures_it(
    place: str, site: Path
) -> None:
    path = Path(os.path.normpath(site / place))
    open_to_all(path)
    with pytest.raises(ConfigError) as refusal:
        load_site(site / "s.yml")
    assert str(path) in refusal.value.message
    assert "every user of this machine" in refusal.value.message
    assert f"chmod o-w {path}" in refusal.value.hint
    assert refusal.value.exit_code == 2


def test_a_sticky_folder_is_a_way_to_what_lies_there_and_no_place_for_a_site(site: Path) -> None:
    above = site.parent
    above.chmod(0o1777)
    require(site / "s.yml")
    site.chmod(0o1777)
    for path in (site, site / "known_bmcs"):
        with pytest.raises(Untrusted, match=f"{site} is a folder in which other users") as refusal:
            require(path)
        assert "folder of your own" in refusal.value.hint


@AS_ROOT
@pytest.mark.parametrize("place", ["..", ".", "s.yml", "secrets", "known_hosts", "secrets/bmc"])
def test_a_site_of_another_user_is_refused(place: str, site: Path) -> None:
    path = Path(os.path.normpath(site / place))
    os.chown(path, EVE, 0)
    with pytest.raises(Untrusted, match=f"{path} belongs to {EVE}") as refusal:
        load_site(site / "s.yml")
    assert refusal.value.hint == f"look at it, then: chown root {path}"


@AS_ROOT
def test_who_called_by_sudo_is_trusted_and_nobody_else(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (site, *site.rglob("*")):
        os.chown(path, EVE, EVE)
    monkeypatch.setenv("SUDO_UID", str(EVE))
    require(site / "s.yml")
    monkeypatch.setenv("SUDO_UID", str(EVE + 1))
    with pytest.raises(Untrusted):
        require(site / "s.yml")


@AS_ROOT
def test_a_link_of_another_user_is_refused_though_what_it_leads_to_is_ours(site: Path) -> None:
    link = site / "link"
    link.symlink_to(site / "s.yml")
    require(link)
    os.chown(link, EVE, EVE, follow_symlinks=False)
    with pytest.raises(Untrusted, match="link belongs to") as refusal:
        require(link)
    assert "chown -h" in refusal.value.hint


@pytest.mark.parametrize("relative", [True, False])
def test_what_a_link_leads_through_is_judged(relative: bool, site: Path, tmp_path: Path) -> None:
    """Both ends of it are closed to others; the folder in the middle is not."""
    middle = tmp_path / "open"
    (middle / "closed").mkdir(parents=True)
    (middle / "closed/s.yml").write_text(SITE)
    link = site / "profile.yml"
    target = middle / "closed/s.yml"
    link.symlink_to(os.path.relpath(target, site) if relative else target)
    require(link)
    open_to_all(middle)
    with pytest.raises(Untrusted, match=f"{middle} can be written"):
        require(link)


def test_a_link_through_a_link_is_judged_where_the_second_lies(site: Path, tmp_path: Path) -> None:
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    (open_folder / "second").symlink_to(site / "s.yml")
    (site / "first").symlink_to(open_folder / "second")
    open_to_all(open_folder)
    with pytest.raises(Untrusted, match=f"{open_folder} can be written"):
        require(site / "first")


def test_links_in_a_circle_are_refused(site: Path) -> None:
    (site / "one").symlink_to("two")
    (site / "two").symlink_to("one")
    with pytest.raises(ConfigError, match="circle"):
        require(site / "one")


def users(monkeypatch: pytest.MonkeyPatch, group: str, *members: str, main: int = 0) -> None:
    """A group of this machine; ``main``: so many other people have it as their main group."""
    me = SimpleNamespace(pw_name="me", pw_uid=os.geteuid(), pw_gid=7777)
    others = [SimpleNamespace(pw_name=f"u{n}", pw_uid=2000 + n, pw_gid=7777) for n in range(main)]
    found = SimpleNamespace(gr_name=group, gr_mem=list(members))
    monkeypatch.setattr("grp.getgrgid", lambda _: found)
    monkeypatch.setattr("pwd.getpwall", lambda: [me, *others])
    monkeypatch.setattr("pwd.getpwuid", lambda _: me)


@pytest.mark.parametrize(
    ("group", "members", "main", "said"),
    [
        ("me", (), 0, ""),
        ("me", ("me",), 0, ""),
        ("me", ("me", "eve"), 0, "group me (eve)"),
        ("me", (), 1, "group me (u0)"),
        ("users", (), 0, "group users"),
        ("users", (), 5, "group users (u0, u1, u2, ...)"),
    ],
)
def test_a_group_is_trusted_where_it_is_the_users_own(
    group: str, members: tuple[str, ...], main: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    users(monkeypatch, group, *members, main=main)
    assert ownership.strangers_of(7777, ownership.trusted()) == said


def test_a_checkout_of_umask_002_is_taken_and_one_of_a_common_group_is_not(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (site, *site.rglob("*")):
        path.chmod(stat.S_IMODE(path.stat().st_mode) | 0o020)
    users(monkeypatch, "me")
    require(site / "s.yml")
    ownership.strangers_of.cache_clear()
    users(monkeypatch, "me", "eve")
    with pytest.raises(Untrusted, match=r"group me \(eve\)") as refusal:
        require(site / "s.yml")
    assert f"chmod g-w {site}" in refusal.value.hint


def test_others_in_an_access_list_are_seen_behind_the_groups_bits(site: Path) -> None:
    entries = ((1, 6, -1), (2, 6, EVE), (4, 4, -1), (0x10, 6, -1), (0x20, 4, -1))
    value = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *one) for one in entries)
    try:
        os.setxattr(site / "s.yml", "system.posix_acl_access", value)
    except OSError:
        pytest.skip("this file system has no access lists")
    with pytest.raises(Untrusted, match=r"s\.yml can be written by") as refusal:
        require(site / "s.yml")
    assert "chmod g-w" in refusal.value.hint


def test_of_many_files_in_a_folder_each_is_judged(site: Path, tmp_path: Path) -> None:
    names = ("s.yml", "known_hosts", "secrets/bmc", "missing/folder/file", "secrets/munge_key")
    paths = [site / name for name in names]
    require_all(*paths)
    for path in (site / "secrets/munge_key", site / "secrets", site):
        open_to_all(path)
        with pytest.raises(Untrusted, match=f"{path} can be written"):
            require_all(*paths)
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o002)
    elsewhere = tmp_path / "open"
    elsewhere.mkdir()
    (elsewhere / "bmc").write_text("x")
    open_to_all(elsewhere)
    (site / "secrets/link").symlink_to(elsewhere / "bmc")
    for last in (site / "secrets/link", site / "secrets/../../../open/bmc"):
        with pytest.raises(Untrusted, match=f"{elsewhere} can be written"):
            require_all(*paths, last)


def planted_link(path: Path, target: Path) -> None:
    path.symlink_to(target)


def planted_hard_link(path: Path, target: Path) -> None:
    path.hardlink_to(target)


def planted_pipe(path: Path, target: Path) -> None:
    os.mkfifo(path)


PLANTED: tuple[Callable[[Path, Path], None], ...] = (planted_link, planted_hard_link, planted_pipe)


@pytest.mark.parametrize("plant", PLANTED)
@pytest.mark.parametrize("name", ["journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm"])
def test_a_journal_that_leads_elsewhere_is_not_written(
    name: str, plant: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    runs, victim = tmp_path / "runs", tmp_path / "victim"
    runs.mkdir(mode=0o700)
    victim.write_text("of value")
    plant(runs / name, victim)
    for needed in (True, False):
        with pytest.raises(Untrusted, match=name):
            Journal(runs, needed=needed)
    assert victim.read_text() == "of value"


@pytest.mark.parametrize("plant", PLANTED)
def test_a_lock_that_leads_elsewhere_empties_no_file(
    plant: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    runs, victim = tmp_path / "runs", tmp_path / "victim"
    runs.mkdir(mode=0o700)
    victim.write_text("of value")
    plant(runs / "lock", victim)
    with pytest.raises(Untrusted, match="lock"), hold(runs, "r", "deploy"):
        pass
    assert victim.read_text() == "of value"


def test_a_link_that_leads_nowhere_makes_no_file(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "made")
    with pytest.raises((Untrusted, OSError)):
        open_own(tmp_path / "lock")
    assert not (tmp_path / "made").exists()


def test_a_folder_of_runs_that_others_can_write_is_refused(site: Path) -> None:
    (site / "runs").mkdir()
    (site / "site.yml").write_text(SITE)
    target = Target(inventory=site)
    assert runs_of(target) == site / "runs"
    open_to_all(site / "runs")
    with pytest.raises(Untrusted, match="runs can be written by every user"):
        runs_of(target)


def test_a_file_in_the_way_of_a_new_one_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("of value")
    (tmp_path / ".known_bmcs.new").symlink_to(victim)
    write_anew(tmp_path / "known_bmcs", "new\n")
    assert (victim.read_text(), (tmp_path / "known_bmcs").read_text()) == ("of value", "new\n")


def test_a_profile_that_others_can_write_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.yml"
    file.write_text("version: 1\n")
    open_to_all(file)
    with pytest.raises(Untrusted, match=r"mine\.yml can be written"):
        load_profile(file)


def test_files_of_the_program_itself_are_sound(tmp_path: Path) -> None:
    with Journal(tmp_path / "runs") as journal, hold(tmp_path / "runs", "r", "deploy"):
        journal.append("r", "x")
    for file in (tmp_path / "runs").iterdir():
        require_file(file)
