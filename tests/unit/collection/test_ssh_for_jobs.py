"""appliance.host.ssh_for_jobs: what it writes, whom libpam lets in by that, and that nobody is locked out for good."""

import ctypes
import ctypes.util
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.collection_host import Host, Run

PACKAGED = """# PAM configuration for the Secure Shell service

@include common-auth
account    required     pam_nologin.so
# Standard Un*x authorization.
@include common-account
session    required     pam_loginuid.so
@include common-session
session    optional     pam_motd.so  motd=/run/motd.dynamic
@include common-password
"""
SAYS = "%h is for those with a job"


@pytest.fixture
def sshd(tmp_path: Path, host: Host) -> Path:
    """sshd's file, as in its package."""
    file = tmp_path / "pam.d/sshd"
    file.parent.mkdir()
    file.write_text(PACKAGED)
    host.answer("dpkg-query", (0, f" {file} {hashlib.md5(PACKAGED.encode()).hexdigest()}\n", ""))
    host.answer("systemd-run", (0, "", ""))
    host.answer("systemctl", (0, "", ""))
    return file


@pytest.fixture
def ask(run: Run, sshd: Path, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """The module on that file."""
    fixed = {"file": str(sshd), "note": str(tmp_path / "note"), "groups": ["admins", "sudo"]}
    return lambda state="present", **more: run("ssh_for_jobs", **{**fixed, "state": state, **more})


def test_two_lines_of_the_file_become_blocks_and_all_else_stays(
    ask: Callable[..., dict[str, Any]], sshd: Path
) -> None:
    answer = ask(account="operator", says=SAYS, umask=True)
    assert (answer["changed"], answer["unproved"]) == (True, True)
    told = [line for line in sshd.read_text().splitlines() if line.startswith(("account", "sess"))]
    assert told == [
        "account    required     pam_nologin.so",
        "account substack common-account",
        "account [success=4 default=ignore] pam_succeed_if.so quiet uid < 1000",
        "account [success=3 default=ignore] pam_succeed_if.so quiet user in root:operator",
        "account [success=2 default=ignore] pam_succeed_if.so quiet user ingroup admins:sudo",
        "account [success=1 default=bad] pam_slurm_adopt.so action_adopt_failure=deny action_generic_failure=deny",
        f"account optional pam_echo.so {SAYS}",
        "account required pam_permit.so",
        "session    required     pam_loginuid.so",
        "session [success=3 default=ignore] pam_succeed_if.so quiet uid < 1000",
        "session [success=2 default=ignore] pam_succeed_if.so quiet user in root:operator",
        "session [success=1 default=ignore] pam_succeed_if.so quiet user ingroup admins:sudo",
        "session [default=2] pam_permit.so",
        "session substack common-session",
        "session [default=2] pam_permit.so",
        "session required pam_unix.so",
        "session optional pam_umask.so",
        "session    optional     pam_motd.so  motd=/run/motd.dynamic",
    ]
    (managed,) = answer["resources"]
    assert managed["name"] == str(sshd)
    assert managed["wanted"]["sha256"] == hashlib.sha256(sshd.read_bytes()).hexdigest()


def test_what_is_not_kept_comes_back_by_the_host_itself(
    ask: Callable[..., dict[str, Any]], sshd: Path, host: Host
) -> None:
    ask(undo_after=240)
    (armed,) = host.called("systemd-run")
    before = sshd.with_name(".sshd.before")
    assert "--on-active=240" in armed
    assert armed.endswith(f"mv -f {before} {sshd}")
    assert before.read_text() == PACKAGED


def test_a_host_that_cannot_put_it_back_is_not_touched(
    ask: Callable[..., dict[str, Any]], sshd: Path, host: Host
) -> None:
    host.answer("systemd-run", (1, "", "Failed to start transient timer unit: no bus"))
    answer = ask()
    assert answer["failed"]
    assert "no bus" in answer["msg"]
    assert sshd.read_text() == PACKAGED
    assert [path.name for path in sshd.parent.iterdir()] == ["sshd"]


def test_once_kept_there_is_nothing_more_to_do(
    ask: Callable[..., dict[str, Any]], sshd: Path, host: Host
) -> None:
    ask()
    written = sshd.read_text()
    assert ask("kept")["changed"]
    assert host.called("systemctl --quiet stop appliance-ssh-back.timer")
    answer = ask()
    assert (answer["changed"], answer["unproved"]) == (False, False)
    assert sshd.read_text() == written
    assert [path.name for path in sshd.parent.iterdir()] == ["sshd"]


def test_a_file_that_went_back_before_the_proof_is_no_success(
    ask: Callable[..., dict[str, Any]], sshd: Path
) -> None:
    ask()
    sshd.with_name(".sshd.before").replace(sshd)
    answer = ask("kept")
    assert "was put back after 300 s" in answer["msg"]


def test_a_run_that_was_cut_off_before_the_proof_is_proved_by_the_next(
    ask: Callable[..., dict[str, Any]], sshd: Path
) -> None:
    ask()
    written = sshd.read_text()
    answer = ask()
    assert (answer["changed"], answer["unproved"]) == (True, True)
    assert sshd.read_text() == written
    assert sshd.with_name(".sshd.before").read_text() == PACKAGED


def test_back_is_what_was_there(ask: Callable[..., dict[str, Any]], sshd: Path) -> None:
    ask()
    assert ask("back")["changed"]
    assert sshd.read_text() == PACKAGED
    assert not ask("back")["changed"]


def test_absent_leaves_the_packages_file_and_nothing_else(
    ask: Callable[..., dict[str, Any]], sshd: Path, tmp_path: Path, host: Host
) -> None:
    assert not ask("absent")["changed"]
    ask()
    ask("kept")
    assert ask("absent")["unproved"]
    ask("kept")
    assert sshd.read_text() == PACKAGED
    answer = ask("absent")
    assert (answer["changed"], answer["resources"]) == (False, [])
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["pam.d", "sshd"]


def test_without_the_wish_a_file_of_the_administrators_is_theirs(
    ask: Callable[..., dict[str, Any]], sshd: Path, host: Host
) -> None:
    sshd.write_text(PACKAGED + "session optional pam_theirs.so\n")
    assert not ask("absent")["changed"]
    assert not host.called("systemd-run")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("default=bad]", "default=ignore]"),
        ("@include common-auth", "auth sufficient pam_permit.so"),
    ],
)
def test_a_line_that_was_changed_by_hand_comes_back_in_block_and_around_it(
    ask: Callable[..., dict[str, Any]], sshd: Path, old: str, new: str
) -> None:
    ask()
    ask("kept")
    written = sshd.read_text()
    sshd.write_text(written.replace(old, new))
    assert ask()["changed"]
    assert sshd.read_text() == written


