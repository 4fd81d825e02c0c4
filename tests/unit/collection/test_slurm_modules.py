"""The three modules of role slurm: what they read from Slurm's answers, and what they decide."""

from typing import Any

import pytest
from ansible_collections.appliance.host.plugins.module_utils.resources import (
    slurm_accounts as accounts,
)
from ansible_collections.appliance.host.plugins.module_utils.resources import (
    slurm_database as database,
)
from ansible_collections.appliance.host.plugins.module_utils.resources import slurm_node as node

from appliance.models.drain import Why
from appliance.stages.slurm.checks import OUT, is_out


class Failed(Exception):
    """fail_json was called."""


class FakeModule:
    """Answers commands from a list and remembers them."""

    check_mode = False

    def __init__(self, *answers: tuple[int, str, str], **params: Any) -> None:
        self.params, self.answers = params, list(answers)
        self.asked: list[list[str]] = []
        self.data: list[str] = []

    def run_command(self, argv: list[str], **given: Any) -> tuple[int, str, str]:
        self.asked.append(argv)
        self.data.append(given.get("data", ""))
        return self.answers.pop(0)

    def fail_json(self, msg: str, **_: Any) -> None:
        raise Failed(msg)


LISTING = "physics|\nphysics|ada\nroot|\nroot|root\n"
WANTED = [{"name": "physics", "users": ["ada", "ben"]}, {"name": "biology", "users": ["eve"]}]


def test_only_what_is_missing_is_added() -> None:
    there = accounts.associations(LISTING)
    assert accounts.missing("lab", True, WANTED, there) == [
        ["user", "ben", "account=physics", "cluster=lab"],
        ["account", "biology", "cluster=lab", "description=biology", "organization=appliance"],
        ["user", "eve", "account=biology", "cluster=lab"],
    ]


def test_nothing_is_added_twice() -> None:
    there = accounts.associations(LISTING + "physics|ben\nbiology|\nbiology|eve\n")
    assert accounts.missing("lab", True, WANTED, there) == []


def test_an_unknown_cluster_comes_first() -> None:
    assert accounts.missing("lab", False, [], set()) == [["cluster", "lab"]]


def test_slurmdbd_may_take_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    module = FakeModule((1, "", "Connection refused"), (0, "lab\n", ""))
    assert accounts.Accounting(module).clusters(60) == ["lab"]


def test_a_silent_slurmdbd_is_named_with_its_last_word() -> None:
    module = FakeModule((1, "", "error: x\nsacctmgr: error: Problem talking to the database"))
    with pytest.raises(Failed, match=r"slurmdbd does not answer: .*Problem talking"):
        accounts.Accounting(module).clusters(-1)


SHOWN = "NodeName=gpu-1 Arch=x86_64 State={state} ThreadsPerCore=1 Reason={reason} [{who}@2026-11-20T13:55:24]"


@pytest.mark.parametrize(
    ("state", "reason", "who", "ours"),
    [
        ("IDLE+DRAIN", "appliance: health: storage.scratch nothing is there", "root", True),
        ("IDLE+DRAIN", "appliance: health: storage.scratch nothing is there", "mia", False),
        ("IDLE+DRAIN", "appliance: health: look at its fan, Mia", "root", False),
        ("IDLE+DRAIN", "appliance: waits for a fan", "root", False),
        ("IDLE+DRAIN", "appliance: the driver is changed, and a fan", "root", False),
        ("DOWN*", "Not responding", "slurm", True),
        ("DOWN", "Node unexpectedly rebooted", "slurm", True),
        ("IDLE+DRAIN", "gres/gpu count reported lower than configured (7 < 8)", "slurm", True),
        ("IDLE+DRAIN", "fan replacement, Mia", "root", False),
        ("IDLE+DRAIN", "Not responding well, look at it", "mia", False),
        ("IDLE+DRAIN", "Prolog error", "slurm", False),
        ("IDLE+DRAIN", "Kill task failed", "slurm", False),
    ],
)
def test_whose_drain_it_is(state: str, reason: str, who: str, ours: bool) -> None:
    found = node.parse(SHOWN.format(state=state, reason=reason, who=who))
    assert found == (state, reason, who)
    assert node.flags(state) & node.OUT
    assert node.is_ours(reason, who, "slurm") is ours


def test_a_host_without_reason_is_nobodys() -> None:
    state, reason, who = node.parse("NodeName=gpu-1 State=IDLE ThreadsPerCore=1")
    assert (state, reason, who) == ("IDLE", "", "")
    assert not node.flags(state) & node.OUT
    assert not node.is_ours(reason, who, "slurm")


