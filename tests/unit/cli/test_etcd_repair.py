"""appliance etcd repair on made-up hosts: in what order, what it deletes, and what it leaves alone."""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from appliance.adapters.process import Completed
from appliance.engine.look.gather import PYTHON
from appliance.errors import ApplianceError, ConfigError
from tests.support.engine_session import hosts, recorder, session
from tests.support.etcd_bench import HEADS, Bench, bench
from tests.support.role_programs import program

__all__ = ["bench", "hosts", "recorder", "session"]

MB = 10**6
HOARD = {"namespace": "kai-hoard", "kind": "configmaps", "count": 1800, "bytes": 90 * MB}
SYSTEM = {"namespace": "kube-system", "kind": "secrets", "count": 2, "bytes": 95 * MB}
HOSTILE = {"namespace": "a b;c", "kind": "--all", "count": 2, "bytes": 93 * MB}
host = program(Path("roles/kubernetes/files/usr/local/sbin/appliance-etcd-repair"))


class Members:
    """Three members of one etcd; ``in_use`` bytes are objects, the rest of ``size`` is free space."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.size = dict.fromkeys(HEADS, 100 * MB)
        self.in_use, self.quota, self.count = 10 * MB, 100 * MB, 0
        self.alarms = ["NOSPACE"]
        self.leader = HEADS[0]
        self.groups = [SYSTEM, HOSTILE, HOARD]
        self.stay = 0
        self.silent: set[str] = set()

    def run(self, name: str, argv: Sequence[str], **_: Any) -> Completed:
        if argv[0] == PYTHON:
            return Completed(tuple(argv), 0, '{"taken": true}', "")
        words = argv[1 : argv.index("--folder")]
        self.asked.append((name, *words))
        if name in self.silent:
            return Completed(tuple(argv), 1, "", "appliance-etcd-repair: etcdctl: deadline")
        return Completed(tuple(argv), 0, json.dumps(self.answer(name, *words)), "")

    def answer(self, name: str, word: str, objects: str = "") -> object:
        if word == "look":
            known = {"bytes": self.size[name], "in_use": self.in_use, "quota": self.quota}
            leads = name == self.leader
            return {**known, "revision": 7, "leads": leads, "alarms": self.alarms}
        if word == "largest":
            return {"groups": self.groups, "complete": True}
        if word == "delete":
            self.count = max(self.stay, self.count - 1000)
            self.in_use = 10 * MB if not self.count else self.in_use
        elif word == "defragment":
            self.size[name] = self.in_use
        elif word == "disarm":
            self.alarms = []
        return {"count": self.count, "why": "a finalizer" if self.stay else ""}

    def did(self, *words: str) -> list[tuple[str, ...]]:
        return [(name, *rest) for name, *rest in self.asked if rest[0] in words]


@pytest.fixture
def members(bench: Bench, session: Any) -> Members:
    made = Members()
    object.__setattr__(session, "remote", made)
    return made


def repair(bench: Bench, *argv: str) -> Result:
    return bench.run("repair", "--yes", *argv)


def refusal(bench: Bench, *argv: str) -> ApplianceError:
    error = repair(bench, *argv).exception
    assert isinstance(error, ApplianceError)
    return error


def test_members_are_defragmented_one_after_the_other_and_the_leader_last(
    bench: Bench, members: Members
) -> None:
    assert repair(bench).return_value == 0
    first, second, third = HEADS
    assert members.did("compact", "defragment", "disarm") == [
        (first, "compact"),
        *((second, "defragment"), (third, "defragment"), (first, "defragment")),
        (first, "disarm"),
    ]


def test_where_nobody_agrees_nothing_is_changed(bench: Bench, members: Members) -> None:
    assert bench.run("repair").return_value != 0
    assert {words[1] for words in members.asked} <= {"look"}


def test_objects_that_fill_it_are_named_with_the_command_and_the_alarm_stays(
    bench: Bench, members: Members
) -> None:
    members.in_use = 95 * MB
    error = refusal(bench)
    assert error.exit_code == 1
    assert error.hint == "appliance etcd repair --delete kai-hoard/configmaps"
    assert "1800 configmaps of namespace kai-hoard: 90 MB" in error.message
    assert members.did("disarm", "delete") == []


def test_what_is_not_worth_it_is_no_command(bench: Bench, members: Members) -> None:
    members.in_use = 95 * MB
    members.groups = [SYSTEM, {**HOARD, "bytes": MB}]
    assert "--delete" not in refusal(bench).hint


def test_one_that_takes_changes_again_but_is_nearly_full_says_so(
    bench: Bench, members: Members
) -> None:
    members.in_use = 85 * MB
    error = refusal(bench)
    assert "accepts changes, but is nearly full" in error.message
    assert members.alarms == []


def test_what_is_named_is_deleted_until_nothing_is_left_before_room_is_made(
    bench: Bench, members: Members
) -> None:
    members.in_use, members.count = 95 * MB, 1800
    assert repair(bench, "--delete", "kai-hoard/configmaps").return_value == 0
    words = [rest[0] for _, *rest in members.did("delete", "compact", "disarm")]
    assert words == ["delete", "delete", "compact", "disarm"]


def test_what_cannot_be_deleted_ends_the_run_with_the_reason(
    bench: Bench, members: Members
) -> None:
    members.count = members.stay = 3
    assert (
        "3 of kai-hoard/jobs remain: a finalizer"
        in refusal(bench, "--delete", "kai-hoard/jobs").message
    )


@pytest.mark.parametrize(
    "objects",
    [
        "configmaps",
        "/configmaps",
        "kai-hoard/",
        "kube-system/configmaps",
        "kube-node-lease/leases",
        "default/endpoints",
        "appliance-limits/secrets",
        "kai-scheduler/configmaps",
        "gpu-operator/configmaps",
        "kai-hoard/persistentvolumeclaims",
        "kai-hoard/rolebindings",
        "kai-hoard/../kube-system",
        "kai-hoard/configmaps/x",
        "kai-hoard/--all",
        "KAI-HOARD/configmaps",
        "kai-hoard/configmaps\n",
        "kai hoard/configmaps",
    ],
)
def test_the_clusters_own_is_never_deleted(objects: str, bench: Bench, members: Members) -> None:
    error = refusal(bench, "--delete", objects)
    assert isinstance(error, ConfigError)
    assert members.asked == []


@pytest.mark.parametrize(
    "objects",
    ["", "x", "kube-system/configmaps", "a/roles", "a/../b", "a/-n", "-n/a", "a/b\n", "a/b/c"],
)
def test_the_hosts_own_program_deletes_nothing_of_the_clusters_either(objects: str) -> None:
    with pytest.raises(host.Problem):
        host.wanted(objects)


@pytest.mark.parametrize(
    ("key", "place", "prefix"),
    [
        ("/registry/configmaps/a/x", ("a", "configmaps"), "/registry/configmaps/a/"),
        (
            "/registry/kai.scheduler/podgroups/a/x",
            ("a", "podgroups.kai.scheduler"),
            "/registry/kai.scheduler/podgroups/a/",
        ),
        ("/registry/services/specs/a/x", ("a", "services"), "/registry/services/specs/a/"),
        ("/registry/ingress/a/x", ("a", "ingresses"), "/registry/ingress/a/"),
        ("/registry/namespaces/a", ("", "namespaces"), ""),
        ("/registry/kai.scheduler/queues/q", ("", "queues.kai.scheduler"), ""),
    ],
)
def test_a_key_of_etcd_is_a_kind_in_a_namespace_and_back(
    key: str, place: tuple[str, str], prefix: str
) -> None:
    assert host.place(key) == place
    if prefix:
        assert host.prefix(*place) == prefix
        assert prefix <= key < host.end_of(prefix)


def test_members_that_differ_are_not_repaired(bench: Bench, members: Members) -> None:
    members.alarms = ["CORRUPT", "NOSPACE"]
    error = refusal(bench)
    assert "CORRUPT" in error.message
    assert "appliance etcd restore" in error.hint
    assert members.did("compact", "defragment", "disarm") == []


def test_the_host_disarms_no_alarm_but_that_of_room(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(host, "etcdctl", lambda *words: asked.append(words))
    monkeypatch.setattr(host, "state", lambda: {"alarms": ["CORRUPT", "NOSPACE"]})
    with pytest.raises(host.Problem, match="CORRUPT"):
        host.disarm()
    assert asked == []


def test_with_a_control_host_gone_no_member_is_stopped(bench: Bench, members: Members) -> None:
    members.silent.add("head-2")
    error = refusal(bench)
    assert error.host == "head-2"
    assert members.did("compact", "defragment", "disarm") == []


@pytest.mark.parametrize(
    ("size", "in_use", "alarms", "is_done"),
    [
        (1000 * MB, 600 * MB, [], True),
        (1000 * MB, 800 * MB, [], False),
        (50 * MB, 1 * MB, [], False),
        (1000 * MB, 600 * MB, ["NOSPACE"], False),
    ],
    ids=["fragmented", "little to gain", "small", "alarm"],
)
def test_the_weekly_look_defragments_where_that_gains_something(
    size: int, in_use: int, alarms: list[str], is_done: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    found = {"bytes": size, "in_use": in_use, "alarms": alarms}
    monkeypatch.setattr(host, "state", lambda: found)
    monkeypatch.setattr(host, "etcdctl", lambda *words, **_: asked.append(words))
    host.weekly()
    assert (("defrag",) in asked) is is_done
    if is_done:
        assert asked[0] == ("endpoint", "health", "--cluster")


def test_the_weekly_look_leaves_a_member_alone_while_another_is_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, ...]] = []

    def etcdctl(*words: str, **_: object) -> str:
        asked.append(words)
        if "--cluster" in words:
            raise host.Problem("etcdctl: unhealthy cluster")
        return ""

    known = {"bytes": 1000 * MB, "in_use": 100 * MB, "alarms": []}
    monkeypatch.setattr(host, "state", lambda: known)
    monkeypatch.setattr(host, "etcdctl", etcdctl)
    with pytest.raises(host.Problem):
        host.weekly()
    assert ("defrag",) not in asked


def test_a_quota_that_nobody_says_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host.urllib.request, "urlopen", lambda *_, **__: io.BytesIO(b"nothing"))
    assert host.quota() == 0


def test_a_quota_that_is_none_is_refused_in_one_line(bench: Bench, members: Members) -> None:
    members.quota = 0
    assert "cannot be read" in refusal(bench).message
    assert members.did("compact", "defragment", "disarm") == []
