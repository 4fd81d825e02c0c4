"""What hosts are beside their stages: kept where it changed, compared with another day, and nothing told twice."""

from dataclasses import replace
from typing import Any

from appliance.engine.look.gather import Round
from appliance.engine.look.posture import Day, keep_postures, posture_differences
from appliance.engine.session import Session
from appliance.models.facts import HostFacts
from appliance.report.difference_lines import lines
from appliance.stages.base.site import BaseOptions
from tests.support.engine_fakes import receipt_of
from tests.support.facts import facts_of

KEY = "SHA256:abc"
BUILT = {
    "account": {"backup": "shell /usr/sbin/nologin"},
    "package": {"nano": "7.2", "numactl": "2.0"},
    "socket": {"tcp 22": "sshd"},
}


def host(things: dict[str, Any] | None, *owned: str, **more: Any) -> HostFacts:
    posture = None if things is None else {"things": things, "owned": owned}
    return facts_of("gpu-1", posture=posture, **more)


def told(session: Session, now: HostFacts, day: Day | None = None) -> list[str]:
    return lines(posture_differences(session, day or Day(), {"gpu-1": now}))


def kept(session: Session, facts: HostFacts) -> None:
    keep_postures(session, Round({"gpu-1": facts}, {}))


def test_what_was_added_removed_and_changed_is_one_line_each(session: Session) -> None:
    kept(session, host(BUILT))
    now = {
        "account": {"backup": "shell /bin/sh", "mallory": "uid 0"},
        "package": {"nano": "7.2"},
        "socket": {"tcp 22": "sshd", "tcp 4444": "nc"},
    }
    assert told(session, host(now)) == [
        "- gpu-1: package numactl was removed: 2.0",
        "+ gpu-1: account mallory is new: uid 0",
        "+ gpu-1: socket tcp 4444 is new: nc",
        "~ gpu-1: account backup: shell /usr/sbin/nologin then, shell /bin/sh now",
    ]


def test_what_a_stage_left_then_or_now_is_its_own_check_s(session: Session) -> None:
    kept(session, host(BUILT, "package numactl"))
    now = {**BUILT, "package": {}, "account": {**BUILT["account"], "ada": "uid 1000"}}
    now["key"] = {f"{KEY} of ada": "ssh-ed25519"}
    kept(session, host({**BUILT, "key": {}}, "package numactl"))
    assert told(session, host(now, "account ada", "package nano")) == []


def test_a_package_of_a_stage_in_another_version_is_told_here_unless_it_is_drift(
    session: Session,
) -> None:
    kept(session, host(BUILT, "package numactl"))
    now = host({**BUILT, "package": {"nano": "7.2", "numactl": "2.1"}}, "package numactl")
    assert told(session, now) == ["~ gpu-1: package numactl: 2.0 then, 2.1 now"]
    drift = {"kind": "package", "name": "numactl", "expected": "2.0", "found": "2.1"}
    receipt = receipt_of("base", "", drift=[drift])
    assert told(session, now.model_copy(update={"receipts": {"base": receipt}})) == []


def test_what_base_foreign_names_is_not_said_twice(session: Session) -> None:
    kept(session, host({"account": {}, "sudoers file": {}, "key": {}}))
    now = {
        "account": {"mallory": "uid 0"},
        "sudoers file": {"/etc/sudoers.d/x": "content 1"},
        "key": {f"{KEY} of root": "ssh-ed25519"},
    }
    words = {"owner": "root", "modified": 0}
    foreign = [
        {"kind": "account", "at": "mallory", **words},
        {"kind": "file", "at": "/etc/sudoers.d/x", **words},
        {"kind": "key", "at": "/root/.ssh/authorized_keys", "line": f"ssh-ed25519 {KEY}", **words},
    ]
    assert told(session, host(now, foreign=foreign)) == []
    assert len(told(session, host(now))) == 3


