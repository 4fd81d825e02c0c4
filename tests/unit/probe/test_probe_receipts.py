"""Receipts re-observed: what was left alone is no drift, and every planted change is named."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.engine.run.desired_state import SETTLED
from appliance.models.facts import HostFacts, ProblemKind
from appliance.probe import files, places
from appliance.probe.__main__ import answer
from appliance.probe.accounts import OF_THE_SITE, UNREAD
from appliance.probe.drift import compare, differences
from appliance.probe.keys import BYTES

Grow = Callable[[dict[str, Any]], str]
PACKAGES = "chrony\tamd64\tinstalled\t4.3-2\tinstall\n"
UNIT = "LoadState=loaded\nActiveState={}\nSubState=x\nUnitFileState=enabled\n"
HOST = {
    "/etc/passwd": "root:x:0:0::/root:/bin/bash\nop:x:1001:1001::/home/op:/bin/bash\n",
    "/etc/group": "root:x:0:\nsudo:x:27:op\nadm:x:4:op,x\nop:x:1001:\n",
    "/etc/shadow": "root:*:1::::::\nop:!:1::::::\n",
    "/home/op/.ssh/authorized_keys": "ssh-ed25519 AAAA one\n# two\nssh-ed25519 BBBB two\n",
    "/etc/chrony/chrony.conf": "pool x\n",
    "/etc/app/.keep": "",
    "/etc/alias": {"link": "chrony/chrony.conf"},
    "/etc/login.defs": "#UMASK 022\n#appliance UMASK: UMASK\t022\nUMASK\t027\nUID_MIN 1000\n",
    "/proc/sys/kernel/pid_max": "4194304\n",
    "/proc/self/mountinfo": "42 25 0:60 / /data rw - nfs4 nas:/export rw\n",
    "/sys/module/rdma_cm/.keep": "",
    "/run/systemd/system/x": "",
    "/var/lib/dpkg/status": "",
    "/usr/bin/dpkg-query": {"when": {"-W": PACKAGES}, "exit": 1},
    "/usr/bin/systemctl": {"when": {"chrony.service": UNIT.format("active")}},
}
MANAGED = [
    ("file", "/etc/chrony/chrony.conf"),
    ("directory", "/etc/app"),
    ("home", "/home/op"),
    ("link", "/etc/alias"),
    ("absent", "/etc/old.conf"),
    ("package", "chrony"),
    ("package", "ntp"),
    ("unit", "chrony.service"),
    ("sysctl", "kernel.pid_max"),
    ("mount", "/data"),
    ("user", "op"),
    ("group", "op"),
    ("module", "rdma-cm"),
    ("keyword", "/etc/login.defs UMASK"),
]


def facts(root: str, **request: object) -> HostFacts:
    asked = {"areas": ["receipts", "resources"], **request}
    return HostFacts.model_validate_json(json.dumps(answer(json.dumps(asked).encode(), root)))


def resources(root: str) -> list[dict[str, Any]]:
    wanted = [{"kind": kind, "name": name} for kind, name in MANAGED]
    return [dict(state) for state in facts(root, resources=wanted).resources]


def write(root: str, states: list[dict[str, Any]], stage: str = "base", **changed: object) -> Path:
    receipt = {
        "version": 1,
        "stage": stage,
        "fingerprint": "f1",
        "written": "2026-11-20T13:00:00+00:00",
        "run": "r1",
        "appliance": "0.1.0",
        "resources": states,
        **changed,
    }
    path = Path(root) / "var/lib/appliance/receipts" / f"{stage}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(receipt))
    return path


@pytest.fixture
def root(grow: Grow) -> str:
    """A host on which the stage base has just finished."""
    root = grow(HOST)
    write(root, resources(root))
    return root


def drift(root: str) -> list[tuple[str, str, str, str]]:
    found = facts(root).receipts["base"]
    assert found.unread == 0
    return [(each.kind, each.name, each.expected, each.found) for each in found.drift]


def test_states_hold_what_a_change_would_show(root: str) -> None:
    by_name = {(state["kind"], state["name"]): state for state in resources(root)}
    assert by_name["file", "/etc/chrony/chrony.conf"]["mode"] == "0644"
    assert by_name["file", "/etc/chrony/chrony.conf"]["size"] == 7
    assert by_name["user", "op"]["groups"] == ["adm", "sudo"]
    assert by_name["package", "ntp"]["version"] is None
    assert by_name["module", "rdma-cm"]["loaded"] is True
    assert by_name["mount", "/data"]["source"] == "nas:/export"
    assert not [state for state in by_name.values() if "error" in state]


def test_an_untouched_host_has_no_drift(root: str) -> None:
    assert drift(root) == []
    receipt = facts(root).receipts["base"]
    assert (receipt.resources, receipt.fingerprint) == (len(MANAGED), "f1")
    assert receipt.versions == {"chrony": "4.3-2"}


def test_what_users_make_of_their_own_homes_is_no_drift(root: str) -> None:
    home = Path(root) / "home/op"
    home.chmod(0o711)
    (home / ".profile").write_text("umask 002\n")
    assert drift(root) == []
    home.rename(home.with_name("gone"))
    assert ("home", "/home/op", "present", "missing") in drift(root)


CONF = "etc/chrony/chrony.conf"
CHANGES: list[tuple[Callable[[Path], object], tuple[str, str, str, str]]] = [
    (lambda r: (r / CONF).chmod(0o600), ("file", f"/{CONF}", "mode 0644", "mode 0600")),
    (
        lambda r: (r / CONF).write_text("pool y\n"),
        ("file", f"/{CONF}", "as written", "changed (sha256 5bd8…)"),
    ),
    (lambda r: (r / CONF).rename(r / "etc/x"), ("file", f"/{CONF}", "present", "missing")),
    (lambda r: (r / "etc/app").chmod(0o700), ("directory", "/etc/app", "mode 0755", "mode 0700")),
    (
        lambda r: (r / "etc/app").rename(r / "etc/y"),
        ("directory", "/etc/app", "present", "missing"),
    ),
    (lambda r: (r / "etc/old.conf").touch(), ("absent", "/etc/old.conf", "absent", "present")),
    (lambda r: script(r, "dpkg-query", ""), ("package", "chrony", "4.3-2", "removed")),
    (
        lambda r: script(r, "dpkg-query", PACKAGES.replace("4.3", "4.3~rc1")),
        ("package", "chrony", "4.3-2", "4.3~rc1-2"),
    ),
    (
        lambda r: script(r, "dpkg-query", PACKAGES.replace("installed", "half-configured")),
        ("package", "chrony", "4.3-2", "half-configured"),
    ),
    (
        lambda r: script(r, "dpkg-query", PACKAGES + "ntp\tamd64\tinstalled\t1.0\tinstall\n"),
        ("package", "ntp", "absent", "1.0"),
    ),
    (
        lambda r: script(r, "systemctl", UNIT.format("inactive")),
        ("unit", "chrony.service", "active", "inactive"),
    ),
    (
        lambda r: script(
            r, "systemctl", "LoadState=not-found\nActiveState=inactive\nUnitFileState=\n"
        ),
        ("unit", "chrony.service", "active, enabled", "missing"),
    ),
    (
        lambda r: (r / "proc/sys/kernel/pid_max").write_text("32768\n"),
        ("sysctl", "kernel.pid_max", "4194304", "32768"),
    ),
    (
        lambda r: (r / "proc/self/mountinfo").write_text(""),
        ("mount", "/data", "mounted", "not mounted"),
    ),
    (
        lambda r: (r / "proc/self/mountinfo").write_text("4 2 0:6 / /data rw - nfs4 b:/x rw\n"),
        ("mount", "/data", "source nas:/export", "source b:/x"),
    ),
    (
        lambda r: (r / "etc/group").write_text("root:x:0:\nop:x:1001:\nadm:x:4:op\n"),
        ("user", "op", "groups adm,sudo", "groups adm"),
    ),
    (
        lambda r: (r / "etc/passwd").write_text("root:x:0:0::/root:/bin/bash\n"),
        ("user", "op", "present", "missing"),
    ),
    (
        lambda r: (r / "sys/module/rdma_cm").rename(r / "sys/x"),
        ("module", "rdma-cm", "loaded", "not loaded"),
    ),
    (
        lambda r: (r / "etc/login.defs").write_text("UMASK 027\nUMASK\t022\n"),
        ("keyword", "/etc/login.defs UMASK", "027", "027, 022"),
    ),
]


def script(root: Path, tool: str, said: str) -> None:
    (root / "usr/bin" / tool).write_text(f"#!/bin/sh\ncat <<'END'\n{said}END\n")


@pytest.mark.parametrize(
    ("change", "expected"), CHANGES, ids=[f"{c[1][0]}-{c[1][3]}" for c in CHANGES]
)
def test_a_change_is_named(
    root: str, change: Callable[[Path], object], expected: tuple[str, str, str, str]
) -> None:
    change(Path(root))
    assert drift(root) == [expected]


NEWER, HELD = PACKAGES.replace("4.3", "4.5"), PACKAGES.replace("install\n", "hold\n")
BOTH = NEWER.replace("install\n", "hold\n")


@pytest.mark.parametrize(
    ("left", "now", "expected"),
    [
        (PACKAGES, NEWER, []),
        (PACKAGES, BOTH, []),
        (HELD, BOTH, [("package", "chrony", "4.3-2", "4.5-2")]),
        (HELD, HELD.replace("4.3", "4.1"), [("package", "chrony", "4.3-2", "4.1-2")]),
        (HELD, PACKAGES, [("package hold", "chrony", "held", "not held")]),
        (PACKAGES, HELD, []),
    ],
    ids=["updated", "updated and held", "held", "held, older", "hold gone", "hold of others"],
)
def test_an_update_is_drift_only_of_what_the_stage_holds(
    root: str, left: str, now: str, expected: list[tuple[str, str, str, str]]
) -> None:
    script(Path(root), "dpkg-query", left)
    write(root, resources(root))
    script(Path(root), "dpkg-query", now)
    assert drift(root) == expected


@pytest.mark.parametrize("now", [NEWER, BOTH])
def test_of_an_earlier_release_s_receipt_what_is_held_now_counts(root: str, now: str) -> None:
    write(root, [{k: v for k, v in s.items() if k != "held"} for s in resources(root)])
    script(Path(root), "dpkg-query", now)
    assert len(drift(root)) == (now == BOTH)


RPM = "kubelet\tx86_64\tinstalled\t1.35.4-1\nchrony\tx86_64\tinstalled\t1:4.3-1.el9\n"


def test_with_rpm_what_our_package_source_excludes_is_held(grow: Grow) -> None:
    source = "[k]\nname=Kubernetes\nexcludepkgs=kubelet,kubeadm\n"
    files = {
        "/etc/yum.repos.d/appliance-kubernetes.repo": source,
        "/usr/bin/rpm": {"when": {"": RPM}},
    }
    root = grow(files)
    wanted = [{"kind": "package", "name": name} for name in ("kubelet", "chrony")]
    write(root, [dict(state) for state in facts(root, resources=wanted).resources])
    script(Path(root), "rpm", RPM.replace("35.4", "35.10").replace("1:4.3-1", "1:4.3-2"))
    assert drift(root) == [("package", "kubelet", "1.35.4-1", "1.35.10-1")]
    script(Path(root), "rpm", RPM.replace("1:4.3-1", "4.9-1"))
    assert drift(root) == [("package", "chrony", "1:4.3-1.el9", "4.9-1.el9")]


def test_keys_may_change_their_order_but_not_their_number(root: str) -> None:
    keys = Path(root) / "home/op/.ssh/authorized_keys"
    keys.write_text("ssh-ed25519 BBBB two\n\nssh-ed25519  AAAA one\n")
    assert drift(root) == []
    keys.write_text("ssh-ed25519 BBBB two\n")
    ((kind, name, expected, found),) = drift(root)
    assert (kind, name) == ("keys of user", "op")
    assert expected.endswith("…")
    assert found.endswith("…")
    assert expected != found


def test_a_file_turned_into_a_link_or_a_folder_is_drift(root: str) -> None:
    path = Path(root) / CONF
    path.rename(path.with_name("real"))
    path.symlink_to("real")
    # /etc/alias leads to the same file, and itself did not change.
    assert drift(root) == [("file", f"/{CONF}", "target none", "target real")]
    path.unlink()
    path.mkdir()
    assert drift(root) == [("file", f"/{CONF}", "present", "a directory")]


@pytest.mark.parametrize("passing", ["activating", "reloading", "deactivating"])
def test_a_unit_that_only_passes_through_a_state_is_no_drift(root: str, passing: str) -> None:
    script(Path(root), "systemctl", UNIT.format(passing))
    assert drift(root) == []


def test_a_passing_unit_that_was_disabled_is_drift() -> None:
    unit = {"kind": "unit", "name": "a", "active": "active", "enabled": "enabled"}
    assert compare(unit, {**unit, "active": "activating", "enabled": "disabled"}) == (
        "enabled",
        "disabled",
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON"),
        ("[]", "not a receipt of version 1"),
        ('{"version": 2}', "not a receipt of version 1"),
        ('{"version": 1, "stage": "gpu"}', "of another stage: gpu"),
        ('{"version": 1, "stage": "base"}', "lacks one of fingerprint"),
    ],
)
def test_a_receipt_that_cannot_be_believed_is_drift(root: str, text: str, why: str) -> None:
    (Path(root) / "var/lib/appliance/receipts/base.json").write_text(text)
    ((kind, name, expected, found),) = drift(root)
    assert (kind, name) == ("receipt", "/var/lib/appliance/receipts/base.json")
    assert expected == "readable"
    assert why in found


def test_resources_that_are_no_states_are_not_believed(root: str) -> None:
    write(root, [{"kind": "file"}])
    assert drift(root)[0][3] == "its resources are not a list of states"


def test_what_could_not_be_read_is_counted_and_not_taken_for_intact(root: str) -> None:
    write(
        root, [{"kind": "file", "name": "/x", "error": "needs root"}, {"kind": "sofa", "name": "y"}]
    )
    found = facts(root)
    assert found.receipts["base"].unread == 2
    assert found.errors["receipts"] == "base: 2 unread, /x: needs root"
    assert not found.has("receipts", ProblemKind.DENIED)


def test_a_resource_the_login_user_may_not_see_is_known_by_its_kind(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> str:
        raise PermissionError(13, "Permission denied", path)

    write(root, [{"kind": "link", "name": "/x", "target": "y"}])
    monkeypatch.setattr(files, "link", refuse)
    found = facts(root)
    assert found.errors["receipts"] == "base: 1 unread, /x: needs root"
    assert found.has("receipts", ProblemKind.DENIED)


def test_a_broken_package_query_leaves_packages_unread(root: str) -> None:
    (Path(root) / "usr/bin/dpkg-query").write_text("#!/bin/sh\nexit 2\n")
    found = facts(root)
    assert found.receipts["base"].unread == 2
    assert "dpkg-query failed with 2" in found.errors["receipts"]


def test_one_query_serves_all_receipts_and_requests(root: str) -> None:
    calls = Path(root) / "calls"
    for tool, said in (("dpkg-query", PACKAGES), ("systemctl", UNIT.format("active"))):
        text = f"#!/bin/sh\necho {tool} >> {calls}\ncat <<'END'\n{said}END\n"
        (Path(root) / "usr/bin" / tool).write_text(text)
    write(root, resources(root), "fabric")
    calls.unlink()
    asked = {"units": ["chrony.service"], "packages": ["chrony"]}
    found = facts(root, areas=["receipts", "units", "packages"], **asked)
    assert set(found.receipts) == {"base", "fabric"}
    assert found.packages == {"chrony": "4.3-2"}
    assert sorted(calls.read_text().split()) == ["dpkg-query", "systemctl"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user here")
def test_without_privilege_receipts_say_that_they_need_root(root: str) -> None:
    folder = Path(root) / "var/lib/appliance/receipts"
    folder.chmod(0o700)
    for parent in folder.parents:
        if str(parent).startswith("/tmp") and parent != Path("/tmp"):
            parent.chmod(0o755)
    os.seteuid(65534)
    try:
        found = facts(root)
    finally:
        os.seteuid(0)
    assert found.receipts == {}
    assert found.errors["receipts"].startswith("needs root to read")
    assert found.has("receipts", ProblemKind.DENIED)


USER = {
    **HOST,
    "/etc/group": "appliance-users:x:990:op\nop:x:1001:\n",
}


def test_what_users_of_the_site_put_into_their_own_file_of_keys_is_no_drift(grow: Grow) -> None:
    root = grow(USER)
    write(root, resources(root))
    keys = Path(root) / "home/op/.ssh/authorized_keys"
    keys.write_text("ssh-ed25519 CCCC my own\n")
    assert drift(root) == []
    keys.unlink()
    # A link is not looked at: it may lead to what is nobody's to read.
    keys.symlink_to("/etc/shadow")
    assert drift(root) == []


def test_neither_is_it_where_an_earlier_release_wrote_the_receipt(grow: Grow) -> None:
    root = grow(USER)
    states = resources(root)
    for state in states:
        if state["kind"] == "user":
            state["keys_sha256"] = "0" * 64
    write(root, states)
    assert drift(root) == []


def test_whoever_becomes_a_user_by_hand_is_told(root: str) -> None:
    """Nobody hides keys by that."""
    path = Path(root) / "etc/group"
    path.write_text(path.read_text() + "appliance-users:x:990:op\n")
    (Path(root) / "home/op/.ssh/authorized_keys").write_text("ssh-rsa DDDD x\n")
    assert [(kind, name) for kind, name, *_ in drift(root)] == [("user", "op")]


def test_what_an_account_hides_from_the_receipt_stops_no_deployment(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stage fails where a settled kind differs still; whose keys they are may change them while it is judged."""
    ssh = Path(root) / "home/op/.ssh"
    ssh.parent.chmod(0o777)
    monkeypatch.setattr(places, "_ROOTS", set())
    ssh.rename(ssh.with_name("away"))
    ssh.symlink_to("away")
    write(root, resources(root))
    assert ("user", "op") not in [(kind, name) for kind, name, *_ in drift(root)]
    ssh.unlink()
    ssh.with_name("away").rename(ssh)
    assert drift(root) == []
    (ssh / "authorized_keys").write_text("ssh-rsa DDDD x\n")
    assert drift(root) == []
    assert "keys of user" not in SETTLED


