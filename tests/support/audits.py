"""Audits, as several test modules use it."""

import json

from appliance.models.result import CheckResult, Status
from tests.integration.deployed import Deployed

BAD = frozenset({Status.FAIL, Status.ERROR, Status.WARN})


LOOKS = 20


def bad(rack: Deployed) -> set[str]:
    """All that looks one after another find wrong."""
    found: set[str] = set()
    for _ in range(LOOKS):
        done = rack.program("health", "--json")
        said = [CheckResult.model_validate(item) for item in json.loads(done.stdout)["results"]]
        found |= {f"{r.name}: {r.cause}" for r in said if r.status in BAD}
        assert done.returncode == (1 if found else 0), done.stderr
    return found
