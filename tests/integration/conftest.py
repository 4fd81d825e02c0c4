"""One deployed rack for the whole session: a deployment from nothing is the slowest thing these tests do."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.deployed import HOSTS, NAME, Deployed, add_admin, appliance


@pytest.fixture(scope="session")
def deployed() -> Iterator[Deployed]:
    """Raised and deployed once; taken away at the end, whatever happened. Each test leaves it deployed."""
    appliance("lab", "down", "--name", NAME)
    try:
        up = appliance(
            "lab", "up", "--name", NAME, "--hosts", str(len(HOSTS)), "--json", timeout=600
        )
        assert up.returncode == 0, up.stderr
        site = _site_of(up.stdout)
        add_admin(site)
        argv = ("deploy", "--inventory", str(site), "--yes", "--json")
        yield Deployed(site, appliance(*argv, timeout=900))
    finally:
        down = appliance("lab", "down", "--name", NAME)
    assert down.returncode == 0, down.stderr


def _site_of(status: str) -> Path:
    return Path(json.loads(status)["site"])