def test_keys_without_end_are_not_read(root: str) -> None:
    """Millions of lines took seconds of each look, for each account that may do so."""
    path = Path(root) / "home/op/.ssh/authorized_keys"
    path.write_text("ssh-ed25519 AAAA one\n" + "\n" * BYTES)
    assert [(kind, name, now) for kind, name, _, now in drift(root)] == [
        ("keys of user", "op", UNREAD)
    ]


def test_the_group_of_users_is_called_as_the_role_calls_it() -> None:
    role = Path(__file__).parents[3] / "roles/base/vars/main.yml"
    assert f"__base_user_group: {OF_THE_SITE}\n" in role.read_text()


@pytest.mark.parametrize("way", ["a link", "no end"])
def test_what_an_account_does_to_its_own_file_is_drift_and_no_gap(
    grow: Grow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Else no deployment would put it right."""
    file = "/home/op/.ssh/authorized_keys"
    root = grow(HOST)
    write(root, [{"kind": "file", "name": file, "mode": "0600", "sha256": "x"}])
    keys = tmp_path / file[1:]
    keys.unlink()
    (tmp_path / "home/op/.ssh").chmod(0o777)
    if way == "a link":
        keys.symlink_to("/etc/shadow")
    else:
        keys.touch()
        os.truncate(keys, 1 << 33)
        if os.geteuid() == 0:
            os.chown(keys, 1001, 1001)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: 1001)
    found = facts(root)
    (drift,) = found.receipts["base"].drift
    assert (drift.kind, drift.name, drift.expected) == ("file", file, "as written")
    assert drift.found.startswith("not read: ")
    assert "receipts" not in found.errors
    (state,) = facts(root, resources=[{"kind": "file", "name": file}]).resources
    write(root, [dict(state)])
    assert [d.name for d in facts(root).receipts["base"].drift] == [file]
    keys.unlink()
    keys.write_text("ssh-ed25519 AAAA one\n")
    assert [d.found for d in facts(root).receipts["base"].drift] == ["not read before"]


def test_a_link_is_judged_by_where_it_leads() -> None:
    was = {"kind": "link", "name": "/etc/localtime", "target": "/usr/share/zoneinfo/Etc/UTC"}
    assert not differences(was, {**was, "target": "../usr/share/zoneinfo/Etc/UTC"})
    (told,) = differences(was, {**was, "target": "../usr/share/zoneinfo/Asia/Tokyo"})
    assert told[2] == "target /usr/share/zoneinfo/Asia/Tokyo"
