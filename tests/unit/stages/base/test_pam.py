"""Whether PAM's stacks let in the right ones, by every answer that their modules may give."""

from typing import Any

import pytest

from appliance.checks.check import View
from appliance.models.facts_host import Access, PamRow
from appliance.models.result import CheckResult, Status
from tests.support.facts import facts_of
from tests.support.judging import said_by
from tests.support.profiles import profile_of
from tests.support.sites import site_of

DEBIAN = {
    "common-auth": "auth [success=1 default=ignore] pam_unix.so\nauth requisite pam_deny.so\nauth required pam_permit.so",
    "common-account": "account [success=1 new_authtok_reqd=done default=ignore] pam_unix.so\naccount requisite pam_deny.so\naccount required pam_permit.so",
    "common-session": "session [default=1] pam_permit.so\nsession requisite pam_deny.so\nsession required pam_permit.so\nsession required pam_unix.so",
    "sshd": "auth include common-auth\naccount required pam_nologin.so\naccount include common-account\nsession required pam_loginuid.so\nsession include common-session",
    "sudo": "session required pam_limits.so\nauth include common-auth\naccount include common-account\nsession include common-session",
    "su": "auth sufficient pam_rootok.so\nauth include common-auth",
    "login": "auth optional pam_faildelay.so\nauth requisite pam_nologin.so\nauth include common-auth",
}
RED_HAT = {
    "password-auth": "auth required pam_env.so\nauth required pam_faildelay.so\nauth [default=1 ignore=ignore success=ok] pam_usertype.so\n"
    "auth [default=1 ignore=ignore success=ok] pam_localuser.so\nauth sufficient pam_unix.so\nauth [default=1 ignore=ignore success=ok] pam_usertype.so\n"
    "auth sufficient pam_sss.so\nauth required pam_deny.so\naccount required pam_unix.so\naccount sufficient pam_localuser.so\n"
    "account sufficient pam_usertype.so\naccount [default=bad success=ok user_unknown=ignore] pam_sss.so\naccount required pam_permit.so\n"
    "session optional pam_keyinit.so\nsession [success=1 default=ignore] pam_succeed_if.so\nsession required pam_unix.so",
    "postlogin": "session optional pam_umask.so",
    "sshd": "auth substack password-auth\nauth include postlogin\naccount required pam_sepermit.so\naccount required pam_nologin.so\n"
    "account include password-auth\nsession required pam_loginuid.so\nsession include password-auth\nsession include postlogin",
    "sudo": "auth include password-auth\naccount include password-auth\nsession include password-auth",
    "su": "auth required pam_env.so\nauth sufficient pam_rootok.so\nauth substack password-auth",
    "login": "auth substack password-auth",
}


def rows(texts: dict[str, str], *missing: str) -> tuple[PamRow, ...]:
    found = []
    for name, text in texts.items():
        for number, line in enumerate(text.split("\n"), 1):
            kind, _, rest = line.partition(" ")
            control, _, module = rest.rpartition(" ")
            one = PamRow(at=f"{name}:{number}", type=kind, control=control, module=module)
            found.append(one.model_copy(update={"missing": module in missing}))
    return tuple(found)


def judged(found: tuple[PamRow, ...], **os: Any) -> list[CheckResult]:
    facts = facts_of("gpu-1", access=Access(homes=(), pam=found))
    facts = facts.model_copy(update={"os": facts.os.model_copy(update={"like": (), **os})})
    return said_by("base.access", View(profile_of(), site_of("gpu-1"), {"gpu-1": facts}))


def but(texts: dict[str, str], name: str, first: str) -> dict[str, str]:
    return {**texts, name: f"{first}\n{texts[name]}"}


@pytest.mark.parametrize("texts", [DEBIAN, RED_HAT], ids=["debian", "red hat"])
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("sshd", "account required pam_slurm_adopt.so"),
        ("sshd", "account [success=2 default=ignore] pam_succeed_if.so"),
        ("sshd", "account sufficient pam_access.so"),
        ("sshd", "auth sufficient pam_sss.so"),
        ("su", "auth [success=ignore default=die] pam_wheel.so"),
        ("su", "auth sufficient pam_succeed_if.so"),
        ("su", "auth required pam_deny.so"),
        ("sudo", "auth sufficient pam_permit.so"),
        ("login", "auth required pam_securetty.so"),
    ],
)
def test_what_distributions_and_sites_write_is_sound(
    texts: dict[str, str], name: str, line: str
) -> None:
    (plain,) = judged(rows(texts))
    assert plain.status is Status.PASS
    (one,) = judged(rows(but(texts, name, line)))
    assert one.status is Status.PASS