def test_what_administrators_had_changed_before_stays(
    ask: Callable[..., dict[str, Any]], sshd: Path
) -> None:
    theirs = PACKAGED + "session optional pam_theirs.so\n"
    sshd.write_text(theirs)
    ask()
    ask("kept")
    assert sshd.read_text().endswith("session optional pam_theirs.so\n")
    ask("absent")
    ask("kept")
    assert sshd.read_text() == theirs


def test_a_newer_file_of_the_package_is_taken(
    ask: Callable[..., dict[str, Any]], sshd: Path, host: Host
) -> None:
    ask()
    ask("kept")
    newer = PACKAGED.replace("pam_motd.so", "pam_newer.so")
    sshd.write_text(newer)
    host.answer("dpkg-query", (0, f" {sshd} {hashlib.md5(newer.encode()).hexdigest()}\n", ""))
    assert ask()["changed"]
    assert "pam_newer.so" in sshd.read_text()
    assert "pam_slurm_adopt.so" in sshd.read_text()


def test_a_file_without_its_package_s_lines_is_left_alone_and_named(
    ask: Callable[..., dict[str, Any]], sshd: Path
) -> None:
    sshd.write_text("account required pam_permit.so\n")
    assert "common-account and common-session are wanted" in ask()["msg"]
    assert sshd.read_text() == "account required pam_permit.so\n"


def test_check_mode_changes_nothing(run: Run, sshd: Path, tmp_path: Path, host: Host) -> None:
    given = {"file": str(sshd), "note": str(tmp_path / "note")}
    assert run("ssh_for_jobs", check=True, **given)["changed"]
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["pam.d", "sshd"]
    assert not host.called("systemd-run")


class Message(ctypes.Structure):
    _fields_ = (("style", ctypes.c_int), ("text", ctypes.c_char_p))


class Response(ctypes.Structure):
    _fields_ = (("text", ctypes.c_void_p), ("code", ctypes.c_int))


