"""One deployed rack for the whole session: a deployment from nothing is the slowest thing these tests do. Clusters are shared, too."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import rack_of
from tests.integration.deployed import HOSTS, NAME, Deployed, add_people, appliance
from tests.integration.kept import Kept


@pytest.fixture(scope="session")
def kept() -> Iterator[Kept]:
    """The rack that modules which follow each other share (SHARED_CLUSTER): raised by the first, gone before the next rack is."""
    found = Kept()
    try:
        yield found
    finally:
        found.leave()


@pytest.fixture(scope="module", autouse=True)
def room(request: pytest.FixtureRequest, kept: Kept) -> None:
    """No module finds the machine busy with a rack that is not its own."""
    kept.only(rack_of(request.node.nodeid))


@pytest.fixture(scope="session")
def deployed() -> Iterator[Deployed]:
    """Raised and deployed once; taken away at the end, whatever happened. Each test leaves it deployed."""
    appliance("lab", "down", "--name", NAME)
    try:
        up = appliance(
            "lab", "up", "--name", NAME, "--count", str(len(HOSTS)), "--json", timeout=600
        )
        assert up.returncode == 0, up.stderr
        site = _site_of(up.stdout)
        add_people(site)
        argv = ("deploy", "--site", str(site), "--yes", "--json")
        yield Deployed(site, appliance(*argv, timeout=900))
    finally:
        down = appliance("lab", "down", "--name", NAME)
    assert down.returncode == 0, down.stderr


def _site_of(status: str) -> Path:
    return Path(json.loads(status)["site"])