def test_a_host_of_somebody_else_is_drained_for_a_reason_we_know_again() -> None:
    module = FakeModule((0, "", ""), name="gpu-1")
    node.Node(module).give_away("kubernetes")
    (asked,) = module.asked
    assert asked[-3:] == ["NodeName=gpu-1", "State=DRAIN", "Reason=appliance: a host of kubernetes"]
    assert node.is_ours("appliance: a host of kubernetes", "root", "slurm")


@pytest.mark.parametrize("why", Why)
def test_what_the_engine_drains_for_is_known(why: Why) -> None:
    assert node.is_ours(why, "root", "slurm")


REFUSED = (1, "", "slurm_update error: Invalid node state specified")


def test_a_host_that_came_back_by_itself_needs_no_resuming() -> None:
    shown = (0, SHOWN.format(state="IDLE", reason="", who=""), "")
    node.Node(FakeModule(REFUSED, shown, name="gpu-1")).resume()


@pytest.mark.parametrize(
    "shown", [(0, SHOWN.format(state="IDLE+DRAIN", reason="x", who="root"), ""), (1, "", "no")]
)
def test_a_host_that_stays_out_or_is_not_known_fails(shown: tuple[int, str, str]) -> None:
    with pytest.raises(Failed, match=r"gpu-1 cannot be resumed: .*Invalid node state"):
        node.Node(FakeModule(REFUSED, shown, name="gpu-1")).resume()


@pytest.mark.parametrize("waiting", ["DOWN*", "UNKNOWN", "IDLE*"])
def test_registration_is_waited_for(waiting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    answers = [(0, f"NodeName=gpu-1 State={s} ThreadsPerCore=1", "") for s in (waiting, "IDLE")]
    module = FakeModule(*answers, name="gpu-1", controller="head")
    assert node.Node(module).registered(60)[0] == "IDLE"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((1, "", "slurm_load_node error: Unable to contact slurm controller"), "head, Slurm's con"),
        ((0, "NodeName=gpu-1 State=DOWN* X=1", ""), "slurmd of gpu-1 has not registered with head"),
    ],
)
def test_silence_is_blamed_on_the_right_host(answer: tuple[int, str, str], said: str) -> None:
    module = FakeModule(answer, name="gpu-1", controller="head")
    with pytest.raises(Failed, match=said):
        node.Node(module).registered(-1)


PASSWORD = "f875b350c76001ab"


@pytest.mark.parametrize(
    ("name", "user", "password"),
    [
        ("db", "slurm", "short"),
        ("db", "slurm", "with space here"),
        ("db", "slurm", "quote'quote'"),
        ("db", "slurm", 'double"double"'),
        ("db", "slurm", "hash#hash#hash"),
        ("db", "slurm", "back\\slash\\x"),
        ("db;drop", "slurm", PASSWORD),
        ("db", "o'hara", PASSWORD),
    ],
)
def test_what_would_need_quoting_is_refused(name: str, user: str, password: str) -> None:
    assert database.refusal(name, user, password)
    assert password not in database.refusal(name, user, password)


def test_passwords_that_need_no_quoting_are_accepted() -> None:
    assert database.refusal("slurm_acct_db", "slurm", PASSWORD) == ""
    assert database.refusal("slurm_acct_db", "slurm", "Ab-_12=+/:,.@%") == ""


def test_the_password_never_stands_in_arguments() -> None:
    module = FakeModule((1, "", "denied"), (0, "", ""), (0, "1", ""))
    assert not database._logs_in(module, "db", "slurm", PASSWORD)
    database._create(module, "db", "slurm", PASSWORD)
    assert not any(PASSWORD in word for argv in module.asked for word in argv)
    assert all(PASSWORD in data for data in module.data)


def test_a_database_error_does_not_tell_the_password() -> None:
    module = FakeModule((1, "", f"ERROR 1064 near '{PASSWORD}'"))
    with pytest.raises(Failed) as caught:
        database._create(module, "db", "slurm", PASSWORD)
    assert PASSWORD not in str(caught.value)


def test_host_and_control_machine_call_the_same_states_out_of_work() -> None:
    assert {state.lower() for state in node.OUT} == set(OUT)
    for told in ("IDLE", "DOWN*+DRAIN", "MIXED+PLANNED", "INVAL", "IDLE+INVALID_REG", "UNKNOWN"):
        assert is_out(told) == bool(node.flags(told) & node.OUT)
