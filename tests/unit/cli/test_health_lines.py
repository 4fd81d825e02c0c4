"""What health says below its findings."""

import pytest

from appliance.cli.health_table import _looked
from appliance.models.result import CheckResult, Status
from appliance.stages.base import ids as base_ids


@pytest.mark.parametrize(
    ("days", "line"),
    [
        ([0.5], ["  Every file of 1 host was unchanged, 0.5 days ago."]),
        ([0.5, 6.2, 3], ["  Every file of 3 hosts was unchanged, 0.5 to 6.2 days ago."]),
        ([], []),
    ],
)
def test_the_age_of_the_hosts_own_looks_is_told(days: list[float], line: list[str]) -> None:
    good = [
        CheckResult(
            id=base_ids.WEEKLY, target=f"h{n}", host=f"h{n}", status=Status.PASS, value=value
        )
        for n, value in enumerate(days)
    ]
    other = CheckResult(id="base.disk", target="h1", status=Status.PASS, value=9)
    found = CheckResult(
        id=base_ids.WEEKLY, target="h9", status=Status.FAIL, value=1, cause="c", fix="f"
    )
    assert list(_looked([*good, other, found])) == line
