"""Events for the receiver of the site's section notify. They never stop a run or change its result."""

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from appliance.adapters.webhook import Webhook
from appliance.errors import ApplianceError, ConfigError
from appliance.journal import Journal
from appliance.models.events import Message, Observer
from appliance.models.notify import Notification, Outcome
from appliance.models.result import Verdict
from appliance.text import plural

END_S = 10.0
"""Seconds that a run waits at its end for events that are not delivered yet."""
TOLD = "verdict_told"
FINISHED = "run_finished"


class Notices:
    """Where the events of one run go: nowhere, for a site without a receiver."""

    def fail(self) -> None:
        """This run ends as failed, although no error is raised."""

    def health(self, verdict: Verdict) -> None:
        """The whole site was judged: sends an event if its verdict differs from the one sent last."""

    @contextmanager
    def of_run(self, verb: str) -> Iterator[None]:
        """Sends the start of a run, and how it ends."""
        yield

    def close(self) -> None:
        """Waits for END_S at most; names what was not delivered, once. A delivered verdict is recorded."""


class Posted(Notices):
    """Events that a thread posts to the receiver."""

    def __init__(
        self, hook: Webhook, journal: Journal, observer: Observer, site: str, run: str
    ) -> None:
        self._hook, self._journal, self._observer = hook, journal, observer
        self._site, self._run = site, run
        self._waiting: queue.Queue[Notification | None] = queue.Queue()
        self._thread: threading.Thread | None = None
        self._sent: list[Notification] = []
        self._asked = 0
        self._why = ""
        self._failed = False

    def fail(self) -> None:
        """This run ends as failed, although no error is raised."""
        self._failed = True

    def health(self, verdict: Verdict) -> None:
        """The whole site was judged: sends an event if its verdict differs from the one sent last."""
        entry = self._journal.last(TOLD)
        told = _verdict(entry.data.get("verdict")) if entry else None
        if told is not verdict:
            self._send("health_changed", "health", verdict=verdict, earlier=told)

    @contextmanager
    def of_run(self, verb: str) -> Iterator[None]:
        """Sends the start of a run, and how it ends."""
        self._send("run_started", verb)
        outcome = Outcome.FAILED
        try:
            yield
            outcome = Outcome.DONE
        except ConfigError:
            outcome = Outcome.REFUSED
            raise
        except KeyboardInterrupt:
            outcome = Outcome.INTERRUPTED
            raise
        finally:
            with suppress(ApplianceError):
                outcome, verdict = self._ended(outcome)
                self._send("run_ended", verb, outcome=outcome, verdict=verdict)

    def _ended(self, outcome: Outcome) -> tuple[Outcome, Verdict | None]:
        """With what the journal has: verbs that print each host's result end without an error."""
        entry = self._journal.last(FINISHED, run=self._run)
        said = entry.data if entry else {}
        known = _verdict(said.get("verdict"))
        if said.get("interrupted"):
            outcome = Outcome.INTERRUPTED
        elif outcome is Outcome.DONE and (self._failed or said.get("exit") == 1):
            outcome = Outcome.FAILED
        return outcome, known

    def _send(
        self,
        event: Literal["run_started", "run_ended", "health_changed"],
        verb: str,
        *,
        outcome: Outcome | None = None,
        verdict: Verdict | None = None,
        earlier: Verdict | None = None,
    ) -> None:
        self._waiting.put(
            Notification(
                event=event,
                site=self._site,
                run=self._run,
                verb=verb,
                outcome=outcome,
                verdict=verdict,
                earlier=earlier,
            )
        )
        self._asked += 1
        if self._thread is None:
            # A daemon: a receiver that never ends its answer must not keep the program.
            self._thread = threading.Thread(target=self._deliver, daemon=True)
            self._thread.start()

    def _deliver(self) -> None:
        while (one := self._waiting.get()) is not None:
            try:
                self._hook.post(one.model_dump_json().encode())
                self._sent.append(one)
            except ApplianceError as error:
                self._why = self._why or f"{error.message}; {error.hint}"

    def close(self) -> None:
        """Waits for END_S at most; names what was not delivered, once. A delivered verdict is recorded."""
        if self._thread is None:
            return
        self._waiting.put(None)
        self._thread.join(END_S)
        sent = list(self._sent)
        with suppress(ApplianceError):
            for one in sent:
                if one.event == "health_changed":
                    self._journal.append(self._run, TOLD, verdict=one.verdict)
        if lost := self._asked - len(sent):
            why = self._why or f"the receiver did not answer within {END_S:g} seconds"
            text = f"notify: {plural(lost, 'event was', 'events were')} not delivered: {why}"
            self._observer.handle(Message(text=text, level="warning"))


def _verdict(said: object) -> Verdict | None:
    """Return a verdict of the journal; None for one that another release wrote."""
    return Verdict(str(said)) if said in tuple(Verdict) else None
