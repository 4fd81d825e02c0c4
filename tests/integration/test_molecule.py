"""Each role on a rack of its own: applied twice, its outcomes looked at, its rack gone afterwards."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters.process import run
from appliance.config import data
from appliance.errors import DeadlineExceeded
from appliance.lab import rack
from appliance.lab.spec import racks
from tests.integration.rack import own_name
from tests.support.molecule_runs import ENVIRONMENT, tail

ROLES = sorted(path.parents[2] for path in data.root().glob("roles/*/molecule/default/verify.yml"))
DEADLINE_SECONDS = 600.0

pytestmark = pytest.mark.molecule


@pytest.fixture(params=ROLES, ids=lambda path: path.name)
def role(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A role with a scenario; no rack of its name stands before or after."""
    found: Path = request.param
    rack.down(_rack(found))
    try:
        yield found
    finally:
        rack.down(_rack(found))


def test_the_role_keeps_its_word_on_a_host(role: Path, tmp_path: Path) -> None:
    log = tmp_path / "molecule.log"
    environment = {
        **ENVIRONMENT,
        "MOLECULE_RACK": _rack(role),
        "MOLECULE_EPHEMERAL_DIRECTORY": str(tmp_path / "molecule"),
    }
    argv = ("sh", "-c", 'exec molecule test >"$0" 2>&1', str(log))
    try:
        done = run(argv, env=environment, cwd=role, timeout=DEADLINE_SECONDS, check=False)
    except DeadlineExceeded:
        pytest.fail(f"not done within {DEADLINE_SECONDS:g} s\n{tail(log)}", pytrace=False)
    if done.returncode:
        pytest.fail(f"molecule test ended with {done.returncode}\n{tail(log)}", pytrace=False)
    assert _rack(role) not in {known.name for known in racks()}


def _rack(role: Path) -> str:
    return own_name(role.name)
