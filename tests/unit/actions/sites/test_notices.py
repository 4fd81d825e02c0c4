"""Events of a site with section notify: what a real receiver gets, and that a bad one changes no run."""

import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.actions.sites.opening import Target, open_session
from appliance.config.finding import InvalidConfig
from appliance.engine import notices
from appliance.errors import ApplianceError, ConfigError
from appliance.models.events import Message
from appliance.models.result import Verdict
from tests.support.engine_fakes import Recorder
from tests.support.event_receiver import Receiver, receiving
from tests.support.site_folder import site_folder

__all__ = ["site_folder"]
TOKEN = "token-of-the-receiver"
SECTION = """
notify:
  url: {file: secrets/notify_url}
  token: {file: secrets/notify_token}
  authority: receiver/cert.pem
"""


@pytest.fixture
def receiver(site_folder: Path) -> Iterator[Receiver]:
    with receiving(site_folder / "receiver") as made:
        site = site_folder / "site.yml"
        site.write_text(site.read_text() + SECTION)
        keep(site_folder, "notify_url", made.url)
        keep(site_folder, "notify_token", TOKEN)
        yield made


def keep(folder: Path, name: str, value: str) -> None:
    file = folder / "secrets" / name
    file.touch(mode=0o600)
    file.write_text(value + "\n")


def got(receiver: Receiver) -> list[dict[str, Any]]:
    return [json.loads(body) for body in receiver.bodies]


def warnings(observer: Recorder) -> list[str]:
    return [e.text for e in observer.events if isinstance(e, Message) and "notify" in e.text]


def deploy(folder: Path, observer: Recorder, **end: Any) -> None:
    with open_session(Target(folder), "deploy", observer, changes=True) as session:
        if end:
            session.journal.append(session.run, "run_finished", **end)


def test_start_and_end_of_a_run_are_sent(site_folder: Path, receiver: Receiver) -> None:
    observer = Recorder()
    deploy(site_folder, observer, verdict="passed", exit=0)
    start, end = got(receiver)
    assert (start["event"], start["verb"], start["outcome"]) == ("run_started", "deploy", None)
    assert (end["event"], end["outcome"], end["verdict"]) == ("run_ended", "done", "passed")
    assert start["run"] == end["run"]
    assert start["site"] == "acme"
    assert start["version"] == 1
    assert receiver.seen[0]["Authorization"] == f"Bearer {TOKEN}"
    assert warnings(observer) == []


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        ({"verdict": "failed", "exit": 1}, "failed"),
        ({"verdict": "incomplete", "exit": 3}, "done"),
        ({"verdict": "declined"}, "done"),
        ({"exit": 130, "interrupted": True}, "interrupted"),
    ],
)
def test_the_end_says_what_became_of_the_run(
    end: dict[str, Any], outcome: str, site_folder: Path, receiver: Receiver
) -> None:
    deploy(site_folder, Recorder(), **end)
    assert got(receiver)[1]["outcome"] == outcome


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ConfigError("wrong"), "refused"),
        (ApplianceError("broken"), "failed"),
        (KeyboardInterrupt(), "interrupted"),
        (RuntimeError("a defect"), "failed"),
    ],
)
def test_an_error_is_sent_as_what_it_is_and_passed_on(
    error: BaseException, outcome: str, site_folder: Path, receiver: Receiver
) -> None:
    with (
        pytest.raises(type(error)),
        open_session(Target(site_folder), "node", Recorder(), changes=True),
    ):
        raise error
    assert got(receiver)[1]["outcome"] == outcome


def test_a_verb_that_reads_sends_nothing(site_folder: Path, receiver: Receiver) -> None:
    with open_session(Target(site_folder), "plan", Recorder()):
        pass
    assert receiver.bodies == []


def judged(folder: Path, verdict: Verdict, observer: Recorder) -> None:
    with open_session(Target(folder), "health", observer, only_looks=True) as session:
        session.notices.health(verdict)


def test_health_is_sent_when_its_verdict_changes(site_folder: Path, receiver: Receiver) -> None:
    for verdict in (Verdict.PASSED, Verdict.PASSED, Verdict.FAILED, Verdict.FAILED):
        judged(site_folder, verdict, Recorder())
    first, second = got(receiver)
    assert (first["event"], first["verdict"], first["earlier"]) == (
        "health_changed",
        "passed",
        None,
    )
    assert (second["verdict"], second["earlier"]) == ("failed", "passed")


def test_a_verdict_that_was_not_delivered_is_sent_by_the_next_look(
    site_folder: Path, receiver: Receiver
) -> None:
    receiver.statuses = [403]
    observer = Recorder()
    judged(site_folder, Verdict.FAILED, observer)
    assert len(warnings(observer)) == 1
    judged(site_folder, Verdict.FAILED, Recorder())
    judged(site_folder, Verdict.FAILED, Recorder())
    assert len(receiver.bodies) == 2


def test_a_receiver_that_refuses_is_named_once_and_costs_no_run(
    site_folder: Path,
    receiver: Receiver,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    receiver.statuses = [401, 401]
    observer = Recorder()
    with caplog.at_level(logging.DEBUG):
        deploy(site_folder, observer)
    (said,) = warnings(observer)
    assert said.startswith("notify: 2 events were not delivered: the receiver answered 401; check")
    written = b"".join(p.read_bytes() for p in (site_folder / "runs").rglob("*") if p.is_file())
    everything = caplog.text + repr(observer.events) + "".join(capfd.readouterr()) + str(written)
    assert TOKEN not in everything
    assert receiver.url not in everything


def test_a_receiver_that_never_answers_holds_a_run_only_at_its_end_and_not_for_long(
    site_folder: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "END_S", 0.5)
    receiver.delay = 60.0
    observer = Recorder()
    begun = time.monotonic()
    with open_session(Target(site_folder), "deploy", observer, changes=True):
        opened = time.monotonic()
    assert time.monotonic() - opened < 3
    # Nobody waited for the start event.
    assert opened - begun < 5
    (said,) = warnings(observer)
    assert "2 events were not delivered" in said


@pytest.mark.parametrize(
    "url", ["http://hooks.example.com/x", "https://me:pass@h.example/x", "h/x"]
)
def test_a_url_without_tls_or_with_an_account_is_refused(
    url: str, site_folder: Path, receiver: Receiver
) -> None:
    keep(site_folder, "notify_url", url)
    with (
        pytest.raises(InvalidConfig) as refused,
        open_session(Target(site_folder), "deploy", Recorder(), changes=True),
    ):
        pass
    (finding,) = refused.value.findings
    assert finding.key == "notify.url"
    assert "https://HOST" in finding.remedy
    assert url not in str(finding)
    assert receiver.bodies == []


def test_an_authority_that_is_missing_is_a_finding(site_folder: Path, receiver: Receiver) -> None:
    receiver.authority.unlink()
    with (
        pytest.raises(InvalidConfig) as refused,
        open_session(Target(site_folder), "deploy", Recorder(), changes=True),
    ):
        pass
    (finding,) = refused.value.findings
    assert finding.key == "notify.authority"
    assert finding.line > 0
