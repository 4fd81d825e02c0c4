"""Trial alerts: what each receiver's verdict says, and the program that sends one, before a stand-in for Alertmanager."""

import json
import subprocess  # noqa: TID251 - what the host's journal says is put in its place
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from appliance.adapters.process import Completed
from appliance.benchmarks.alerts import send
from appliance.benchmarks.alerts.run import CHECK, run
from appliance.checks.check import View
from appliance.config.load import load_profile
from appliance.errors import ConnectionFailed, DeadlineExceeded
from appliance.models.result import CheckResult, Status
from tests.support.sites import site_of

CHAT, ONCALL = (
    {"name": "chat", "slack": {"env": "CHAT"}},
    {"name": "oncall", "email": "oncall@example.com"},
)
SECRET = "https://chat.example.com/hooks/T0/secret"


@dataclass
class Host:
    """Answers each program with the next of ``ends``."""

    ends: list[Completed | Exception]
    asked: list[Sequence[str]] = field(default_factory=list)

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        assert host == "head"
        assert input
        compile(input, "send.py", "exec")
        self.asked.append(argv)
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end


def verdicts(host: Host, *receivers: Mapping[str, object]) -> list[CheckResult]:
    site = site_of("head", observe={"receivers": receivers})
    return list(run(View(load_profile("hpc"), site, {}), host).results)


def said(**document: object) -> Completed:
    return Completed(("python3",), 0, json.dumps(document) + "\n", "")


def test_each_receiver_gets_a_verdict_of_its_own() -> None:
    host = Host([said(state="delivered", seconds=0.4), said(state="failed", why="refused")])
    chat, oncall = verdicts(host, CHAT, ONCALL)
    assert [words[3:5] for words in host.asked] == [("chat", "slack"), ("oncall", "email")]
    assert (chat.id, chat.target, chat.status) == (CHECK, "cluster/to chat", Status.PASS)
    assert (chat.value, chat.unit) == (0.4, "s")
    assert (oncall.status, oncall.cause) == (Status.FAIL, "test alert not delivered: refused")
    assert "appliance deploy --stage observe" in oncall.fix


def test_a_site_that_names_nobody_is_not_assessed() -> None:
    (found,) = verdicts(Host([]))
    assert (found.status, found.target) == (Status.NOT_ASSESSED, "cluster")
    assert "observe.receivers is empty" in found.cause


@pytest.mark.parametrize(
    ("end", "status", "cause"),
    [
        (said(state="silent", why="no attempt"), Status.FAIL, "no attempt"),
        (
            Completed(("python3",), 127, "", "sh: python3: not found"),
            Status.NOT_ASSESSED,
            "python3",
        ),
        (Completed(("python3",), 0, "[]", ""), Status.NOT_ASSESSED, "it printed nothing"),
        (ConnectionFailed("head does not answer", ""), Status.NOT_ASSESSED, "head does not answer"),
        (DeadlineExceeded("too late", ""), Status.FAIL, "too late"),
    ],
)
def test_what_cannot_be_told_is_never_good(
    end: Completed | Exception, status: Status, cause: str
) -> None:
    (found,) = verdicts(Host([end]), CHAT)
    assert found.status is status
    assert cause in found.cause


@dataclass
class Alertmanager:
    """``outcome``: what becomes of an alert: delivered, failed, ignored."""

    outcome: str = "delivered"
    given: list[dict[str, Any]] = field(default_factory=list)
    attempts: int = 3
    failures: int = 1
    leads_to: str = "chat"
    state: str = "active"

    def metrics(self) -> str:
        head = "alertmanager_notification_requests"
        return (
            f'{head}_total{{integration="email"}} 7\n{head}_total{{integration="slack"}} {self.attempts}\n'
            f'{head}_failed_total{{integration="email"}} 7\n{head}_failed_total{{integration="slack"}} {self.failures}\n'
        )

    def alerts(self) -> str:
        receivers, status = [{"name": self.leads_to}], {"state": self.state}
        return json.dumps([{**g, "receivers": receivers, "status": status} for g in self.given])

    def take(self, body: bytes) -> None:
        self.given += json.loads(body)
        self.attempts += self.outcome != "ignored"
        self.failures += self.outcome == "failed"


