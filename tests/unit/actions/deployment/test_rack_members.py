"""Members of the rack's projects: what they are given, when, and as whom it is written."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml  # noqa: TID251 - what is written is read as kubectl reads it

from appliance.actions.deployment import rack_members
from appliance.actions.deployment.rack_members import hand_out, members
from appliance.actions.kubernetes import member_kubeconfig
from appliance.actions.kubernetes.member_kubeconfig import Member
from appliance.adapters.process import Completed
from appliance.engine.run import kubeconfig
from appliance.engine.run.kubeconfig import Fetched
from appliance.engine.session import Session
from appliance.errors import ApplianceError
from appliance.models.events import Message
from appliance.models.run import StageOutcome, StageState
from appliance.stages.base.site import User
from appliance.stages.kubernetes.site import KubernetesOptions
from appliance.stages.scheduler.site import Amount, Project, Queue, SchedulerOptions
from tests.support.engine_fakes import FakeHosts, Recorder
from tests.support.engine_session import hosts, recorder, session

__all__ = ["hosts", "recorder", "session"]

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINapzO8tATGiMPh3ZB5REh9n4u3rwE80ACezQAc5S+rw rack"
UNTIL = datetime(2026, 12, 1, tzinfo=UTC)


class Hosts(FakeHosts):
    """Remembers what was written."""

    def __init__(self, code: int = 0) -> None:
        super().__init__()
        self.code = code
        self.written: list[tuple[tuple[str, ...], bytes]] = []

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        assert host == "head"
        self.written.append((tuple(argv), input or b""))
        return Completed(tuple(argv), self.code, "", "Read-only file system" if self.code else "")


class Api:
    """A cluster that is opened and closed."""

    def __init__(self, *_: Any) -> None: ...
    def __enter__(self) -> "Api":
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
def rack(session: Session, monkeypatch: pytest.MonkeyPatch) -> Session:
    queues = (Queue(name="train", gpu=Amount(quota=4)),)
    projects = (
        Project(name="vision", users=("alice",), queues=queues),
        Project(name="language", users=("bob", "stranger"), queues=queues),
    )
    users = tuple(User(name=n, uid=u, keys=(KEY,)) for n, u in (("alice", 2001), ("bob", 2002)))
    update = {
        "kubernetes": KubernetesOptions(trial_image="appliance.local/busybox:1"),
        "scheduler": SchedulerOptions(projects=projects),
        "base": session.site.base.model_copy(update={"users": users}),
    }

    def issue(_: object, __: object, user: str, days: int) -> Member:
        file = session.folder / f"kubeconfig-{user}"
        file.write_text(f"of {user}", encoding="utf-8")
        return Member(file, "https://head", user, (), UNTIL)

    def administrator(_: object, __: object, folder: Path, ___: int) -> Fetched:
        (folder / "kubeconfig").write_text("of root", encoding="utf-8")
        return Fetched(folder / "kubeconfig", "https://head", "root", UNTIL)

    monkeypatch.setattr(kubeconfig, "issue", administrator)
    monkeypatch.setattr(member_kubeconfig, "issue", issue)
    monkeypatch.setattr(rack_members, "KubernetesApi", Api)
    site = session.site.model_copy(update=update)
    return replace(session, site=site, remote=Hosts())


def states(**given: StageState) -> list[StageOutcome]:
    return [StageOutcome(stage=stage, host="head", state=state) for stage, state in given.items()]


DONE, SKIPPED, FAILED = StageState.DONE, StageState.SKIPPED, StageState.FAILED


def test_each_member_with_an_account_gets_a_kubeconfig_and_a_pod_written_as_himself(
    rack: Session,
) -> None:
    hand_out(rack, states(kubernetes=DONE, queues=DONE))
    assert isinstance(rack.remote, Hosts)
    written = {(argv[2], argv[-1]): text.decode() for argv, text in rack.remote.written}
    assert set(written) == {
        ("root", ".kube/config"),
        *((user, file) for user in ("alice", "bob") for file in (".kube/config", "gpu-pod.yaml")),
    }
    assert written["alice", ".kube/config"] == "of alice"
    assert all(argv[:2] == ("runuser", "-u") for argv, _ in rack.remote.written)
    pod = yaml.safe_load(written["bob", "gpu-pod.yaml"])
    assert pod["metadata"] == {
        "name": "gpu-pod",
        "labels": {"kai.scheduler/queue": "language-train"},
    }
    assert pod["spec"]["containers"][0]["image"] == "appliance.local/busybox:1"


def test_what_they_have_is_given_again_only_where_the_cluster_or_its_queues_changed(
    rack: Session,
) -> None:
    assert isinstance(rack.remote, Hosts)
    hand_out(rack, states(kubernetes=SKIPPED, queues=SKIPPED))
    assert len(rack.remote.written) == 5
    hand_out(rack, states(kubernetes=SKIPPED, queues=SKIPPED))
    assert len(rack.remote.written) == 5
    hand_out(rack, states(kubernetes=SKIPPED, queues=DONE))
    assert len(rack.remote.written) == 10


@pytest.mark.parametrize("outcomes", [states(kubernetes=FAILED), states(queues=FAILED)])
def test_nothing_is_given_where_the_cluster_is_not_there(
    rack: Session, outcomes: list[StageOutcome]
) -> None:
    hand_out(rack, outcomes)
    assert isinstance(rack.remote, Hosts)
    assert rack.remote.written == []


def test_a_site_without_queues_has_nobody_to_give_to(session: Session) -> None:
    assert members(session.site) == ()
    hand_out(session, states(slurm=DONE))


@pytest.mark.parametrize("how", ["home", "signer"])
def test_what_fails_is_a_warning(
    how: str, rack: Session, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ApplianceError("nobody signed", "")

    if how == "signer":
        monkeypatch.setattr(member_kubeconfig, "issue", refuse)
    given = replace(rack, remote=Hosts(code=1)) if how == "home" else rack
    hand_out(given, states(kubernetes=DONE))
    (told,) = recorder.events
    assert isinstance(told, Message)
    assert told.level == "warning"
    said = "of root was not written: Read-only file system" if how == "home" else "nobody signed"
    assert said in told.text
