"""The strategy ``free`` that waits for results: a play that looks for them costs more the longer its hosts take."""

from __future__ import annotations

import gc
from collections import deque
from multiprocessing.connection import wait
from threading import Event
from typing import Any

from ansible.plugins.loader import filter_loader, test_loader
from ansible.plugins.strategy import free

DOCUMENTATION = """
name: free
short_description: As ansible.builtin.free, and idle while all hosts are at work
description:
  - C(ansible.builtin.free) looks at every host again a hundred times a second. This strategy waits until a host reports a result.
  - Where more hosts than forks are at work, it waits for a worker that has ended, instead of asking all of them ten thousand times a second.
  - A C(meta) task that has a name is reported as done. It runs on the control machine, and needs no worker.
"""

LONGEST = 0.5
"""Seconds without a look at what reports nothing: a run that was ended."""


class Arrivals(deque[Any]):
    """Results of workers, and the event that one has come."""

    def __init__(self) -> None:
        super().__init__()
        self.one_came = Event()

    def append(self, result: Any) -> None:
        """Called by the thread that reads what workers send."""
        super().append(result)
        self.one_came.set()

    def wait(self) -> None:
        """Until there is one."""
        self.one_came.clear()
        if not self:
            self.one_came.wait(LONGEST)


class StrategyModule(free.StrategyModule):  # type: ignore[misc]
    """ansible-core 2.19 to 2.21 call _process_pending_results after each look at all hosts (plugins/strategy/free.py)."""

    def __init__(self, tqm: Any) -> None:
        super().__init__(tqm)
        self._results = Arrivals()
        self._went_on = False

    def run(self, iterator: Any, play_context: Any) -> Any:
        """The whole play."""
        # Every worker would load all of Ansible's filters and tests anew.
        for loader, name in ((filter_loader, "bool"), (test_loader, "match")):
            loader.get(name)
        # What workers share with this process stays shared: the garbage collector writes into every object it looks at.
        gc.freeze()
        return super().run(iterator, play_context)

    def _process_pending_results(self, *given: Any, **named: Any) -> Any:
        # After a meta task the same host has its next task at once.
        if self._pending_results and not self._went_on:
            self._results.wait()
        self._went_on = False
        return super()._process_pending_results(*given, **named)

    def _queue_task(self, host: Any, task: Any, task_vars: Any, play_context: Any) -> None:
        workers = self._workers
        if all(worker is not None and worker.is_alive() for worker in workers):
            wait([worker.sentinel for worker in workers])
        super()._queue_task(host, task, task_vars, play_context)

    def _execute_meta(self, task: Any, *given: Any, **named: Any) -> Any:
        self._went_on = True
        done = super()._execute_meta(task, *given, **named)
        for result in done:
            if task.name and not task.implicit and not _is_skipped(result):
                self._tqm.send_callback("v2_runner_on_ok", result)
        return done


def _is_skipped(result: Any) -> bool:
    # Since ansible-core 2.21, a strategy's results are of another type than those of callbacks.
    return bool(result.utr.skipped if hasattr(result, "utr") else result.is_skipped())
