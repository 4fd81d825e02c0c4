"""A cluster with its Prometheus on loopback, kept by one program with clocks of its own."""

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from tests.support.limits_world import Server, World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with Server() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        made = World(server, tmp_path)
        monkeypatch.setattr("appliance.limits.web.time.time", lambda: made.wall)
        try:
            yield made
        finally:
            server.closing.set()
            server.shutdown()
            thread.join()