def test_what_a_system_account_has_too_much_is_not_said_twice_either(session: Session) -> None:
    kept(session, host({"account": {"munge": "uid 110"}, "package": {}}))
    now = {"account": {"munge": "uid 110, groups sudo"}, "package": {"munge": "0.5.15"}}
    found = {"kind": "group", "at": "munge", "line": "sudo", "owner": "root", "modified": 0}
    assert told(session, host(now, foreign=[found])) == ["+ gpu-1: package munge is new: 0.5.15"]


def test_crontabs_of_users_are_told_only_where_their_jobs_alone_bring_them(
    session: Session,
) -> None:
    bob = {"name": "bob", "uid": 2001, "keys": [f"ssh-ed25519 {'A' * 68} bob"]}
    base = BaseOptions.model_validate({"users": [bob]})
    meant = replace(session, site=session.site.model_copy(update={"base": base}))
    at = "/var/spool/cron/crontabs/"
    now = {"cron file": {f"{at}bob": "content 1", f"{at}eve": "content 2"}}
    for name in ("head", "gpu-1"):
        there = facts_of(name, posture={"things": {"cron file": {}}, "owned": ()})
        keep_postures(meant, Round({name: there}, {}))
        there = facts_of(name, posture={"things": now, "owned": ()})
        said = lines(posture_differences(meant, Day(), {name: there}))
        people = ["bob", "eve"] if name == "gpu-1" else ["eve"]
        assert [line.split()[4] for line in said] == [f"{at}{person}" for person in people]


def test_what_was_not_read_then_or_now_is_unknown_and_not_gone(session: Session) -> None:
    assert "were not recorded then" in told(session, host(BUILT))[0]
    kept(session, host(BUILT))
    less = {kind: things for kind, things in BUILT.items() if kind != "account"}
    assert told(session, host(less)) == ["? gpu-1: each account could not be read"]
    assert told(session, host(None, errors={"posture": "needs root"})) == [
        "? gpu-1: unmanaged accounts, packages and files are unknown: needs root"
    ]


def test_what_costs_a_look_at_every_file_is_compared_where_it_was_asked_for(
    session: Session,
) -> None:
    kept(session, host({**BUILT, "setuid file": {"/bin/su": "mode 4755"}}))
    kept(session, host(BUILT))
    assert told(session, host(BUILT)) == []
    assert told(session, host({**BUILT, "setuid file": {}})) == [
        "- gpu-1: setuid file /bin/su was removed: mode 4755"
    ]


def test_the_journal_keeps_a_host_once_while_it_stays_as_it_is(session: Session) -> None:
    for _ in range(3):
        kept(session, host(BUILT))
    assert len(list(session.journal.entries("posture"))) == 1
    (first,) = session.journal.entries("posture")
    kept(session, host({**BUILT, "socket": {}}))
    assert len(list(session.journal.entries("posture"))) == 2
    assert told(session, host(BUILT), Day(seq=first.seq)) == []
    assert told(session, host(BUILT)) == ["+ gpu-1: socket tcp 22 is new: sshd"]


def test_what_lies_as_its_package_brought_it_is_not_listed_and_yet_known(session: Session) -> None:
    kept(session, host({"package file": {}, "file mode": {"/etc/x": "0600, of root:root"}}))
    now = {"package file": {"/usr/bin/nproc": "content 12"}, "file mode": {}}
    assert told(session, host(now)) == [
        "~ gpu-1: file mode /etc/x: 0600, of root:root then, as usual now",
        "~ gpu-1: package file /usr/bin/nproc: as in its package then, content 12 now",
    ]


def test_what_has_no_content_is_told_when_it_comes_and_when_it_goes(session: Session) -> None:
    kept(session, host({"configuration file": {"/etc/old": ""}}))
    assert told(session, host({"configuration file": {"/etc/new": ""}})) == [
        "~ gpu-1: configuration file /etc/new has changed",
        "~ gpu-1: configuration file /etc/old has changed",
    ]
