"""What Ansible's events say of a host: its tasks, its changes, its resources, and when it is through."""

import pytest

from appliance.adapters import ansible
from appliance.adapters.ansible import THROUGH, HostPlay, TaskEvent
from appliance.config.secrets import Redactor

NO_SECRETS = Redactor(())


class Followed:
    """A playbook on one host, told event by event."""

    def __init__(self) -> None:
        self.host = HostPlay("gpu-1")
        self.events: list[TaskEvent] = []
        self.through: list[str] = []

    def tell(self, kind: str, task: str, redact: Redactor = NO_SECRETS, **result: object) -> None:
        """One event as ansible-runner brings it."""
        detail = {"host": "gpu-1", "task": task, "res": result}
        ansible._follow(
            {"event": kind, "event_data": detail},
            {"gpu-1": self.host},
            self.events.append,
            lambda play: self.through.append(play.host),
            [],
            redact,
        )


@pytest.fixture
def followed() -> Followed:
    return Followed()


def test_tasks_changes_and_resources_are_counted(followed: Followed) -> None:
    followed.tell("runner_on_start", "write")
    followed.tell(
        "runner_on_ok", "write", changed=True, resources=[{"kind": "file", "name": "/etc/x"}]
    )
    followed.tell("runner_on_ok", "look", changed=False)
    assert (followed.host.tasks, followed.host.changes) == (2, 1)
    assert list(followed.host.resources) == [("file", "/etc/x")]
    assert [e.state for e in followed.events] == ["started", "changed", "ok"]
    assert not followed.host.ok
    assert followed.through == []


def test_end_of_a_host_is_told_at_once_and_is_no_task(followed: Followed) -> None:
    followed.tell("runner_on_ok", "write", changed=False)
    told = len(followed.events)
    followed.tell("runner_on_start", THROUGH)
    followed.tell("runner_on_ok", THROUGH, changed=False)
    assert followed.through == ["gpu-1"]
    assert followed.host.ok
    assert followed.host.tasks == 1
    assert len(followed.events) == told


def test_end_of_an_earlier_play_is_not_the_hosts_end(followed: Followed) -> None:
    followed.tell("runner_on_start", THROUGH)
    followed.tell("runner_on_skipped", THROUGH)
    assert followed.through == []
    assert not followed.host.ok


def test_host_that_dies_at_its_very_end_is_not_through(followed: Followed) -> None:
    followed.tell("runner_on_unreachable", THROUGH, msg="timed out")
    assert followed.through == []
    assert followed.host.unreachable
    assert not followed.host.ok


def test_failed_task_names_its_reason(followed: Followed) -> None:
    followed.tell("runner_on_failed", "install", msg="no such package\nmore")
    assert (followed.host.failed_task, followed.host.message) == ("install", "no such package")
    assert not followed.host.ok


@pytest.mark.parametrize("said", ["\n", " ", "\x1c"])
def test_reason_without_a_word_is_no_error(said: str, followed: Followed) -> None:
    followed.tell("runner_on_failed", "install", msg=said)
    assert followed.host.message == "no reason given"


@pytest.mark.parametrize("said", [{}, {"kind": "file"}, "x", None, [1]])
def test_resource_that_is_none_is_left_out(said: object, followed: Followed) -> None:
    followed.tell("runner_on_ok", "write", changed=True, resources=[said])
    assert followed.host.resources == {}


@pytest.mark.parametrize("ticket", [None, 0, 6, "7"])
def test_event_without_the_ticket_of_the_run_is_a_line_of_output(ticket: object) -> None:
    told = {"event": "runner_on_failed", "event_data": {"host": "gpu-1"}, "stdout": "[WARNING] x"}
    assert ansible._genuine({**told, "job_id": ticket}, 7) == {
        "event": "verbose",
        "stdout": "[WARNING] x",
    }
    assert ansible._genuine({**told, "job_id": 7}, 7)["event"] == "runner_on_failed"


@pytest.mark.parametrize("key", ["msg", "stderr"])
@pytest.mark.parametrize("kind", ["runner_on_failed", "runner_on_unreachable"])
def test_a_secret_that_stands_where_a_reason_is_cut_is_not_told(
    followed: Followed, key: str, kind: str
) -> None:
    secret = "a password of twenty-five"
    for before in range(370, 402):
        followed.tell(kind, "x", Redactor((secret,)), **{key: "." * before + secret})
        message = followed.events[-1].message
        assert len(message) <= 400
        assert secret[:3] not in message