@pytest.mark.parametrize("texts", [DEBIAN, RED_HAT], ids=["debian", "red hat"])
@pytest.mark.parametrize(
    ("name", "line", "cause"),
    [
        ("su", "auth sufficient pam_permit.so", "accepts everybody without a password"),
        ("su", "auth sufficient pam_localuser.so", "accepts everybody without a password"),
        ("login", "auth [success=done default=bad] pam_permit.so", "accepts everybody"),
        ("sshd", "account required pam_deny.so", "no one can log in by ssh"),
        ("sshd", "session requisite pam_deny.so", "no one can log in by ssh"),
        ("sudo", "account [default=die] pam_deny.so", "no admin can use sudo"),
    ],
)
def test_a_line_that_decides_for_everybody_is_named_and_taken_away(
    texts: dict[str, str], name: str, line: str, cause: str
) -> None:
    (one,) = judged(rows(but(texts, name, line)))
    module = line.rpartition(" ")[2].replace(".", r"\.")
    assert one.status is Status.FAIL
    assert cause in one.cause
    if "localuser" in line:
        assert one.target == f"gpu-1/etc/pam.d/{name}"
        return
    assert (one.target, one.value) == (f"gpu-1/etc/pam.d/{name}", line.rpartition(" ")[2])
    expected = f"on gpu-1: sed -i '1{{/{module}/d}}' /etc/pam.d/{name}"
    assert (one.fix == expected) == any(
        row.type == line.split()[0] and row.module not in {"pam_deny.so", "pam_permit.so"}
        for row in rows({name: texts[name]})
    )


def test_one_line_of_a_common_file_is_one_result() -> None:
    (one,) = judged(rows(but(DEBIAN, "common-auth", "auth sufficient pam_permit.so")))
    assert (one.status, one.target) == (Status.FAIL, "gpu-1/etc/pam.d/common-auth")
    assert r"sed -i '1{/pam_permit\.so/d}' /etc/pam.d/common-auth" in one.fix


def test_a_module_that_is_not_installed_is_named() -> None:
    changed = but(DEBIAN, "sshd", "account required pam_slurm_adopt.so")
    (one,) = judged(rows(changed, "pam_slurm_adopt.so"))
    assert "account required pam_slurm_adopt.so, names a module that is not installed" in one.cause
    assert r"'1{/pam_slurm_adopt\.so/d}' /etc/pam.d/sshd" in one.fix


@pytest.mark.parametrize(("like", "fix"), [(("debian",), "pam-auth-update"), ((), "authselect")])
def test_the_distributions_own_refusal_is_never_removed(like: tuple[str, ...], fix: str) -> None:
    """Without pam_unix the next line that would go is the one that keeps everybody out."""
    text = DEBIAN["common-auth"].partition("\n")[2]
    (one,) = judged(rows({**DEBIAN, "common-auth": text}), id="debian" if like else "rocky")
    assert one.status is Status.WARN
    assert "no one can log in at the console" in one.cause
    assert fix in one.fix
    assert "sed" not in one.fix


def test_files_that_include_each_other_end() -> None:
    loop = {"sshd": "auth include sshd\nauth substack su", "su": "auth substack sshd"}
    assert judged(rows(loop))


def test_no_name_of_a_host_gets_into_a_command() -> None:
    row = PamRow(at="x;reboot:1", type="auth", control="sufficient", module="pam_permit.so")
    su = PamRow(at="su:1", type="auth", control="include", module="x;reboot")
    (one,) = judged((row, su))
    assert "reboot" not in one.fix


def test_lines_that_are_not_all_known_are_no_pass() -> None:
    access = Access(homes=(), pam_unread="201 lines decide; 200 are read at most")
    view = View(profile_of(), site_of("gpu-1"), {"gpu-1": facts_of("gpu-1", access=access)})
    (one,) = said_by("base.access", view)
    assert (one.status, one.target) == (Status.NOT_ASSESSED, "gpu-1/etc/pam.d")
    assert "201 lines decide" in one.cause
