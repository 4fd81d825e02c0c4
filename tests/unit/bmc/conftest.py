"""A certificate for all controllers of these tests."""

from pathlib import Path

import pytest

from tests.redfish_server import certificate


@pytest.fixture(scope="session")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Key and certificate of 127.0.0.1."""
    return certificate(tmp_path_factory.mktemp("pem"))