CONVERSE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_int,
    ctypes.POINTER(ctypes.POINTER(Message)),
    ctypes.POINTER(ctypes.POINTER(Response)),
    ctypes.c_void_p,
)


class Conversation(ctypes.Structure):
    _fields_ = (("converse", CONVERSE), ("data", ctypes.c_void_p))


NAME = ctypes.util.find_library("pam")
NOBODY = "nobody"
"""A number above those of the system's accounts, a group of its own, and on every machine."""


def logged_in(folder: Path, user: str) -> tuple[bool, bool, list[str]]:
    """Whether libpam lets ``user`` in, and opens a session; and what it says meanwhile."""
    pam, libc = ctypes.CDLL(NAME), ctypes.CDLL(None)
    libc.calloc.restype = ctypes.c_void_p
    said: list[str] = []

    def converse(count: int, messages: Any, responses: Any, _: object) -> int:
        said.extend(messages[i].contents.text.decode().strip() for i in range(count))
        room = libc.calloc(count, ctypes.sizeof(Response))
        responses[0] = ctypes.cast(room, ctypes.POINTER(Response))
        return 0

    talk = Conversation(CONVERSE(converse), None)
    handle = ctypes.c_void_p()
    begun = pam.pam_start_confdir(
        b"sshd", user.encode(), ctypes.byref(talk), str(folder).encode(), ctypes.byref(handle)
    )
    assert begun == 0
    account = pam.pam_acct_mgmt(handle, 0)
    session = pam.pam_open_session(handle, 0)
    pam.pam_end(handle, 0)
    return account == 0, session == 0, said


@pytest.fixture
def decided(
    ask: Callable[..., dict[str, Any]], sshd: Path
) -> Callable[..., tuple[bool, bool, list[str]]]:
    """What libpam makes of the written file; the word of pam_slurm_adopt is given."""
    if NAME is None or not hasattr(ctypes.CDLL(NAME), "pam_start_confdir"):
        pytest.skip("there is no libpam that reads a folder of its own")
    folder = sshd.parent
    plain = "\n".join(
        line for line in PACKAGED.splitlines() if "common-ac" in line or "common-s" in line
    )

    def decide(user: str, *, job: bool, local: str = "required", **more: Any) -> Any:
        # A line that is enough by itself, as sssd's has it for local accounts, ends what includes it.
        (folder / "common-account").write_text(f"account {local} pam_permit.so\n")
        (folder / "common-session").write_text("session optional pam_echo.so of all\n")
        sshd.write_text(plain + "\nsession optional pam_echo.so after\n")
        ask(says=SAYS, **more)
        # libpam reads what a folder of one's own includes from /etc, unless the path says where it is.
        given = {
            "pam_slurm_adopt.so": "pam_permit.so" if job else "pam_deny.so",
            "session required pam_unix.so": "session optional pam_echo.so of a job",
            "substack common-": f"substack {folder}/common-",
        }
        text = sshd.read_text()
        for old, new in given.items():
            assert old in text
            text = text.replace(old, new)
        sshd.write_text(text)
        return logged_in(folder, user)

    return decide


@pytest.mark.parametrize("local", ["required", "sufficient"])
def test_libpam_refuses_a_user_without_a_job_with_a_sentence(
    decided: Callable[..., tuple[bool, bool, list[str]]], local: str
) -> None:
    account, _, said = decided(NOBODY, job=False, local=local, groups=["root"])
    assert not account
    assert any(line.endswith("is for those with a job") for line in said)


def test_libpam_lets_in_who_has_a_job_and_leaves_the_session_where_it_is(
    decided: Callable[..., tuple[bool, bool, list[str]]],
) -> None:
    assert decided(NOBODY, job=True, groups=["root"]) == (True, True, ["of a job", "after"])


@pytest.mark.parametrize(
    ("user", "given"),
    [
        ("root", {"groups": ["nosuchgroup"]}),
        ("daemon", {"groups": ["nosuchgroup"]}),
        (NOBODY, {"account": NOBODY, "groups": []}),
        (NOBODY, {"groups": ["nosuchgroup", "nogroup"]}),
    ],
)
def test_libpam_never_shuts_out_who_runs_the_host(
    decided: Callable[..., tuple[bool, bool, list[str]]], user: str, given: dict[str, Any]
) -> None:
    assert decided(user, job=False, **given) == (True, True, ["of all", "after"])