@pytest.fixture
def alertmanager(monkeypatch: pytest.MonkeyPatch) -> Iterator[Alertmanager]:
    own = Alertmanager()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = own.metrics() if self.path == "/metrics" else own.alerts()
            self.answer(found.encode())

        def do_POST(self) -> None:
            own.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.answer(b"")

        def answer(self, body: bytes) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(send, "ALERTMANAGER", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr(send, "GRACE", 0.01)
    logged(monkeypatch, "")
    yield own
    server.shutdown()
    server.server_close()


def logged(monkeypatch: pytest.MonkeyPatch, journal: str) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=journal))


def sent(monkeypatch: pytest.MonkeyPatch, patience: str = "1") -> dict[str, object]:
    monkeypatch.setattr(sys, "argv", ["-", "chat", "slack", "acme", "t0", patience])
    return send.main()


def test_a_trial_goes_to_the_receiver_it_names_and_says_that_nothing_is_wrong(
    alertmanager: Alertmanager, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sent(monkeypatch)["state"] == "delivered"
    (alert,) = alertmanager.given
    assert alert["labels"] | {"severity": ""} == {
        "alertname": "ApplianceTrial",
        "receiver": "chat",
        "trial": "t0",
        "site": "acme",
        "severity": "",
    }
    assert "nothing is wrong" in alert["annotations"]["summary"]


def test_a_failed_trial_says_why_and_not_where(
    alertmanager: Alertmanager, monkeypatch: pytest.MonkeyPatch
) -> None:
    alertmanager.outcome = "failed"
    other = 'level=warn component=dispatcher receiver=other integration=email[0] msg="Notify attempt failed" err="no"\n'
    again = f'level=warn component=dispatcher receiver=chat integration=slack[0] err="Post \\"{SECRET}\\": connection refused"\n'
    logged(monkeypatch, other + again)
    assert sent(monkeypatch) == {"state": "failed", "why": "Post its address: connection refused"}
    given_up = 'level=error component=dispatcher msg="Notify for alerts failed" err="chat/slack[0]: notify retry canceled: 404"\n'
    logged(monkeypatch, given_up)
    assert sent(monkeypatch) == {"state": "failed", "why": "notify retry canceled: 404"}


def test_what_fails_for_another_receiver_of_the_same_kind_is_neither_failed_nor_taken(
    alertmanager: Alertmanager, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged(monkeypatch, 'component=dispatcher receiver=other integration=slack[0] err="no"\n')
    alertmanager.outcome = "failed"
    assert sent(monkeypatch)["why"] == "Alertmanager made no attempt in time"
    alertmanager.outcome = "delivered"
    assert sent(monkeypatch)["state"] == "delivered"


def test_what_another_took_is_no_answer_of_this_one(
    alertmanager: Alertmanager, monkeypatch: pytest.MonkeyPatch
) -> None:
    alertmanager.state = "suppressed"
    assert "suppresses it" in str(sent(monkeypatch)["why"])
    alertmanager.leads_to = "nobody"
    assert "does not route it" in str(sent(monkeypatch)["why"])


def test_an_alertmanager_that_attempts_nothing_or_is_away_is_silent(
    alertmanager: Alertmanager, monkeypatch: pytest.MonkeyPatch
) -> None:
    alertmanager.outcome = "ignored"
    assert sent(monkeypatch, "0")["state"] == "silent"
    monkeypatch.setattr(send, "ALERTMANAGER", "http://127.0.0.1:9")
    assert "does not answer" in str(sent(monkeypatch)["why"])
