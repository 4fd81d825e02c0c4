"""Lease rack, as several test modules use it."""

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.process import Completed
from appliance.engine.session import Session
from appliance.errors import ConnectionFailed
from appliance.probe import lease as on_host
from tests.support.engine_fakes import FakeHosts

ALL = ("head", "gpu-1", "gpu-2")


class Rack(FakeHosts):
    """Each host has a folder of its own here. ``told``: what a host says in place of the program."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.told: dict[str, str] = {}
        self.frozen: set[str] = set()
        self.over = threading.Event()

    def run(
        self, host: str, argv: Sequence[str], *, input: bytes | None = None, timeout: float = 60
    ) -> Completed:
        """See Remote."""
        super().run(host, argv, input=input)
        if host in self.frozen:
            self.over.wait(60)
            raise ConnectionFailed("it hangs", "reset it", host)
        if host in self.told:
            return Completed(tuple(argv), 0, self.told[host], "")
        try:
            told = on_host.answer(json.loads(argv[-1]), str(self.at(host)))
        except OSError as error:
            return Completed(tuple(argv), 1, "", f"{error.filename}: {error.strerror}\n")
        return Completed(tuple(argv), 0, json.dumps(told), "")

    def at(self, host: str) -> Path:
        """Where a host keeps its note."""
        return self.folder / host

    def note(self, host: str) -> dict[str, Any]:
        """What stands in it; {} where nobody holds the host."""
        file = self.at(host) / "lease"
        found: dict[str, Any] = json.loads((file.exists() and file.read_text()) or "{}")
        return found

    def age(self, host: str, **changes: object) -> None:
        """Writes other words into its note."""
        (self.at(host) / "lease").write_text(json.dumps({**self.note(host), **changes}))


@pytest.fixture
def rack(tmp_path: Path) -> Iterator[Rack]:
    made = Rack(tmp_path / "rack")
    yield made
    made.over.set()


@pytest.fixture
def mine(session: Session, rack: Rack) -> Session:
    return replace(session, remote=rack)


@pytest.fixture
def theirs(session: Session, rack: Rack, tmp_path: Path) -> Session:
    """Another checkout of the same site."""
    (tmp_path / "other/runs").mkdir(parents=True)
    return replace(session, remote=rack, run="r-theirs", runs=tmp_path / "other/runs")
