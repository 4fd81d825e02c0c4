"""Ctrl-C: the first stops a run cleanly, the second at once; what a hanging host holds does not hold the user."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from appliance.actions.sites.interrupts import interruptible
from appliance.engine.session import Session
from appliance.engine.threads import threads
from tests.support.engine_fakes import Recorder
from tests.support.engine_session import hosts, recorder, session

__all__ = ["hosts", "recorder", "session"]


@pytest.fixture(autouse=True)
def _own_handlers() -> Iterator[None]:
    before = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        assert signal.getsignal(number) is handler


def _told(recorder: Recorder) -> str:
    return " ".join(repr(e) for e in recorder.events)


def _signal_twice() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)


def _submit_and_interrupt(pool: ThreadPoolExecutor, release: threading.Event) -> None:
    pool.submit(release.wait, 60)
    raise KeyboardInterrupt


def _set_soon(event: threading.Event) -> None:
    time.sleep(0.1)
    event.set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_first_signal_cancels_and_tells_of_the_second(
    session: Session, recorder: Recorder, number: signal.Signals
) -> None:
    with interruptible(session):
        os.kill(os.getpid(), number)
        assert session.cancelled.wait(2)
        deadline = time.monotonic() + 2
        while "again to stop at once" not in _told(recorder):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert list(session.journal.entries("run_finished")) == []


def test_second_signal_ends_the_block_and_is_in_the_journal(session: Session) -> None:
    with pytest.raises(KeyboardInterrupt), interruptible(session):
        _signal_twice()
    (entry,) = session.journal.entries("run_finished")
    assert entry.data["interrupted"]


def test_signal_that_comes_while_an_event_is_told_does_not_lock_up(
    session: Session, recorder: Recorder
) -> None:
    lock = threading.Lock()

    def handle(event: object) -> None:
        with lock:
            time.sleep(0.01)

    recorder.handle = handle  # type: ignore[method-assign]
    with interruptible(session), lock:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
    assert session.cancelled.is_set()


def test_interrupt_does_not_wait_for_a_thread_that_hangs() -> None:
    release = threading.Event()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), threads(1) as pool:
        _submit_and_interrupt(pool, release)
    assert time.monotonic() - began < 30
    release.set()


def test_any_other_end_waits_for_the_threads() -> None:
    done = threading.Event()
    with threads(1) as pool:
        pool.submit(_set_soon, done)
    assert done.is_set()
